"""Runs a child process to its end, its limit or its death, and says in a word what became of it."""

import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lra.record import read_json
from lra.variants import ROOT

# How a child says what it knows itself; what it can't say any more is read from how it died.
EXIT_STATUS = {0: "complete", 2: "bad_input", 75: "interrupted"}


@dataclass(frozen=True)
class Outcome:
    """What became of a child: `complete`, `diverged`, `bad_input`, `failed`, `out_of_memory`, `timed_out`,
    `interrupted`, with one line of why.
    """

    status: str
    error: str | None = None


def run_child(module: str, folder: Path, *, minutes: float) -> Outcome:
    """Runs `python -m module folder` and waits at most `minutes`.

    The child writes `outcome.json` ({status, error}) into `folder` before it exits, unless it is killed.
    """
    said = folder / "outcome.json"
    said.unlink(missing_ok=True)
    kills_before = _out_of_memory_kills()
    child = subprocess.Popen([sys.executable, "-m", module, str(folder)], cwd=ROOT)
    try:
        code = child.wait(timeout=minutes * 60)
    except subprocess.TimeoutExpired:
        _end(child)
        return Outcome("timed_out", f"stopped after {minutes:g} minutes")
    except KeyboardInterrupt:
        _end(child)
        raise
    content = read_json(said)
    if content is not None:
        return Outcome(content["status"], content["error"])
    if code == -signal.SIGKILL and _out_of_memory_kills() > kills_before:
        return Outcome("out_of_memory", "killed by the kernel: the machine's memory ran out")
    if code < 0:
        return Outcome("failed", f"killed by {signal.Signals(-code).name}")
    return Outcome(EXIT_STATUS.get(code, "failed"), None if code == 0 else f"exit code {code}")


def _end(child: subprocess.Popen) -> None:
    """Asks a child to stop, and kills it ten seconds later."""
    child.terminate()
    try:
        child.wait(timeout=10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


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
