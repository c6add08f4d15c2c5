"""Speed cells: every step is waited for, unknown figures are null, and twice the length costs more."""

import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from lra import child, speed
from lra.config import compose_run, dump
from lra.record import read_json
from lra.runs import prepare
from lra.speed import VOCAB_SIZE, compile_cell, compiled_bytes, random_batch, time_steps, work
from tests.lra import tiny

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
    assert len(times) >= speed.FEWEST
    assert (times >= 0.95 * 0.02).all()
    assert np.median(times) < 10 * 0.02


def test_the_first_run_is_not_counted():
    seconds = iter([0.2] + [0.001] * 10_000)
    assert time_steps(lambda: Later(next(seconds)), seconds=0.01).max() < 0.2


def test_time_taken_follows_what_was_asked_for():
    assert len(time_steps(lambda: Later(0.05), seconds=0.01)) <= 8 * speed.FEWEST  # the fewest, or until it is stable
    assert time_steps(lambda: Later(0.01), seconds=0.3).sum() >= 0.3


def test_random_batches_are_full_and_hold_bytes_only():
    batch = random_batch(4, 100)
    tokens = np.asarray(batch.tokens)
    assert tokens.shape == (4, 100)
    assert (tokens.min() >= 1, tokens.max() < VOCAB_SIZE) == (True, True)
    assert np.asarray(batch.lengths).tolist() == [100] * 4
    assert set(np.asarray(batch.labels).tolist()) <= {0, 1}


def config(*more):
    return compose_run(tiny.overrides("speed.encoder.dim=16", "speed.encoder.qkv_dim=16", *more))


@pytest.fixture(scope="module")
def cells():
    """Compiled cells of two lengths."""
    return {
        (mode, length): compile_cell(config(), mode, length) for mode in ("train", "inference") for length in (64, 128)
    }


def test_twice_the_length_costs_more_and_training_about_three_times_as_much(cells):
    for mode in ("train", "inference"):
        assert cells[mode, 128].flops > 2 * cells[mode, 64].flops > 0
    assert 2.5 < cells["train", 64].flops / cells["inference", 64].flops < 5
    assert all(cell.compile_seconds > 0 for cell in cells.values())


def test_memory_of_a_compiled_program(cells):
    for cell in cells.values():
        temporary, total = compiled_bytes(cell.compiled)
        assert 0 < temporary < total
    # the state is given away to the step: it does not count twice
    arguments = cells["train", 64].argument_bytes
    temporary, total = compiled_bytes(cells["train", 64].compiled)
    assert total - temporary < 1.5 * arguments


@pytest.mark.parametrize("mode", ["train", "inference"])
def test_a_cell_has_every_figure_positive_or_null(tmp_path, mode, monkeypatch):
    monkeypatch.setattr(speed, "PEAK_SIZE", 256)
    specification = {"config": dump(config("speed.seconds=0.05")), "mode": mode, "length": 64}
    assert work(prepare(tmp_path, specification), specification) == ("complete", None)
    cell = read_json(tmp_path / child.RESULT_FILE)
    seconds = cell["step_seconds"]
    assert 0 < seconds["p10"] <= seconds["median"] <= seconds["p90"]
    assert cell["steps_per_second"] == pytest.approx(1 / seconds["median"])
    assert cell["sequences_per_second"] == pytest.approx(2 / seconds["median"])
    for name in ("compile_seconds", "flops_per_step", "temp_bytes", "load_average"):
        assert cell[name] > 0
    assert cell["peak_bytes"].keys() == {"device", "compiled", "process"}
    assert cell["peak_bytes"]["device"] is None  # jax keeps no count on the CPU: null, not 0
    assert cell["peak_bytes"]["compiled"] > 0
    assert cell["peak_bytes"]["process"] is None or 0 < cell["peak_bytes"]["process"] < 2**30
    assert cell["simulated"] is False
    assert cell["device"] == "cpu"


def test_the_memory_of_a_process_is_that_of_its_own_cell():
    """A cell that allocates 64 MiB more than another says so; what was in use before does not count."""
    program = (
        "import sys\nimport numpy as np\nfrom lra import speed\n"
        "kept = np.ones(8 << 20)\n"
        "assert speed.forget_highest()\nbefore = speed.resident_bytes()[0]\n"
        "passing = np.ones(8 << 20)\ndel passing\n"
        "print(speed.resident_bytes()[1] - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    if "AssertionError" in done.stderr:
        pytest.skip("this system does not let a process reset its high-water mark")
    assert 60 * 2**20 < int(done.stdout) < 80 * 2**20


def test_no_system_without_a_count_of_memory_says_zero(monkeypatch):
    monkeypatch.setattr(speed, "Path", lambda name: Path("/does/not/exist"))
    assert speed.resident_bytes() is None
    assert speed.forget_highest() is False


def test_speed_cells_compile_anew(tmp_path, monkeypatch):
    """A cache of compiled programs would make `compile_seconds` a lie."""
    updates = []
    monkeypatch.setattr(jax.config, "update", lambda *pair: updates.append(pair))
    compile_cell(config(), "inference", 16)
    assert updates == []
    assert "use_compile_cache" not in (ROOT / "lra" / "speed.py").read_text()
