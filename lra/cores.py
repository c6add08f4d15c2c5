"""The cores of a CPU, divided among runs that train side by side: where there is room, no two runs share a core."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import filelock
import joblib

from lra import hardware

MEMORY_EACH = 2**31  # bytes for each of the runs that train side by side
CLAIMS = Path(tempfile.gettempdir()) / f"lra-cores-{os.getuid()}"  # a lock for each core that somebody trains on
MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def divide(size: int | None, most: int, claims: contextlib.ExitStack) -> list[set[int]]:
    """At most `most` groups of `size` of this process's cores, claimed until `claims` is closed.

    Those that nobody else has claimed, or if there is none of these, any; as many as memory and the limits of a
    container allow. None at all where work is not divided by cores: without a size, with an accelerator, or where the
    system does not keep processes to cores.
    """
    if size is None or hardware.accelerator() or not hasattr(os, "sched_setaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    size = min(size, len(cores))
    groups = [set(cores[first : first + size]) for first in range(0, len(cores) - size + 1, size)]
    most = max(1, min(most, joblib.cpu_count() // size, memory() // MEMORY_EACH))
    return _claimed(groups, most, claims) or groups[:most]


def keep_to(cores: set[int]) -> None:
    """Keeps this thread, and the processes that it starts, to these cores."""
    os.sched_setaffinity(0, cores)


def memory() -> int:
    """Bytes of memory that this machine has, or that the container we are in may use."""
    limits = [hardware.describe()["memory_bytes"]]
    for path in MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


def _claimed(groups: Sequence[set[int]], most: int, claims: contextlib.ExitStack) -> list[set[int]]:
    CLAIMS.mkdir(exist_ok=True)
    found: list[set[int]] = []
    for group in groups:
        if len(found) < most:
            with contextlib.ExitStack() as held, contextlib.suppress(filelock.Timeout):
                for core in sorted(group):
                    held.enter_context(filelock.FileLock(CLAIMS / str(core)).acquire(timeout=0))
                claims.push(held.pop_all())
                found.append(group)
    return found
