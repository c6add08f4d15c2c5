"""One compiled program measured: compilation, seconds a call, matrix operations, memory from every source there is.

Needs jax and numpy only, so that the same code measures on a machine that has nothing else of this project's packages.
"""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lra.flops import program_flops
from lra.hardware import keep_freed_memory

STEADY = 2  # runs until a step uses as much memory as it ever will
WARM_UP, FEWEST = 1, 4  # runs before and at least during the measurement
STABLE = 0.02  # the medians of the even and the odd repetitions differ by no more than this share
PATIENCE = 4.0  # times the seconds that were asked for, after which a restless machine is taken as it is
PEAK_SIZE = 2048  # of the square matrices whose product shows what the device can do


class Program(NamedTuple):
    """A compiled step with its arguments, its matrix operations, and the seconds of compilation.

    A step that `advances` is given its first argument away and returns the next one as its first result.
    """

    compiled: Any
    arguments: tuple[Any, ...]
    flops: float
    compile_seconds: float
    advances: bool

    @property
    def argument_bytes(self) -> int:
        """Memory of the arguments."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.arguments))

    def runner(self) -> Callable[[], Any]:
        """Runs the step once a call, from one state to the next if it advances; `arguments` are then used up."""
        held = list(self.arguments)

        def run() -> Any:
            out = self.compiled(*held)
            if self.advances:
                held[0] = out[0]
            return out

        return run


def compile_program(step: Callable[..., Any], arguments: tuple[Any, ...], *, advances: bool = False) -> Program:
    """Compiles a step for these arguments; tracing and lowering count as compilation."""
    started = time.perf_counter()
    traced = jax.jit(step, donate_argnums=0 if advances else ()).trace(*arguments)
    compiled = traced.lower().compile()
    return Program(compiled, arguments, program_flops(traced), time.perf_counter() - started, advances)


def measure(program: Program, *, seconds: float, dtype: Any) -> dict[str, Any]:
    """Time, operations and memory of a program, as a speed file has them; `dtype` is that of the device's peak."""
    temporary, total = compiled_bytes(program.compiled)
    run = program.runner()
    before = resident_bytes() if forget_highest() else None
    for _ in range(STEADY):
        jax.block_until_ready(run())
    after = resident_bytes()
    keep_freed_memory()  # as in training; it would count as in use
    times = time_steps(run, seconds)
    median, p10, p90 = (float(np.quantile(times, q)) for q in (0.5, 0.1, 0.9))
    device = device_peak_bytes()  # read before the peak of the device is measured, which takes memory of its own
    peak = matrix_peak(dtype)
    return {
        "step_seconds": {"median": median, "p10": p10, "p90": p90},
        "repetitions": len(times),
        "steps_per_second": 1 / median,
        "compile_seconds": program.compile_seconds,
        "flops_per_step": program.flops,
        "share_of_matrix_peak": program.flops / median / peak,
        "matrix_peak_flops": peak,
        "peak_bytes": {
            "device": device,
            "compiled": total,
            "process": None if before is None or after is None else program.argument_bytes + after[1] - before[0],
        },
        "temp_bytes": temporary,
        "device": jax.devices()[0].device_kind,
    }


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
