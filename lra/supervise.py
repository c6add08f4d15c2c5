"""Runs a child process to its end, its limit or its death, and says in a word what became of it."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lra.child import EXIT_CODES, OUTCOME_FILE, STOP_SIGNALS
from lra.record import read_json
from lra.variants import ROOT

GRACE_SECONDS = 60.0  # for a child that was asked to stop and saves what it has
POLL_SECONDS = 0.05
SIGNALS_APART_SECONDS = 0.5  # a cluster signals every process of a job, the child perhaps before its supervisor


@dataclass(frozen=True)
class Outcome:
    """What became of a child.

    The status is `complete`, `diverged`, `failed`, `out_of_memory`, `timed_out` or `interrupted`, the error one line of
    why.
    """

    status: str
    error: str | None = None


class Supervisor:
    """Runs a child in each thread that asks for one, and passes signals on to them.

    SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 ask the children to stop, once; `interrupted` is set from then on, and `signal`
    is the one that came. `at_once` says how many run side by side.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self.signal: int | None = None
        self.ends = math.inf  # when a child that was asked to stop is waited for no longer
        self.at_once = 1
        self.children: set[subprocess.Popen] = set()
        for number in STOP_SIGNALS:
            signal.signal(number, self._pass_on)

    def stop(self) -> None:
        """Asks the children to stop, as a signal would."""
        if not self.interrupted:
            self.ends = time.monotonic() + GRACE_SECONDS
            self.interrupted = True
            for child in tuple(self.children):
                child.terminate()

    def abandon(self) -> None:
        """Ends the children at once: what one of them writes to belongs to somebody else now."""
        self.interrupted, self.ends = True, 0.0
        for child in tuple(self.children):
            child.kill()

    def run_child(
        self, module: str, folder: Path, *, minutes: float, started: Callable[[int], None] = lambda pid: None
    ) -> Outcome:
        """Runs `python -m module folder` and waits at most `minutes`; `started` is told its process number.

        The child writes `outcome.json` ({status, error}) into `folder` before it exits, unless it is killed.
        """
        if self.interrupted:
            return Outcome("interrupted", "interrupted before it started")
        (folder / OUTCOME_FILE).unlink(missing_ok=True)
        kills_before = _out_of_memory_kills()
        command = [sys.executable, "-m", module, str(folder), str(os.getpid())]
        # In a session of its own: Ctrl-C reaches the supervisor alone, which passes it on.
        child = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        self.children.add(child)
        try:
            started(child.pid)
            self._catch_up(child)
            code = self._wait(child, 60 * minutes)
        finally:
            self._end(child)
            self.children.remove(child)
        if code is None and not self.interrupted:
            return Outcome("timed_out", f"stopped after {minutes:g} minutes")
        return self._outcome(code or 0, read_json(folder / OUTCOME_FILE), kills_before)

    def _wait(self, child: subprocess.Popen, seconds: float) -> int | None:
        """The exit code of the child, None when it has not ended in time."""
        limit = time.monotonic() + seconds
        while (code := child.poll()) is None and time.monotonic() < min(limit, self.ends):
            time.sleep(POLL_SECONDS)
        return code

    def _outcome(self, code: int, said: dict[str, Any] | None, kills_before: int) -> Outcome:
        if said is not None:
            return Outcome("failed" if said["status"] == "bad_input" else said["status"], said["error"])
        if -code in STOP_SIGNALS and not self.interrupted:
            time.sleep(SIGNALS_APART_SECONDS)
        if self.interrupted:
            return Outcome("interrupted", "stopped by a signal")
        if code == -signal.SIGKILL and _out_of_memory_kills() > kills_before:
            return Outcome("out_of_memory", "killed by the kernel: the machine's memory ran out")
        if code < 0:
            return Outcome("failed", f"killed by {signal.Signals(-code).name}")
        status = "interrupted" if code == EXIT_CODES["interrupted"] else "failed"
        return Outcome(status, f"exit code {code}")

    def _end(self, child: subprocess.Popen) -> None:
        """Sees to it that the child is gone: asks it to stop, and kills it if it does not."""
        if child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _catch_up(self, child: subprocess.Popen) -> None:
        """Passes on a signal that came while the child was being started."""
        if self.interrupted:
            child.terminate()

    def _pass_on(self, number: int, frame: Any) -> None:
        self.signal = self.signal or number
        self.stop()


def _out_of_memory_kills() -> int:
    """How often the kernel has killed a process of this machine or container for want of memory."""
    total = 0
    for name in ("/proc/vmstat", "/sys/fs/cgroup/memory.events"):
        try:
            found = re.search(r"^oom_kill (\d+)", Path(name).read_text(), re.MULTILINE)
        except OSError:
            continue
        total += int(found[1]) if found else 0
    return total
