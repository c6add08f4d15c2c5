"""The devices that a run spreads its batches over: those of one process, or of several joined by `jax.distributed`.

The cores of a CPU count as devices of their own: XLA works on one operation of a small model at a time, which two cores
can't share well, but on a part of the batch each.
"""

import json
import os
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lra import hardware, processes
from lra.errors import BadInput

MOST_CORES = 8  # that become devices; with more of them XLA has several cores for each one's operations
COUNT_FLAG = "--xla_force_host_platform_device_count"
PATIENCE_FLAG = "--xla_cpu_collective_call_terminate_timeout_seconds"


def find_devices() -> None:
    """Joins the processes that this run is started in, or makes devices of its cores; before anything else asks jax."""
    if processes.count() > 1:
        join_processes()
    elif hardware.accelerator() is None:
        divide_cores()


def divide_cores() -> None:
    """Makes a device of each core, unless JAX_NUM_CPU_DEVICES or XLA_FLAGS says how many there are."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "JAX_NUM_CPU_DEVICES" not in os.environ and COUNT_FLAG not in flags:
        jax.config.update("jax_num_cpu_devices", min(hardware.describe()["count"], MOST_CORES))
    if PATIENCE_FLAG not in flags:  # else 40 seconds after which a device that waits for others ends the process
        os.environ["XLA_FLAGS"] = f"{flags} {PATIENCE_FLAG}={24 * 3600}"


def join_processes() -> None:
    """Makes one run of several processes."""
    own = "JAX_NUM_PROCESSES" in os.environ  # jax reads the address by itself, and finds its way on Slurm and TPU
    jax.distributed.initialize(
        num_processes=processes.count() if own else None, process_id=processes.number() if own else None
    )
    if processes.alone_on_its_node() and "JAX_LOCAL_DEVICE_IDS" not in os.environ:
        for kind in ("cuda", "rocm"):  # jax has given each task of the Slurm step a single GPU
            jax.config.update(f"jax_{kind}_visible_devices", "all")


class Devices:
    """A row of devices: each takes its part of every batch, and what is trained is the same on all of them.

    Args:
        batch_size: examples in a batch, over all devices.
        pieces: pieces that a device takes its part in, one after the other.

    Raises BadInput when the devices of several processes can't share a batch evenly. A single process uses as many of
    its devices as can.
    """

    def __init__(self, batch_size: int, pieces: int = 1) -> None:
        if batch_size % pieces:
            raise BadInput(f"train.accumulate={pieces} does not divide train.batch_size={batch_size}")
        devices, share = jax.devices(), batch_size // pieces
        count = max(n for n in range(1, len(devices) + 1) if share % n == 0)
        if count < len(devices) and jax.process_count() > 1:
            raise BadInput(f"{len(devices)} devices can't share {share} examples (batch_size / accumulate) evenly")
        mesh = Mesh(np.array(devices[:count]), ("data",))
        self.count, self.processes = count, jax.process_count()
        self.first = jax.process_index() == 0
        self.split, self.whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), ()))

    def spread(self, batch: Any) -> Any:
        """A batch on the host, the same one in every process, to a part on each device."""
        return jax.tree.map(lambda x: jax.make_array_from_callback(x.shape, self.split, x.__getitem__), batch)

    def repeat(self, tree: Any) -> Any:
        """Arrays on the host, the same in every process, to a copy on each device."""
        return jax.tree.map(
            lambda x: jax.make_array_from_callback(np.shape(x), self.whole, np.asarray(x).__getitem__), tree
        )

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process: all must ask at the same place."""
        return flag if self.processes == 1 else bool(np.any(multihost_utils.process_allgather(np.array(flag))))

    def share(self, found: tuple[Any, dict[str, Any]] | None, like: Any) -> tuple[Any, dict[str, Any]] | None:
        """What the first process found, (pytree shaped as `like`, facts for JSON) or None, to all of them."""
        if self.processes == 1:
            return found
        arrays, facts = found or (like, None)
        text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        size = int(multihost_utils.broadcast_one_to_all(np.array(len(text))))
        text = text if self.first else np.zeros(size, np.uint8)
        arrays, text = multihost_utils.broadcast_one_to_all((jax.tree.map(np.asarray, arrays), text))
        facts = json.loads(bytes(np.asarray(text)))
        return None if facts is None else (arrays, facts)
