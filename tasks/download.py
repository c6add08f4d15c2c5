"""The few files that can be fetched: where from, how large, with which hash. Fetching is optional and resumes.

A file appears under its name only when it is complete and verified; until then it is `<name>.part` beside its place.
"""

import hashlib
import logging
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import filelock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from tasks.errors import DataError

ANSWER_SECONDS = 6  # for a server's first answer, name look-up included; a run without a network must say so at once
SILENCE_SECONDS = 30  # between two pieces of a file
ATTEMPTS = 5  # at one address, as long as each one adds something

_PIECE = 1 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownFile:
    """A published file.

    Attributes:
        name: its own name, under which it is looked for.
        address: where it was published.
        size, sha256: None where nobody has published them; its content is then checked by the reader alone.
        mirrors: other addresses of the same bytes.
    """

    name: str
    address: str
    size: int | None = None
    sha256: str | None = None
    mirrors: tuple[str, ...] = ()

    def __str__(self) -> str:
        facts = f"{self.size:,} bytes, sha256 {self.sha256}" if self.size else "size and hash not published"
        mirrors = f", mirror {', '.join(self.mirrors)}" if self.mirrors else ""
        return f"{self.name} ({facts}) from {self.address}{mirrors}"


def downloads(cache_dir: str | Path) -> Path:
    """The folder that fetched files are kept in; raw data folders are only read."""
    return Path(cache_dir).expanduser().absolute() / "downloads"


def difference(file: KnownFile, path: Path) -> str:
    """What distinguishes the file at `path` from the published one, or nothing."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"received {size:,} bytes, expected {file.size:,} bytes"
    if file.sha256 is not None:
        with open(path, "rb") as content:
            received = hashlib.file_digest(content, "sha256").hexdigest()
        if received != file.sha256:
            return f"received sha256 {received}, expected {file.sha256} (both {size:,} bytes)"
    return ""


def fetch(file: KnownFile, folder: Path) -> Path:
    """The file in `folder`, fetched from its address or a mirror unless it is there; goes on where it was cut off.

    Raises:
        DataError: no address answered, or what came is not the file; says where to put it by hand.
    """
    path = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / f".{file.name}.lock"):
            if path.is_file() and not difference(file, path):
                return path
            failures = []
            for address in (file.address, *file.mirrors):
                failure = _fetch_from(address, file, path)
                if not failure:
                    return path
                failures.append(f"  {address}: {failure}")
    except OSError as error:
        raise DataError(f"cannot write {file.name} into {folder}: {error.strerror or error}") from error
    raise DataError(
        "\n".join([f"could not fetch {file.name}:", *failures, f"Get it elsewhere and put it at {path}: {file}"])
    )


def _fetch_from(address: str, file: KnownFile, path: Path) -> str:
    """Puts the file at `path` if this address has it; otherwise says what came instead."""
    part = path.with_name(f"{path.name}.part")
    for _ in range(ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            total = _receive(address, file, part)
            wrong = difference(file, part) if part.stat().st_size == total or total is None else None
        except _WrongContent as problem:
            wrong = str(problem)
        except _Lost as problem:
            after = part.stat().st_size if part.exists() else 0
            if after <= before:
                return f"{problem}{f'; {after:,} bytes are kept, the same command goes on from there' if after else ''}"
            log.warning("%s: %s after %s bytes; going on from there", address, problem, f"{after:,}")
            continue
        if wrong == "":
            part.replace(path)
            return ""
        if wrong:
            part.unlink(missing_ok=True)
            if not before:  # else what was kept may be the trouble: once more from the start
                return wrong
    return f"the connection was cut {ATTEMPTS} times; the same command goes on from there"


class _Lost(Exception):
    """No answer, or the connection ended."""


class _WrongContent(Exception):
    """An answer that cannot be the file."""


def _receive(address: str, file: KnownFile, part: Path) -> int | None:
    """Appends what is missing to `part`; returns the size that the server states."""
    have = part.stat().st_size if part.exists() else 0
    if file.size is not None and have >= file.size:
        have = 0  # it was not this file
    headers = {"User-Agent": "long-range-arena", **({"Range": f"bytes={have}-"} if have else {})}
    response = _answer(urllib.request.Request(address, headers=headers))
    with closing(response):
        if response.status != 206:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        kind = response.headers.get_content_type()
        expected = f"{file.size:,} bytes" if file.size else "a data file"
        if kind in ("text/html", "application/xhtml+xml"):
            raise _WrongContent(f"received a web page ({_bytes(total)}), expected {expected}")
        if file.size is not None and total is not None and total != file.size:
            raise _WrongContent(f"received {_bytes(total)}, expected {expected}")
        with open(part, "ab" if have else "wb") as out, _progress(file.name, total, have) as advance:
            while piece := _read(response):
                if not have and not out.tell() and piece.lstrip()[:1] == b"<":
                    raise _WrongContent(f"received a web page ({_bytes(total)}), expected {expected}")
                out.write(piece)
                advance(len(piece))
    return total


def _bytes(count: int | None) -> str:
    return "an unknown number of bytes" if count is None else f"{count:,} bytes"


def _answer(request: urllib.request.Request) -> HTTPResponse:
    """The response's head, within ANSWER_SECONDS: a name look-up knows no time-out of its own, hence the thread."""
    outcome: list[HTTPResponse | Exception] = []

    def ask() -> None:
        try:
            outcome.append(urllib.request.urlopen(request, timeout=SILENCE_SECONDS))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    host = urlsplit(request.full_url).hostname
    if not outcome:
        raise _Lost(f"no answer from {host} within {ANSWER_SECONDS} s (no network?)")
    if isinstance(outcome[0], urllib.error.HTTPError):
        raise _WrongContent(f"the server answers {outcome[0].code} {outcome[0].reason}")
    if isinstance(outcome[0], Exception):
        raise _Lost(f"{host} cannot be reached: {getattr(outcome[0], 'reason', outcome[0])} (no network?)")
    return outcome[0]


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read1(_PIECE)
    except (OSError, HTTPException) as error:
        raise _Lost(f"the connection was lost: {error}") from None


@contextmanager
def _progress(name: str, total: int | None, have: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal."""
    columns = (TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    off = not sys.stderr.isatty()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True, disable=off) as bar:
        task = bar.add_task(name, total=total, completed=have)
        yield lambda count: bar.update(task, advance=count)
