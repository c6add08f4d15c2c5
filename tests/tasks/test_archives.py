"""Raw data is found wherever people have it, and archives are read without a trace and without trust."""

import ast
import re
import tarfile
from pathlib import Path
from typing import IO

import pytest

from tasks.archives import Found, NotFound, Search, read_members
from tasks.download import KnownFile
from tasks.errors import DataError
from tests.tasks.raw import write_folder, write_tar

ROOT = Path(__file__).parents[2]
FILES = {"set/a.txt": b"first", "set/sub/b.txt": b"second", "set/c.bin": b"other"}
TEXTS = re.compile(r"\.txt$")
KNOWN = KnownFile("set.tar.gz", "http://example.org/set.tar.gz", 1234, "ab" * 32, ("http://mirror.example.org/set",))


def content_of(found: Found, wanted=TEXTS, **keywords) -> dict[str, bytes]:
    read = {}
    read_members(found, wanted, lambda name, content: read.update({name: content.read()}), **keywords)
    return read


# Searching


@pytest.fixture
def search(tmp_path, monkeypatch) -> Search:
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    return Search(tmp_path / "data", tmp_path / "cache")


RELEASE = "lra_release"
PLACES = ["data", *("/".join(["data", *[RELEASE] * depth]) for depth in (1, 2, 3)), "tfds"]


@pytest.mark.parametrize("place", [*PLACES, "cache/downloads"])
def test_a_file_is_found_in_every_place_people_have_it(search, tmp_path, place):
    assert search.first("tsv_data/x.tsv") is None
    write_folder(tmp_path / place, {"tsv_data/x.tsv": b""})
    assert search.first("y.tsv", "tsv_data/x.tsv") == tmp_path / place / "tsv_data/x.tsv"
    assert search.first("tsv_data/") == tmp_path / place / "tsv_data"
    assert search.first("*data/", holding=["x.tsv"]) == tmp_path / place / "tsv_data"
    assert search.first("tsv_data") is None, "a folder is no file"
    assert search.first("tsv_data/", holding=["x.tsv", "z.tsv"]) is None


def test_the_preferred_name_wins_over_the_nearer_place(search, tmp_path):
    write_folder(tmp_path, {"data/second": b"", "cache/downloads/first": b""})
    assert search.first("first", "second") == tmp_path / "cache/downloads/first"


def test_what_is_missing_is_listed_with_every_path_and_the_way_to_get_it(search, tmp_path):
    search.first("a.tsv", "sub/a.tsv")
    search.first("set/", "./", holding=["train", "test"])
    error = search.not_found("pairs", "toy", [KNOWN], "Or make them yourself.")
    assert isinstance(error, NotFound)
    lines = str(error).splitlines()
    assert lines[0] == "toy: no pairs found. Looked for a.tsv, sub/a.tsv, set/train, train in"
    assert lines[1:7] == [f"  {tmp_path / place}" for place in [*PLACES, "cache/downloads"]]
    assert "`make data TASK=toy ARGS=download=true`" in lines[7]
    assert str(tmp_path / "data") in lines[7]
    for fact in ("set.tar.gz", "1,234 bytes", "sha256 " + "ab" * 32, *KNOWN.mirrors, KNOWN.address):
        assert fact in lines[8]
    assert lines[9] == "Or make them yourself."


def test_a_home_folder_is_spelled_out(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Search("~/data", "~/cache").roots[0] == tmp_path / "data"


# Reading


@pytest.mark.parametrize("name", ["set.tar", "set.tar.gz", "set.gz"])
def test_an_archive_and_its_folder_give_the_same_files(tmp_path, name):
    expected = {"set/a.txt": b"first", "set/sub/b.txt": b"second"}
    archive = write_tar(tmp_path / name, FILES)
    before = sorted(tmp_path.iterdir())
    assert content_of(Found(archive, "archive")) == expected
    assert sorted(tmp_path.iterdir()) == before, "nothing is unpacked"
    folder = write_folder(tmp_path / "unpacked", FILES) / "set"
    assert content_of(Found(folder, "folder")) == expected


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_reading_ends_when_enough_is_read(tmp_path, kind):
    archive = write_tar(tmp_path / "set.tar", FILES)
    folder = write_folder(tmp_path / "unpacked", FILES) / "set"
    seen: list[str] = []

    def read(name, content):
        seen.append(name)
        return True

    read_members(Found(archive if kind == "archive" else folder, kind), TEXTS, read)
    assert seen == ["set/a.txt"]


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "set/../../evil.txt", "..\\evil.txt", "C:\\evil.txt"])
def test_a_name_that_leads_outside_is_refused(tmp_path, name):
    archive = write_tar(tmp_path / "deep" / "set.tar.gz", {"set/a.txt": b"good", name: b"evil"})
    with pytest.raises(DataError, match=r"set\.tar\.gz: the member .*evil\.txt' is a link or leads outside"):
        content_of(Found(archive, "archive"))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["set.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    member = tarfile.TarInfo("set/link.txt")
    member.type, member.linkname = kind, str(tmp_path / "secret.txt")
    (tmp_path / "secret.txt").write_text("secret")
    archive = write_tar(tmp_path / "set.tar", {"set/a.txt": b"good"}, [member])
    with pytest.raises(DataError, match=r"the member 'set/link\.txt' is a link"):
        content_of(Found(archive, "archive"))
    assert content_of(Found(archive, "archive"), re.compile("a.txt$")) == {"set/a.txt": b"good"}, "others are ignored"


@pytest.mark.parametrize(
    "damage", [lambda b: b"<html>404</html>", lambda b: b"", lambda b: b[:-40], lambda b: b[:60], lambda b: flipped(b)]
)
def test_a_damaged_archive_is_named_with_what_it_should_be(tmp_path, damage):
    whole = write_tar(tmp_path / "set.tar.gz", {"set/a.txt": bytes(range(256)) * 40, "set/b.txt": b"b"}).read_bytes()
    (tmp_path / "set.tar.gz").write_bytes(damage(whole))
    size = len(damage(whole))
    with pytest.raises(DataError) as error:
        content_of(Found(tmp_path / "set.tar.gz", "archive"), known=[KNOWN])
    text = str(error.value)
    assert text.startswith(f"{tmp_path / 'set.tar.gz'} ({size:,} bytes) is damaged or no archive: ")
    for fact in ("1,234 bytes", "ab" * 32, KNOWN.address, "Put a good copy in its place"):
        assert fact in text
    with pytest.raises(DataError) as error:
        content_of(Found(tmp_path / "set.tar.gz", "archive"))
    assert "It should be" not in str(error.value)


def flipped(content: bytes) -> bytes:
    """With a few bytes in the middle of the compressed data changed."""
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 255 for byte in content[middle : middle + 8]) + content[middle + 8 :]


def test_a_reader_s_own_error_passes_through(tmp_path):
    def read(name, content):
        raise DataError("the third row is wrong")

    with pytest.raises(DataError, match=r"^the third row is wrong$"):
        read_members(Found(write_tar(tmp_path / "set.tar", FILES), "archive"), TEXTS, read)


def test_no_more_than_one_member_is_remembered(tmp_path, monkeypatch):
    """The released archive has more than a million; tarfile would keep each one's description."""
    most = 0
    following = tarfile.TarFile.next

    def watched(self):
        nonlocal most
        most = max(most, len(self.members))
        return following(self)

    archive = write_tar(tmp_path / "set.tar", {f"set/{i}.png": b"" for i in range(50)} | {"set/z.txt": b"last"})
    monkeypatch.setattr(tarfile.TarFile, "next", watched)
    assert content_of(Found(archive, "archive")) == {"set/z.txt": b"last"}
    assert most <= 1


def test_nothing_loads_a_pickle_or_runs_what_it_reads():
    """No room reads data with pickle, and numpy's switch for it stays off."""
    names = {"pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
    for file in (ROOT / "tasks").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
                assert not {name.split(".")[0] for name in found} & names, file
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("eval", "exec", "compile"), file
                for keyword in node.keywords:
                    assert keyword.arg != "allow_pickle" or ast.unparse(keyword.value) == "False", file


def test_the_stream_ends_with_its_turn(tmp_path):
    kept: list[IO[bytes]] = []
    read_members(
        Found(write_folder(tmp_path, FILES) / "set", "folder"), TEXTS, lambda name, content: kept.append(content)
    )
    assert [stream.closed for stream in kept] == [True, True]
