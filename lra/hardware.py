"""What this machine is, read from the system's own files, and how a process uses it: jax is not imported here."""

import ctypes
import os
import platform
import re
from pathlib import Path
from typing import Any

from lra.errors import BadInput

ACCELERATOR_FILES = {"cuda": ("/dev/nvidia0", "/dev/nvidiactl"), "tpu": ("/dev/accel0", "/dev/vfio/0")}


def accelerator() -> str | None:
    """`cuda` or `tpu` if its device files are there and jax has not been told to use the CPU."""
    if os.environ.get("JAX_PLATFORMS", "").split(",")[0] == "cpu":
        return None
    for kind, files in ACCELERATOR_FILES.items():
        if any(Path(file).exists() for file in files):
            return kind
    return None


def describe() -> dict[str, Any]:
    """Name (fit for a folder), kind, model and number of devices, memory of the host in bytes, and host name."""
    kind = accelerator() or "cpu"
    model, count = {"cpu": _cpu, "cuda": _nvidia, "tpu": _tpu}[kind]()
    return {
        "name": re.sub(r"[^a-z0-9]+", "-", f"{model} x{count}".lower()).strip("-"),
        "kind": kind,
        "model": model,
        "count": count,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "host": platform.node(),
    }


def use_cores(count: int) -> None:
    """Keeps this process and its children to `count` cores; `describe` then says so. Raises BadInput for too many.

    The cores with the highest numbers: the first ones serve the system's interrupts.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if count > len(allowed):
        raise BadInput(f"threads={count}: this machine lets us use {len(allowed)} cores")
    os.sched_setaffinity(0, allowed[-count:])


def place() -> str:
    """This machine and those of its devices that are ours, fit for a folder: where one measures at a time."""
    devices = os.environ.get("SLURM_JOB_GPUS") or os.environ.get("CUDA_VISIBLE_DEVICES") or ""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", f"{platform.node()} {devices}").strip("-")


def load_average() -> float | None:
    """Average number of runnable processes over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def keep_freed_memory() -> None:
    """Has the C library (glibc) keep what a step frees for the next one, where large blocks went back to the system.

    To map them anew takes up to a quarter of a step.
    """
    most_mapped, trim_threshold = -4, -1
    if adjust := getattr(ctypes.CDLL(None), "mallopt", None):
        adjust(most_mapped, 0)
        adjust(trim_threshold, -1)


def _cpu() -> tuple[str, int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    model = found[1] if found else platform.processor() or platform.machine()
    return re.sub(r"\((R|TM)\)| CPU| @.*", "", model).strip(), cores


def _nvidia() -> tuple[str, int]:
    cards = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    found = re.search(r"Model:\s*(.+)", cards[0].read_text()) if cards else None
    return (found[1].strip() if found else "NVIDIA GPU"), max(len(cards), 1)


def _tpu() -> tuple[str, int]:
    return os.environ.get("TPU_ACCELERATOR_TYPE", "TPU"), len(list(Path("/dev").glob("accel*"))) or 1
