"""The child that measures one cell: `python -m lra.speed <work folder> <parent>`.

A cell is one variant, length, batch size, mode and precision.

The work is byte-level text classification, as in Table 2 of the LRA paper (Tay et al. 2020,
https://arxiv.org/abs/2011.04006). A process of its own, so that peak memory is this cell's and nobody else's.
"""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lra import child
from lra.build import build_classifier, variant_class
from lra.config import BenchConfig
from lra.flops import program_flops
from lra.hardware import load_average
from lra.record import write_json
from lra.step import TrainState, make_predict, make_train_step, split_model
from tasks.task import Batch

VOCAB_SIZE, NUM_CLASSES = 257, 2  # bytes and padding; positive or negative
WARM_UP, FEWEST = 1, 4  # runs before and at least during the measurement
STABLE = 0.02  # the medians of the even and the odd repetitions differ by no more than this share
PATIENCE = 4.0  # times `speed.seconds`, after which a restless machine is taken as it is
PEAK_SIZE = 2048  # of the square matrices whose product shows what the device can do


class Cell(NamedTuple):
    """The compiled step of a cell with its arguments, its matrix operations, and the seconds of compilation."""

    compiled: Any
    arguments: tuple[Any, ...]
    flops: float
    compile_seconds: float

    @property
    def argument_bytes(self) -> int:
        """Memory of the arguments: parameters, optimiser, batch."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.arguments))


def compile_cell(config: BenchConfig, mode: str, length: int) -> Cell:
    """Builds the model and compiles the step `mode` (train or inference) for one length."""
    precision = config.speed.precision
    model = build_classifier(
        config.model,
        config.speed.encoder,
        max_length=length,
        vocab_size=VOCAB_SIZE,
        num_classes=NUM_CLASSES,
        precision=precision,
        seed=config.seed,
    )
    graph, params, rest = split_model(model)
    batch = random_batch(config.speed.batch_size, length)
    if mode == "train":
        optimiser = optax.adamw(1e-4)
        arguments: tuple[Any, ...] = (
            TrainState(params, rest, optimiser.init(params), jnp.zeros((), jnp.int32)),
            batch,
        )
        program = jax.jit(make_train_step(graph, optimiser, jax.random.key(0)), donate_argnums=0)
    else:
        arguments = (params, rest, batch)
        program = jax.jit(make_predict(graph))
    started = time.perf_counter()
    traced = program.trace(*arguments)
    compiled = traced.lower().compile()
    seconds = time.perf_counter() - started
    return Cell(compiled, arguments, program_flops(traced), seconds)


def random_batch(batch_size: int, length: int) -> Batch:
    """Full-length random bytes, made on the device."""
    key = jax.random.key(0)
    return Batch(
        tokens=jax.random.randint(key, (batch_size, length), 1, VOCAB_SIZE),
        lengths=jnp.full((batch_size,), length, jnp.int32),
        labels=jax.random.randint(key, (batch_size,), 0, NUM_CLASSES),
    )


def time_steps(run: Callable[[], Any], seconds: float) -> np.ndarray:
    """Seconds of each repetition, every one waited for.

    At least four repetitions and `seconds`, then until the median is stable, at most four times `seconds`.
    """
    for _ in range(WARM_UP):
        jax.block_until_ready(run())
    times: list[float] = []
    while len(times) < FEWEST or sum(times) < seconds or (not _stable(times) and sum(times) < PATIENCE * seconds):
        started = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - started)
    return np.array(times)


def _stable(times: Sequence[float]) -> bool:
    even, odd = np.median(times[::2]), np.median(times[1::2])
    return bool(abs(even - odd) <= STABLE * min(even, odd))


def resident_bytes() -> tuple[int, int] | None:
    """Resident memory of this process, now and at its highest (Linux), None where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    now, highest = (
        int(found[1]) * 1024 if (found := re.search(rf"{key}:\s*(\d+) kB", status)) else 0 for key in ("VmRSS", "VmHWM")
    )
    return now, highest


def forget_highest() -> bool:
    """Sets the high-water mark of this process back to what it uses now; whether the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def matrix_peak(dtype: Any) -> float:
    """Matrix operations a second that this device reaches in a large square product of type `dtype`."""
    size = PEAK_SIZE if jax.default_backend() != "cpu" else PEAK_SIZE // 2
    matrix = jnp.ones((size, size), dtype)
    product = jax.jit(lambda a: a @ a)
    return 2 * size**3 / float(time_steps(lambda: product(matrix), 0.1).min())


def device_peak_bytes() -> int | None:
    """The device's own count of the most memory in use, None where the backend keeps none (CPU)."""
    statistics = jax.devices()[0].memory_stats()
    return None if statistics is None else statistics.get("peak_bytes_in_use")


def compiled_bytes(compiled: Any) -> tuple[int | None, int | None]:
    """(temporary memory, temporary + arguments + outputs - aliased) of a compiled program, None where unknown."""
    memory = compiled.memory_analysis()
    if memory is None:
        return None, None
    total = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    return memory.temp_size_in_bytes, total - memory.alias_size_in_bytes


def measure(config: BenchConfig, mode: str, length: int) -> dict[str, Any]:
    """One cell of the speed file."""
    cell = compile_cell(config, mode, length)
    held = list(cell.arguments)

    def run() -> Any:
        out = cell.compiled(*held)
        if mode == "train":
            held[0] = out[0]  # its buffers were given away to the step
        return out

    temporary, total = compiled_bytes(cell.compiled)
    before = resident_bytes() if forget_highest() else None
    times = time_steps(run, config.speed.seconds)
    after = resident_bytes()
    median, p10, p90 = (float(np.quantile(times, q)) for q in (0.5, 0.1, 0.9))
    device = device_peak_bytes()  # read before the peak of the device is measured, which takes memory of its own
    peak = matrix_peak(jnp.dtype(config.speed.precision.value))
    return {
        "step_seconds": {"median": median, "p10": p10, "p90": p90},
        "repetitions": len(times),
        "steps_per_second": 1 / median,
        "sequences_per_second": config.speed.batch_size / median,
        "compile_seconds": cell.compile_seconds,
        "flops_per_step": cell.flops,
        "share_of_matrix_peak": cell.flops / median / peak,
        "matrix_peak_flops": peak,
        "peak_bytes": {
            "device": device,
            "compiled": total,
            "process": None if before is None or after is None else cell.argument_bytes + after[1] - before[0],
        },
        "temp_bytes": temporary,
        "simulated": variant_class(config.model).simulated,
        "load_average": load_average(),
        "device": jax.devices()[0].device_kind,
    }


def work(folder: Path, specification: dict[str, Any]) -> tuple[str, None]:
    """Measures the cell of `specification` and leaves result.json."""
    config = child.load_config(specification["config"])
    write_json(folder / child.RESULT_FILE, measure(config, specification["mode"], specification["length"]))
    return "complete", None


if __name__ == "__main__":
    child.run(work)
