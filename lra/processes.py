"""The processes that one run is started in, as their environment tells: one, or several that jax.distributed joins.

Recognised are JAX_NUM_PROCESSES (with JAX_PROCESS_ID and JAX_COORDINATOR_ADDRESS), the tasks of a Slurm step, and the
hosts of a TPU slice. jax is not imported.
"""

import os
import re

# of the number of processes, and of a process's own number
_NAMES = (("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"))


def count() -> int:
    """How many there are."""
    return _count_and_number()[0]


def number() -> int:
    """Which one this is, from 0; the first one writes."""
    return _count_and_number()[1]


def alone_on_its_node() -> bool:
    """Whether this is a task of a Slurm step that has one task on each of its nodes."""
    return re.fullmatch(r"1(\(x\d+\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")) is not None


def _count_and_number() -> tuple[int, int]:
    for total, own in _NAMES:
        if total in os.environ:
            return int(os.environ[total]), int(os.environ.get(own, 0))
    hosts = os.environ.get("TPU_WORKER_HOSTNAMES", "").split(",")
    return len(hosts), int(os.environ.get("TPU_WORKER_ID", 0)) if len(hosts) > 1 else 0
