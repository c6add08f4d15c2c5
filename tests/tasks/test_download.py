"""Files are fetched whole and verified, or not at all; against a server that misbehaves in every way we have met."""

import hashlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tasks import download
from tasks.download import KnownFile, difference, downloads, fetch
from tasks.errors import DataError
from tests.tasks.server import Request, serving

CONTENT = bytes(range(256)) * 40_000  # 10 MB: more than a socket's buffers hold
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAGE = b"<!DOCTYPE html><html><body>We have moved.</body></html>"


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def known(address: str, *mirrors: str, **changes) -> KnownFile:
    facts: dict[str, Any] = {"size": len(CONTENT), "sha256": SHA256} | changes
    return KnownFile("set.tar.gz", address, mirrors=mirrors, **facts)


def right(request: Request) -> None:
    request.send_from(CONTENT, request.wanted)


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")} if folder.exists() else set()


def failure(file: KnownFile, folder: Path, left: set[str] = frozenset()) -> str:  # type: ignore[assignment]
    """The message of a fetch that fails and leaves exactly `left`; it always says where to put the file by hand."""
    with pytest.raises(DataError) as error:
        fetch(file, folder)
    text = str(error.value)
    assert left_in(folder) == left
    for fact in (file.address, str(folder / file.name), str(file)):
        assert fact in text
    return text


def test_the_right_file_is_fetched_once(tmp_path):
    with serving(right) as (address, asked):
        file = known(address)
        for _ in range(2):
            assert fetch(file, tmp_path / "downloads").read_bytes() == CONTENT
    assert asked == [0]
    assert left_in(tmp_path / "downloads") == {"set.tar.gz"}
    assert difference(file, tmp_path / "downloads" / "set.tar.gz") == ""


def test_a_wrong_file_in_its_place_is_fetched_anew(tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(PAGE)
    with serving(right) as (address, _):
        assert fetch(known(address), tmp_path).read_bytes() == CONTENT


def test_changed_bytes_are_thrown_away(tmp_path):
    changed = CONTENT[:-1] + b"x"
    with serving(lambda request: request.send(changed)) as (address, _):
        text = failure(known(address), tmp_path)
    assert f"received sha256 {hashlib.sha256(changed).hexdigest()}, expected {SHA256} (both 10,240,000 bytes)" in text


def test_another_size_is_refused_before_it_is_read(tmp_path):
    with serving(lambda request: request.send(b"", declared=10**12)) as (address, _):
        text = failure(known(address), tmp_path)
    assert "received 1,000,000,000,000 bytes, expected 10,240,000 bytes" in text


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream"])
@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_web_page_is_named_as_one(tmp_path, kind, size):
    page = PAGE.ljust(size or 0)
    with serving(lambda request: request.send(page, kind=kind)) as (address, _):
        text = failure(known(address, size=size, sha256=SHA256 if size else None), tmp_path)
    expected = "10,240,000 bytes" if size else "a data file"
    assert f"received a web page ({len(page):,} bytes), expected {expected}" in text


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_refusal_is_named(tmp_path, status):
    with serving(lambda request: request.send(PAGE, status=status)) as (address, _):
        assert f"{address}: the server answers {status} " in failure(known(address), tmp_path)


def test_a_cut_connection_goes_on_where_it_was(tmp_path):
    def cut(request):
        request.send_from(CONTENT, request.wanted, request.wanted + 4_000_000)

    with serving(cut) as (address, asked):
        assert fetch(known(address), tmp_path).read_bytes() == CONTENT
    assert asked == [0, 4_000_000, 8_000_000]


def test_what_was_fetched_is_kept_for_the_next_command(tmp_path):
    def dead_after_a_while(request):
        request.send_from(CONTENT, request.wanted, max(request.wanted, 3_000_000))

    with serving(dead_after_a_while) as (address, _):
        text = failure(known(address), tmp_path, {"set.tar.gz.part"})
    assert "the same command goes on from there" in text
    with serving(right) as (address, asked):
        assert fetch(known(address), tmp_path).read_bytes() == CONTENT
    assert asked == [3_000_000]
    assert left_in(tmp_path) == {"set.tar.gz"}


def test_a_server_that_cannot_resume_sends_all_of_it(tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT[:1000])
    with serving(lambda request: request.send(CONTENT)) as (address, asked):
        assert fetch(known(address), tmp_path).read_bytes() == CONTENT
    assert asked == [1000]


@pytest.mark.parametrize("kept", [b"of another file", CONTENT + b"too long", b"x" * len(CONTENT)])
@pytest.mark.parametrize("sized", [True, False])
def test_a_wrong_beginning_is_given_up(tmp_path, kept, sized):
    """Left by another version of the file: what it makes is wrong, so it is fetched once more from the start."""

    def strict(request):
        request.send(PAGE, status=416) if request.wanted >= len(CONTENT) else right(request)

    (tmp_path / "set.tar.gz.part").write_bytes(kept)
    with serving(strict) as (address, _):
        assert fetch(known(address, **({} if sized else {"size": None})), tmp_path).read_bytes() == CONTENT


def test_a_mirror_steps_in(tmp_path):
    with serving(lambda request: request.send(PAGE, status=403)) as (closed, _), serving(right) as (mirror, _):
        assert fetch(known(closed, mirror), tmp_path).read_bytes() == CONTENT
        text = failure(known(closed, closed + "?mirror"), tmp_path / "other")
    assert text.count("the server answers 403") == 2


def test_a_file_whose_hash_nobody_published_is_taken_as_it_comes(tmp_path):
    with serving(right) as (address, _):
        assert fetch(known(address, size=None, sha256=None), tmp_path).read_bytes() == CONTENT


def test_without_a_network_it_says_so_at_once(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}/set.tar.gz"
        text = failure(known(address), tmp_path)
    assert "127.0.0.1 cannot be reached: [Errno 111] Connection refused (no network?)" in text


def test_a_server_that_never_answers_is_left(tmp_path, monkeypatch):
    """The same holds for a name look-up that hangs, which no socket's time-out ends."""
    monkeypatch.setattr(download, "ANSWER_SECONDS", 0.3)
    over = threading.Event()

    def hang(request: Request) -> None:
        over.wait(10)

    with serving(hang) as (address, _):
        started = time.monotonic()
        assert "no answer from 127.0.0.1 within 0.3 s (no network?)" in failure(known(address), tmp_path)
        assert time.monotonic() - started < 5
        over.set()


def test_no_network_is_known_within_20_seconds():
    """Every known file has one mirror at most: what is waited for in the worst case, before the first byte."""
    from tasks import image, retrieval, text

    for files in (text.FILES, image.FILES, retrieval.FILES):
        assert (1 + max(len(file.mirrors) for file in files)) * download.ANSWER_SECONDS <= 12


def test_four_at_once_fetch_once(tmp_path):
    with serving(right) as (address, asked):
        threads = [threading.Thread(target=fetch, args=(known(address), tmp_path)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert asked == [0]
    assert (tmp_path / "set.tar.gz").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write set\.tar\.gz into .*downloads: Not a directory"):
        fetch(known("http://127.0.0.1:1/"), tmp_path / "file" / "downloads")


def test_known_files_are_those_that_tensorflow_datasets_knows():
    """Sizes and hashes are copied; here they are held against the registered ones."""
    import importlib.util

    from tasks import image, text

    spec = importlib.util.find_spec("tensorflow_datasets")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    registered = {}
    for file in ("datasets/imdb_reviews/checksums.tsv", "url_checksums/cifar10.txt"):
        for line in (package / file).read_text().splitlines():
            address, size, sha256, name = line.split()
            registered[name] = (address, int(size), sha256)
    for (known_file,) in (text.FILES, image.FILES):
        expected = registered[known_file.name]
        assert (known_file.address, known_file.size, known_file.sha256) == expected


def test_downloads_go_into_the_cache_and_never_into_raw_data():
    assert downloads("~/x") == Path("~/x/downloads").expanduser()
