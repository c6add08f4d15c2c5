"""A compiled program measured: every call is waited for, unknown figures are null, memory is the process's own."""

import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from lra import timing
from lra.timing import compile_program, time_steps

ROOT = Path(__file__).parents[2]


class Later:
    """What an asynchronous program returns at once: ready after `seconds`."""

    def __init__(self, seconds):
        self.ready = time.perf_counter() + seconds

    def block_until_ready(self):
        time.sleep(max(self.ready - time.perf_counter(), 0))
        return self


def test_time_is_that_of_the_work_and_not_of_its_dispatch():
    times = time_steps(lambda: {"state": Later(0.02)}, seconds=0.1)
    assert len(times) >= timing.FEWEST
    assert (times >= 0.95 * 0.02).all()
    assert np.median(times) < 10 * 0.02


def test_the_first_run_is_not_counted():
    seconds = iter([0.2] + [0.001] * 10_000)
    assert time_steps(lambda: Later(next(seconds)), seconds=0.01).max() < 0.2


def test_time_taken_follows_what_was_asked_for():
    assert len(time_steps(lambda: Later(0.05), seconds=0.01)) <= 8 * timing.FEWEST  # the fewest, or until it is stable
    assert time_steps(lambda: Later(0.01), seconds=0.3).sum() >= 0.3


def test_a_step_that_advances_goes_from_state_to_state():
    program = compile_program(
        lambda state, x: (state + x @ x, state.sum()), (jnp.zeros((2, 2)), jnp.eye(2)), advances=True
    )
    run = program.runner()
    assert [float(run()[1]) for _ in range(3)] == [0, 2, 4]
    assert program.argument_bytes == 2 * 16
    assert program.flops == 2 * 2**3


def test_a_step_that_does_not_advance_repeats_itself():
    run = compile_program(lambda x: (x * 2, x.sum()), (jnp.ones(3),)).runner()
    assert [float(run()[1]) for _ in range(2)] == [3, 3]


def test_memory_of_a_program_counts_what_is_given_away_once():
    state = jnp.zeros((64, 64))
    kept, given = (compile_program(lambda x: (x + 1,), (state,), advances=advances) for advances in (False, True))
    assert timing.compiled_bytes(kept.compiled)[1] - timing.compiled_bytes(given.compiled)[1] == state.nbytes


def test_the_memory_of_a_process_is_that_of_its_own_cell():
    """A cell that allocates 64 MiB more than another says so; what was in use before does not count."""
    program = (
        "import sys\nimport numpy as np\nfrom lra import timing\n"
        "kept = np.ones(8 << 20)\n"
        "assert timing.forget_highest()\nbefore = timing.resident_bytes()[0]\n"
        "passing = np.ones(8 << 20)\ndel passing\n"
        "print(timing.resident_bytes()[1] - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    if "AssertionError" in done.stderr:
        pytest.skip("this system does not let a process reset its high-water mark")
    assert 60 * 2**20 < int(done.stdout) < 80 * 2**20


def test_memory_is_read_before_freed_memory_is_kept_and_time_taken_after(monkeypatch):
    """Kept memory would count as in use; steps are timed as training runs them, with it."""
    order = []
    for name in ("resident_bytes", "keep_freed_memory", "time_steps"):
        real = getattr(timing, name)
        monkeypatch.setattr(timing, name, lambda *given, name=name, real=real: order.append(name) or real(*given))
    program = compile_program(lambda x: x @ x, (jnp.ones((8, 8)),))
    timing.measure(program, seconds=0.01, dtype=jnp.float32)
    assert order[:4] == ["resident_bytes", "resident_bytes", "keep_freed_memory", "time_steps"]


def test_no_system_without_a_count_of_memory_says_zero(monkeypatch):
    monkeypatch.setattr(timing, "Path", lambda name: Path("/does/not/exist"))
    assert timing.resident_bytes() is None
    assert timing.forget_highest() is False
