"""A lease on a run's work folder: one writer at a time, on one machine or on many that share the folder.

The holder's heartbeat keeps the lease alive; the lease of a dead holder is taken over.
"""

import contextlib
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import filelock

from lra.record import write_json

LEASE_FILE = "lease.json"
BEAT_SECONDS = 10.0
DEAD_SECONDS = 90.0  # without a beat, a holder on another machine counts as dead
POLL_SECONDS = 1.0  # between two looks at a holder that is waited for


class Lease:
    """Use as a context: waits for a live holder, then holds `folder` until the end of the block.

    Args:
        folder: the work folder; created if need be.
        say: takes one line for the person who waits.
        lost: called from another thread when somebody else has taken the lease, after this process had been asleep.
        stopped: whether to wait no longer; the block is then entered without the lease.

    Attributes:
        held: whether this process may write to the folder.
    """

    def __init__(
        self, folder: Path, say: Callable[[str], None], lost: Callable[[], None], stopped: Callable[[], bool]
    ) -> None:
        self.path, self.say, self.lost, self.stopped = folder / LEASE_FILE, say, lost, stopped
        self.held = False
        self.owner = uuid.uuid4().hex
        self.processes = [_process(os.getpid())]
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> "Lease":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        announced = False
        while not self.stopped():
            if (holder := self._take()) is None:
                self.held = True
                self._heart.start()
                break
            if not announced:
                self.say(f"{self.path.parent} is in use by {_name(holder)}; waiting for it")
                announced = True
            time.sleep(POLL_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.held:
            return
        self._ended.set()
        self._heart.join()
        with self._guard():
            if self._is_mine():
                self.path.unlink(missing_ok=True)
        self.held = False

    def include(self, pid: int) -> None:
        """Counts a child of this process as a holder too, should it outlive its parent."""
        self.processes.append(_process(pid))
        with self._guard():
            self._write()

    def _take(self) -> dict[str, Any] | None:
        """Takes the lease and returns None, or returns its live holder."""
        with self._guard():
            holder = self._read()
            if holder is not None and _alive(holder):
                return holder
            if holder is not None:
                self.say(f"{_name(holder)} left {self.path.parent} unfinished; taking over")
            self._write()
            return None

    def _guard(self) -> filelock.FileLock:
        return filelock.FileLock(self.path.with_suffix(".lock"))

    def _read(self) -> dict[str, Any] | None:
        try:
            return json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _is_mine(self) -> bool:
        return (self._read() or {}).get("owner") == self.owner

    def _write(self) -> None:
        content = {"owner": self.owner, "host": platform.node(), "processes": self.processes, "beat": time.time()}
        write_json(self.path, content)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError), self._guard():  # a full disk stops the run elsewhere, with a message
                if not self._is_mine():
                    self.held = False
                    self.lost()
                    return
                self._write()


def holder_of(folder: Path) -> dict[str, Any] | None:
    """Who holds the lease on a folder now, alive: {host, processes, beat}; only looks."""
    try:
        holder: dict[str, Any] = json.loads((folder / LEASE_FILE).read_text())
    except (OSError, ValueError):
        return None
    return holder if _alive(holder) else None


def _process(pid: int) -> dict[str, Any]:
    """A process by its number and, since numbers are used again, its start in clock ticks since boot (Linux)."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        started = None if state == "Z" else int(fields[18])  # a zombie has ended, whether its parent asks for it or not
    except (OSError, IndexError, ValueError):
        started = None
    return {"pid": pid, "started": started}


def _name(holder: dict[str, Any]) -> str:
    return f"process {holder['processes'][0]['pid']} on {holder['host']}"


def _alive(holder: dict[str, Any]) -> bool:
    """Whether a holder lives: one of its processes on this machine, its heartbeat elsewhere."""
    if holder["host"] == platform.node() and Path("/proc/self").exists():
        return any(_process(process["pid"]) == process for process in holder["processes"] if process["started"])
    return time.time() - holder["beat"] < DEAD_SECONDS
