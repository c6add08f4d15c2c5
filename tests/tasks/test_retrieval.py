"""AAN pairs: the released literals as they stand, the same from ids and papers, one row wrong at a time."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from tasks import retrieval
from tasks.archives import NotFound
from tasks.errors import DataError
from tasks.retrieval import Papers, read_pairs
from tasks.task import Split, Task
from tests.tasks.raw import TINY_EXAMPLES, aan, without_texts, write_folder, write_tar

ROOT = Path(__file__).parents[2]
TABLES, PAPERS = aan()
ROWS = {name.split(".")[1]: content.splitlines() for name, content in TABLES.items()}


@pytest.fixture(autouse=True)
def _no_other_places(monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))


def load(cache_dir, data_dir, **changes) -> Task:
    keywords: dict[str, Any] = {"max_length": 4000, "decode_literals": False, "examples": TINY_EXAMPLES["retrieval"]}
    return retrieval.load(**{"source": "official", "cache_dir": cache_dir, "data_dir": data_dir} | keywords | changes)


def pairs(split: Split) -> list[tuple[bytes, bytes]]:
    texts = [bytes((split.sequence(i) - 1).astype(np.uint8)) for i in range(2 * len(split))]
    return list(zip(texts[::2], texts[1::2], strict=True))


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Task:
    data = write_folder(tmp_path_factory.mktemp("data"), TABLES)
    return load(tmp_path_factory.mktemp("cache"), data)


def test_the_model_reads_the_literals_as_they_stand(task):
    for split, name in ((task.train, "train"), (task.validation, "eval"), (task.test, "test")):
        columns = [row.split(b"\t") for row in ROWS[name]]
        assert pairs(split) == [(row[3][:4000], row[4][:4000]) for row in columns]
        assert split.labels.tolist() == [int(float(row[0])) for row in columns]
    everything = b"".join(first + second for first, second in pairs(task.train))
    assert b"\\t" in everything, "a tab is written out"
    assert b"\\xc3\\xa9" in everything
    assert {first[:2] for first, _ in pairs(task.train)} <= {b"b'", b'b"'}


def test_the_task_says_what_it_is(task):
    assert (task.name, task.source, task.shape, task.max_length) == ("retrieval", "official", (257, 2, True), 4000)
    long = sum(row.split(b"\t")[1:3].count(b"W01-0001") for rows in ROWS.values() for row in rows)
    assert task.truncated_fraction == long / 24 > 0
    assert (task.skipped_files, set(task.baselines)) == ((), {"majority", "bag_of_tokens"})


def test_a_field_of_140_000_characters_is_read_whole(tmp_path):
    long = load(tmp_path, write_folder(tmp_path / "data", TABLES), max_length=10**6)
    assert long.truncated_fraction == 0
    assert max(long.train.lengths) > 140_000


def test_a_batch_has_two_documents(task):
    batch = task.train.batch(np.array([0, 2]), 4000)
    assert (batch.tokens.shape, batch.lengths.shape, batch.labels.shape) == ((2, 2, 4000), (2, 2), (2,))
    first, second = pairs(task.train)[2]
    assert batch.tokens[1, 0, : len(first)].tolist() == [byte + 1 for byte in first]
    assert batch.lengths[1].tolist() == [len(first), len(second)]


@pytest.mark.parametrize(
    "place",
    [
        "tsv_data",
        "lra_release/tsv_data",
        "lra_release/lra_release/tsv_data",
        "aan",
        "lra_release.gz",
        "lra_release.tar",
    ],
)
def test_every_form_gives_the_same_data(task, tmp_path, place):
    if place.endswith(("gz", "tar")):
        pictures = {f"lra_release/lra_release/pathfinder32/imgs/{i}.png": b"png" for i in range(5)}
        members = {f"lra_release/lra_release/tsv_data/{name}": content for name, content in TABLES.items()}
        write_tar(tmp_path / "data" / place, pictures | members | {"lra_release/z.png": b"png"})
    else:
        write_folder(tmp_path / "data" / place, TABLES)
    assert load(tmp_path / "cache", tmp_path / "data").fingerprint == task.fingerprint


def test_windows_line_ends_change_nothing(task, tmp_path):
    write_folder(tmp_path / "data", {name: content.replace(b"\n", b"\r\n") for name, content in TABLES.items()})
    assert load(tmp_path / "cache", tmp_path / "data").fingerprint == task.fingerprint


# The papers' own bytes


def test_decoded_literals_are_the_papers(tmp_path):
    decoded = load(tmp_path / "cache", write_folder(tmp_path / "data", TABLES), decode_literals=True)
    for split, name in ((decoded.train, "train"), (decoded.test, "test")):
        ids = [[column.decode() for column in row.split(b"\t")[1:3]] for row in ROWS[name]]
        assert pairs(split) == [(PAPERS[first][:4000], PAPERS[second][:4000]) for first, second in ids]


@pytest.mark.parametrize("text", [b"plain", b"b'open", b"'a string'", b"[1]", b"b'\xff'", b"__import__('os')"])
def test_a_text_that_is_no_literal_is_named_when_it_is_to_be_decoded(text):
    lines = [b"0.0\ta\tb\tb'x'\t" + text]
    with pytest.raises(DataError, match=r"^t\.tsv, line 1: a text is no byte-string literal"):
        read_pairs("t.tsv", lines, 1, max_length=10, decode_literals=True)
    split, _ = read_pairs("t.tsv", lines, 1, max_length=100)
    assert pairs(split) == [(b"b'x'", text)], "as they stand, all bytes are as good as others"


# Ids and papers


def write_papers(root: Path, papers=PAPERS, folder="papers_text", tables=TABLES) -> Path:
    write_folder(root / "aan", without_texts(tables))
    return write_folder(root, {f"{folder}/{name}.txt": content for name, content in papers.items()})


@pytest.mark.parametrize("folder", ["papers_text", "aan/papers_text", "papers"])
@pytest.mark.parametrize("decode", [False, True])
def test_ids_and_papers_give_what_the_tables_give(tmp_path, folder, decode):
    joined = load(tmp_path / "a", write_papers(tmp_path / "ids", folder=folder), decode_literals=decode)
    tables = load(tmp_path / "b", write_folder(tmp_path / "tables", TABLES), decode_literals=decode)
    assert joined.fingerprint == tables.fingerprint
    assert joined.truncated_fraction == tables.truncated_fraction


def test_pairs_without_their_papers_are_left_out_and_the_papers_named(task, tmp_path):
    there = {name: content for name, content in PAPERS.items() if name != "W01-0001"}
    joined = load(tmp_path / "cache", write_papers(tmp_path / "data", there))
    assert joined.skipped_files == ("W01-0001.txt",)
    kept = [row for row in ROWS["train"] if b"W01-0001" not in row.split(b"\t")[1:3]]
    assert 0 < len(kept) < 6
    assert len(joined.train) == len(kept)
    assert joined.truncated_fraction == 0


def test_without_any_paper_it_is_an_error(tmp_path):
    write_papers(tmp_path / "data", {"unrelated": b""})
    with pytest.raises(DataError, match=r"not one pair has both its papers in .*papers_text"):
        load(tmp_path / "cache", tmp_path / "data")
    write_folder(tmp_path / "ids only", without_texts(TABLES))
    with pytest.raises(NotFound, match=r"no folder of papers to join .*only_ids\.tsv to found"):
        load(tmp_path / "cache", tmp_path / "ids only")


@pytest.mark.parametrize("identifier", [b"../secret", b"/etc/passwd", b"a/b", b".hidden", b"", b"a\x00b"])
def test_an_id_leads_to_no_other_file(tmp_path, identifier):
    papers = Papers(tmp_path, 10, decode_literals=False)
    line = b"0.0\tP00-1001\t" + (identifier or b"\xff")
    with pytest.raises(DataError, match="is no paper's id"):
        read_pairs("ids.tsv", [line], 1, max_length=10, papers=papers)


# Rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"0.0\ta\tb\tb'x'", "4 columns; a row is label, id1, id2, text1, text2"),
        (b"0.0\ta\tb\tb'x'\tb'y'\tb'z'", "6 columns"),
        (b"<html>", "1 columns"),
        (b"label\tid1\tid2\ttext1\ttext2", "the label b'label' is neither 0 nor 1"),
        (b"0.5\ta\tb\tb'x'\tb'y'", "neither 0 nor 1"),
        (b"nan\ta\tb\tb'x'\tb'y'", "neither 0 nor 1"),
        (b"2\ta\tb\tb'x'\tb'y'", "neither 0 nor 1"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, row, message):
    content = TABLES["new_aan_pairs.eval.tsv"].splitlines()
    broken = b"\n".join([content[0], row, content[2]])
    data = write_folder(tmp_path / "data", TABLES | {"new_aan_pairs.eval.tsv": broken})
    with pytest.raises(DataError, match=rf"new_aan_pairs\.eval\.tsv, line 2: .*{message}"):
        load(tmp_path / "cache", data)


def test_labels_are_read_as_floats(tmp_path):
    lines = [label + b"\ta\tb\tb'x'\tb'y'" for label in (b"0", b"1", b"0.0", b"1.0", b"1e0")]
    split, _ = read_pairs("t.tsv", lines, 5, max_length=10)
    assert split.labels.tolist() == [0, 1, 0, 1, 1]


def test_fewer_rows_are_the_first_and_missing_rows_an_error(tmp_path):
    data = write_folder(tmp_path / "data", TABLES)
    fewer = load(tmp_path / "cache", data, examples={"train": 2, "validation": 1, "test": 1})
    assert [len(split) for split in (fewer.train, fewer.validation, fewer.test)] == [2, 1, 1]
    with pytest.raises(
        DataError, match=r"new_aan_pairs\.train\.tsv: 6 of 147,086 examples are there; it is incomplete"
    ):
        load(tmp_path / "cache", data, examples={})


def test_tables_belong_together(tmp_path):
    write_folder(tmp_path / "data", {name: text for name, text in TABLES.items() if "eval" not in name})
    with pytest.raises(
        NotFound, match=r"data/new_aan_pairs\.train\.tsv is there, but the three tables belong together"
    ):
        load(tmp_path / "cache", tmp_path / "data")
    write_folder(tmp_path / "data" / "lra_release" / "tsv_data", TABLES)
    assert len(load(tmp_path / "cache", tmp_path / "data").train) == 6, "an incomplete place hides no complete one"
    write_tar(tmp_path / "tar" / "lra_release.gz", {"x/new_aan_pairs.train.tsv": TABLES["new_aan_pairs.train.tsv"]})
    with pytest.raises(DataError, match=r"lra_release\.gz lacks new_aan_pairs\."):
        load(tmp_path / "cache", tmp_path / "tar")


def test_missing_data_says_what_to_do(tmp_path):
    with pytest.raises(NotFound) as error:
        load(tmp_path / "cache", tmp_path)
    for fact in (
        "TASK=retrieval ARGS=download=true",
        "lra_release.gz",
        "7.7 GB",
        *(file.address for file in retrieval.FILES),
    ):
        assert fact in str(error.value)
    assert len(str(error.value).splitlines()) < 15


def test_the_configuration_lists_every_keyword():
    config: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "configs/task/retrieval.yaml"))
    assert config.pop("_target_") == "tasks.retrieval.load"
    assert set(config) == set(inspect.signature(retrieval.load).parameters)
    assert (config["max_length"], config["decode_literals"]) == (4000, False)
    assert retrieval.FULL_SIZES == {"train": 147_086, "validation": 18_090, "test": 17_437}
    with pytest.raises(DataError, match="unknown source 'packaged'; it is official or surrogate"):
        retrieval.locate("packaged", data_dir=".", cache_dir=".")
