"""Encoded data, built once and memory-mapped ever after.

A finished entry is a folder `<cache_dir>/<task>/<source>-<key>` with three arrays a split and `task.json`, which is
written last. It is built beside its place and renamed into it, under a lock: four processes at once build once, and a
build that is killed leaves nothing that could be taken for a finished one.
"""

import dataclasses
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tasks.errors import DataError
from tasks.task import Source, Split, Task

FORMAT = 1  # of the entries themselves; a task's own `version` says how its examples are encoded
SPLITS = ("train", "validation", "test")

_LONG_SECONDS = 3

Report = Callable[[int, int], None]  # called while building with the work done and the work there is, in any unit

log = logging.getLogger(__name__)


def cached(
    build: Callable[[Report], Task],
    *,
    cache_dir: str | Path,
    name: str,
    version: int,
    source: Source,
    parameters: Mapping[str, Any],
    files: Iterable[Path] = (),
) -> Task:
    """The task that `build` makes, from the cache where it is there, with its arrays memory-mapped.

    Args:
        build: makes the task in memory; its fingerprint is filled in here, from the content.
        cache_dir: where entries live, shared by all tasks.
        name, version, source, parameters: all that the content depends on besides the source's files.
        files: the source's files; an entry stands for their names, sizes and times of change.

    Raises:
        DataError: the cache folder cannot be written, or what `build` raises.
    """
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)]
    identity = json.dumps([FORMAT, version, dict(parameters), stamps], sort_keys=True)
    key = f"{source}-{blake2b(identity.encode(), digest_size=8).hexdigest()}"
    entry = Path(cache_dir).expanduser().absolute() / name / key
    try:
        if entry.exists() and not _damage(entry):
            return _read(entry)
        entry.parent.mkdir(parents=True, exist_ok=True)
        with _locked(entry):
            if entry.exists():
                damage = _damage(entry)
                if not damage:
                    return _read(entry)
                log.warning("the cached %s in %s is damaged (%s); it is built again", name, entry, damage)
                shutil.rmtree(entry)
            unfinished = entry.with_name(f".{key}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)  # whoever left it is dead: the lock is ours
            with _announced(f"{name} ({source})") as report:
                task = _built(build, report)
            try:
                _write(task, unfinished)
                unfinished.rename(entry)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
            return _read(entry)
    except OSError as error:
        raise DataError(
            f"cannot keep the encoded {name} data in {entry.parent}: {error.strerror or error}. "
            "Make room or choose another folder with LRA_CACHE."
        ) from error


def _built(build: Callable[[Report], Task], report: Report) -> Task:
    try:
        return build(report)
    except OSError as error:  # raised here so that it is not taken for a fault of the cache folder
        raise DataError(f"cannot read {error.filename or 'the data'}: {error.strerror or error}") from error


@contextmanager
def _locked(entry: Path) -> Iterator[None]:
    lock = filelock.FileLock(entry.with_name(f".{entry.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        log.warning("another process builds %s; waiting for it", entry)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _announced(what: str) -> Iterator[Report]:
    """A progress bar on a terminal; elsewhere one line, if it took long enough to be wondered at."""
    started = time.monotonic()
    console = Console(stderr=True)
    columns = (TextColumn("preparing {task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
    seconds = time.monotonic() - started
    if seconds > _LONG_SECONDS:
        console.print(f"prepared {what} in {seconds:.1f} s", highlight=False)


def _write(task: Task, folder: Path) -> None:
    folder.mkdir()
    content = blake2b(digest_size=16)
    facts = {f.name: getattr(task, f.name) for f in dataclasses.fields(task) if f.name not in (*SPLITS, "fingerprint")}
    described = [facts[k] for k in ("name", "version", "source", "vocab_size", "num_classes", "max_length", "paired")]
    content.update(json.dumps(described).encode())
    counts = {}
    for name in SPLITS:
        split: Split = getattr(task, name)
        for part, array in (("tokens", split.tokens), ("offsets", split.offsets), ("labels", split.labels)):
            little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            content.update(f"{name} {part} {array.dtype.name} {array.shape}".encode())
            content.update(little_endian.data)
            with open(_array(folder, name, part), "wb") as file:
                np.save(file, little_endian)
                file.flush()
                os.fsync(file.fileno())  # a power cut must not leave an entry whose files are holes
        quantiles = np.quantile(split.lengths, (0, 0.05, 0.5, 0.95, 1)).tolist() if len(split) else []
        counts[name] = {
            "examples": len(split),
            "tokens": len(split.tokens),
            "length_quantiles": quantiles,
            "labels": np.bincount(split.labels, minlength=task.num_classes).tolist(),
        }
    facts |= {"fingerprint": content.hexdigest(), "splits": counts}
    facts["bytes"] = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    with open(folder / "task.json", "w") as file:
        json.dump(facts, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _damage(entry: Path) -> str:
    """What is wrong with an entry, or nothing."""
    try:
        expected = json.loads((entry / "task.json").read_text())["bytes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"task.json: {error}"
    for name, size in expected.items():
        path = entry / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size:,} of {size:,} bytes"
    return ""


def _read(entry: Path) -> Task:
    facts = json.loads((entry / "task.json").read_text())
    del facts["splits"], facts["bytes"]
    facts["skipped_files"] = tuple(facts["skipped_files"])

    def split(name: str) -> Split:
        tokens, offsets, labels = (
            np.load(_array(entry, name, part), mmap_mode="r") for part in ("tokens", "offsets", "labels")
        )
        return Split(tokens, offsets, labels, paired=facts["paired"])

    return Task(**facts, train=split("train"), validation=split("validation"), test=split("test"))


def _array(folder: Path, split: str, part: str) -> Path:
    return folder / f"{split}.{part}.npy"
