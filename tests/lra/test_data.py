"""`python -m lra.data`: finds, fetches, checks, encodes and describes; says in a few lines what is missing."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lra.config import compose_run
from lra.data import batches_per_second, main, prepare
from tasks import listops, text
from tasks.download import KnownFile
from tests.tasks.raw import TINY_EXAMPLES, aan, cifar, imdb, write_folder, write_tar
from tests.tasks.server import serving

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _only_here(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def examples(task: str) -> list[str]:
    return [f"task.examples.{name}={size}" for name, size in TINY_EXAMPLES[task].items()]


def places(root: Path) -> list[str]:
    return [f"data_dir={root / 'data'}", f"cache_dir={root / 'cache'}"]


def test_it_says_what_the_data_is(tmp_path, capsys):
    archive = write_tar(tmp_path / "data" / "aclImdb_v1.tar.gz", imdb())
    words = ["task=text", "preset=lra", *examples("text"), *places(tmp_path)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "text, source official, preset lra" in said
    for name, count in TINY_EXAMPLES["text"].items():
        (row,) = [line for line in said.splitlines() if line.startswith(f"│ {name} ")]
        assert row.split("│")[2].strip() == str(count)
    for fact in (
        f"from archive {archive} (not the published file: received ",
        "expected 84,125,825 bytes",
        "2 classes",
    ):
        assert fact in said
    for fact in (
        "majority 50.0 %, bag of tokens ",
        "0.0 % of the sequences are cut at 1,000 tokens",
        "skipped files: none",
    ):
        assert fact in said
    assert "encoded in " in said
    assert " tokens/s)" in said
    assert " batches of 32 a second" in said
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "from the cache in " in again
    assert again.split("fingerprint")[1] == said.split("fingerprint")[1]


def test_the_published_file_is_known_by_its_hash(tmp_path, monkeypatch):
    archive = write_tar(tmp_path / "data" / "aclImdb_v1.tar.gz", imdb())
    content = archive.read_bytes()
    file = KnownFile("aclImdb_v1.tar.gz", "http://x", len(content), hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(text, "FILES", (file,))
    overrides = ["model=local", "task=text", "preset=lra", "seed=0", *examples("text"), *places(tmp_path)]
    prepared = prepare(compose_run(overrides))
    assert prepared.check == "the published file, by its sha256"
    assert prepared.built
    assert not prepare(compose_run(overrides)).built


def test_missing_papers_are_named_but_not_all_of_them(tmp_path, capsys):
    tables, papers = aan()
    columns = [row.split(b"\t") for row in tables["new_aan_pairs.train.tsv"].splitlines()]
    ids = b"".join(b"\t".join(row[:3]) + b"\n" for row in columns) + b"".join(
        b"0.0\tX%02d\tP00-1001\n" % number for number in range(8)
    )
    others = {f"new_aan_pairs.{name}.only_ids.tsv": b"1.0\tP00-1001\tP00-1002\n" for name in ("eval", "test")}
    write_folder(tmp_path / "data", {"new_aan_pairs.train.only_ids.tsv": ids} | others)
    write_folder(tmp_path / "data", {f"papers_text/{name}.txt": content for name, content in papers.items()})
    sizes = ["task.examples.train=14", "task.examples.validation=1", "task.examples.test=1"]
    assert main(["task=retrieval", *sizes, *places(tmp_path)]) == 0
    assert "skipped files: 8 (X00.txt, X01.txt, X02.txt, X03.txt, X04.txt and 3 more)" in capsys.readouterr().out


def test_one_task_s_missing_data_does_not_keep_the_others(tmp_path, capsys):
    write_tar(tmp_path / "data" / "cifar-10-binary.tar.gz", cifar()[0])
    sizes = ["task.examples.train=40", "task.examples.validation=3", "task.examples.test=3"]
    assert main(["task=retrieval,image", *sizes, *places(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "image, source official" in said.out
    assert said.err.startswith("lra.data: retrieval: no AAN pairs (source=official) found. Looked for ")


def test_generated_data_needs_no_file(tmp_path, capsys):
    small = ["task.max_length=24", "task.min_length=3", "task.max_depth=3", "task.max_args=3", "task.examples.train=50"]
    small += ["task.examples.validation=5", "task.examples.test=5", *places(tmp_path)]
    assert main(["task=listops", "preset=mini", *small]) == 0
    said = capsys.readouterr().out
    assert "\n  generated here\n" in said
    assert "root operator " in said
    assert listops.locate("generated", data_dir=".", cache_dir=".") is None


# Fetching


def published(address: str, content: bytes) -> tuple[KnownFile, ...]:
    return (KnownFile("aclImdb_v1.tar.gz", address, len(content), hashlib.sha256(content).hexdigest()),)


def test_download_fetches_what_is_missing_once(tmp_path, monkeypatch, capsys):
    content = write_tar(tmp_path / "elsewhere.tar.gz", imdb()).read_bytes()
    words = ["task=text", *examples("text"), *places(tmp_path)]
    with serving(lambda request: request.send_from(content, request.wanted)) as (address, asked):
        monkeypatch.setattr(text, "FILES", published(address, content))
        assert main(words) == 2, "nothing is fetched without being asked for"
        assert main([*words, "download=false"]) == 2
        assert asked == []
        assert main([*words, "download=true"]) == 0
        assert main([*words, "download=true"]) == 0
    assert asked == [0]
    where = tmp_path / "cache" / "downloads" / "aclImdb_v1.tar.gz"
    assert f"from archive {where} (the published file, by its sha256)" in capsys.readouterr().out
    assert not (tmp_path / "data").exists(), "raw data folders are only read"
    assert main(words) == 0


def test_a_wrong_file_is_named_and_nothing_half_made_stays(tmp_path, monkeypatch, capsys):
    page = b"<html>moved</html>"
    with serving(lambda request: request.send(page, kind="text/html")) as (address, _):
        monkeypatch.setattr(text, "FILES", published(address, b"the real one"))
        assert main(["task=text", "download=true", *places(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"{address}: received a web page (18 bytes), expected 12 bytes" in said
    assert f"put it at {tmp_path / 'cache' / 'downloads' / 'aclImdb_v1.tar.gz'}" in said
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".aclImdb_v1.tar.gz.lock"]


@pytest.mark.parametrize(
    "words", [["download=yes"], ["download="], ["task=txet"], ["preset=lar"], ["task.max_lenth=3"]]
)
def test_bad_options_are_answered_in_one_line(words, capsys):
    assert main(["task=text", *words] if "task=txet" not in words else words) == 2
    said = capsys.readouterr().err
    assert said.startswith("lra.data: ")
    assert len(said.splitlines()) == 1


def test_interruption_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(**keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(listops, "load", interrupted)
    assert main(["task=listops", *places(tmp_path)]) == 75
    assert "the same command goes on from here" in capsys.readouterr().err


# As a person meets it


def command(module: str, *words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    before = os.times()
    done = subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, capture_output=True, text=True, timeout=120)
    after = os.times()
    return done, after.children_user + after.children_system - before.children_user - before.children_system


def test_bench_without_data_explains_and_starts_nothing(tmp_path):
    """Exit code 2 after less than 5 seconds of work, with every path tried and the way to get the data."""
    results = [f"results={tmp_path / 'results'}", f"work_dir={tmp_path / 'work'}", *places(tmp_path)]
    done, seconds = command("lra.bench", "model=transformer", "task=retrieval", "preset=lra", *results)
    assert done.returncode == 2
    assert seconds < 5
    lines = done.stderr.splitlines()
    assert len(lines) < 15
    for fact in (*(str(tmp_path / place) for place in ("data", "data/lra_release", "data/lra_release/lra_release")),):
        assert f"  {fact}" in lines
    for fact in (
        "new_aan_pairs.train.tsv",
        "make data TASK=retrieval ARGS=download=true",
        "lra_release.gz",
        "https://",
    ):
        assert fact in done.stderr
    assert [path for path in (tmp_path / "results").rglob("*") if path.is_file()] == []
    assert not (tmp_path / "work" / "runs").exists()


def test_download_without_a_network_says_so_within_20_seconds(tmp_path):
    """Every address is behind a proxy where nobody listens, as in all tests."""
    started = time.monotonic()
    done, _ = command("lra.data", "task=text", "download=true", *places(tmp_path))
    assert time.monotonic() - started < 20
    assert done.returncode == 2
    assert "ai.stanford.edu cannot be reached" in done.stderr
    assert "(no network?)" in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_batches_are_counted_by_gathering_them(tmp_path):
    write_tar(tmp_path / "data" / "aclImdb_v1.tar.gz", imdb())
    overrides = ["model=local", "task=text", "preset=lra", "seed=0", *examples("text"), *places(tmp_path)]
    task = prepare(compose_run(overrides)).task
    assert batches_per_second(task, 4) > batches_per_second(task, 400) > 0
