"""Raw data as people have it: looked for in every usual place, and read from archives without unpacking them.

Nothing of an archive is ever written to disk, so a member's name leads nowhere; a name that tries to, and a link in
place of a file, are refused all the same. No pickle is read.
"""

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tasks.download import KnownFile, downloads
from tasks.errors import DataError

_PIECE = 1 << 20


class NotFound(DataError):
    """Nothing is there: the message lists every path tried and says how to get the data."""


@dataclass(frozen=True)
class Found:
    """Where a task's raw data lies.

    Attributes:
        path: a folder or a file.
        kind: what it is, in a word: `folder`, `archive` (tar, compressed or not), `prepared` (by tensorflow-datasets),
            or a task's own word.
    """

    path: Path
    kind: str


class Search:
    """A search that knows the folders people have data in, and remembers what it looked for."""

    def __init__(self, data_dir: str | Path, cache_dir: str | Path) -> None:
        self.data_dir = Path(data_dir).expanduser().absolute()
        release = [self.data_dir.joinpath(*["lra_release"] * depth) for depth in range(4)]  # it unpacks into itself
        prepared = Path(os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")).expanduser()
        self.roots = [*release, prepared, downloads(cache_dir)]
        self._tried: list[str] = []

    def first(self, *names: str, holding: Sequence[str] = ()) -> Path | None:
        """The first of `names` that is there, None if none is.

        Args:
            names: relative paths, the preferred one first; `*` stands for anything, a final `/` for a folder.
            holding: what a folder must hold, all of it, to count.
        """
        for name in names:
            self._tried.append((name + "".join(holding[:1])).removeprefix("./"))
            relative, there = name.rstrip("/"), os.path.isdir if name.endswith("/") else os.path.isfile
            for root in self.roots:
                for path in sorted(root.glob(relative)) if "*" in name else [root / relative]:
                    if there(path) and all(os.path.exists(path / inner) for inner in holding):
                        return path
        return None

    def not_found(self, what: str, task: str, files: Sequence[KnownFile], *more: str) -> NotFound:
        """The error that says what is missing, where it was looked for, and how to get it."""
        lines = [f"{task}: no {what} found. Looked for {', '.join(dict.fromkeys(self._tried))} in"]
        lines += [f"  {root}" for root in self.roots]
        if files:
            lines.append(f"Get it with `make data TASK={task} ARGS=download=true`, or by hand into {self.data_dir}:")
            lines += [f"  {file}" for file in files]
        return NotFound("\n".join([*lines, *more]))


def read_members(
    found: Found,
    wanted: re.Pattern[str],
    read: Callable[[str, IO[bytes]], object],
    known: Iterable[KnownFile] = (),
) -> None:
    """Calls `read(name, content)` for every file whose name matches `wanted`, until it returns True.

    Names are relative to the archive, or to the folder that holds the found one, with `/` between their parts. An
    archive is read once, from front to back; `content` is a stream that ends with the call.

    Raises:
        DataError: a damaged archive (if it is one of `known`, with what it should be), an unsafe name, or a link.
    """
    if found.kind == "folder":
        _read_folder(found.path, wanted, read)
        return
    with (
        _damage_explained(found.path, known),
        _uncompressed(found.path) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it keeps all of them: gigabytes for the LRA release
            if wanted.search(member.name):
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or _leads_outside(member.name):
                    raise DataError(f"{found.path}: the member {member.name!r} is a link or leads outside; not read")
                if read(member.name.removeprefix("./"), content) is True:
                    return
        while stream.read(_PIECE):  # to the checksum at the end
            pass


def _uncompressed(path: Path) -> IO[bytes]:
    """The bytes of a file, decompressed if need be; tarfile's own way to decompress a stream ignores its checksum."""
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else open(path, "rb")  # type: ignore[return-value]


def _read_folder(folder: Path, wanted: re.Pattern[str], read: Callable[[str, IO[bytes]], object]) -> None:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(folder.parent).as_posix()
            if wanted.search(relative):
                with open(path, "rb") as content:
                    if read(relative, content) is True:
                        return


def _leads_outside(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or bool(re.match("[A-Za-z]:", name))


@contextmanager
def _damage_explained(path: Path, known: Iterable[KnownFile]) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the archive's
        expected = next((file for file in known if file.name == path.name), None)
        should = f" It should be {expected}." if expected else ""
        raise DataError(
            f"{path} ({path.stat().st_size:,} bytes) is damaged or no archive: {error}.{should} "
            f"Put a good copy in its place."
        ) from None
