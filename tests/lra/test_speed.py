"""Speed cells: unknown figures are null, twice the length costs more, a layer is measured by itself."""

from pathlib import Path

import jax
import numpy as np
import pytest

from lra import child, speed, timing
from lra.config import compose_run, dump
from lra.record import read_json
from lra.runs import prepare
from lra.speed import VOCAB_SIZE, compile_cell, random_batch, work
from lra.timing import compiled_bytes
from tests.lra import tiny

ROOT = Path(__file__).parents[2]


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


def test_inference_draws_no_more_than_its_arguments(monkeypatch):
    """A device counts the most memory ever in use, so an optimiser's state must not even pass through it."""
    before = {id(array) for array in jax.live_arrays()}

    def compare(step, arguments):
        drawn = sum(array.nbytes for array in jax.live_arrays() if id(array) not in before)
        assert drawn <= sum(leaf.nbytes for leaf in jax.tree.leaves(arguments))

    monkeypatch.setattr(speed, "compile_program", compare)
    compile_cell(config("speed.encoder.dim=64"), "inference", 16)


@pytest.mark.parametrize("mode", ["train", "inference"])
def test_a_cell_has_every_figure_positive_or_null(tmp_path, mode, monkeypatch):
    monkeypatch.setattr(timing, "PEAK_SIZE", 256)
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


def test_speed_cells_compile_anew(tmp_path, monkeypatch):
    """A cache of compiled programs would make `compile_seconds` a lie."""
    updates = []
    monkeypatch.setattr(jax.config, "update", lambda *pair: updates.append(pair))
    compile_cell(config(), "inference", 16)
    assert updates == []
    assert "use_compile_cache" not in (ROOT / "lra" / "speed.py").read_text()


def layer(mode, length, *more):
    return compile_cell(config("protocol=layer", "speed.encoder.mlp_dim=16", *more), mode, length)


def test_a_layer_is_the_mixer_alone():
    """Per token four projections, per pair of tokens and head a score and a weighted value; twice that backwards."""
    length, dim = 32, 16
    forward = layer("inference", length).flops
    assert forward == 2 * (4 * 2 * length * dim**2 + 2 * 2 * length**2 * dim)
    trained = layer("train", length)
    assert 3 * forward <= trained.flops <= 4 * forward  # what is recomputed counts as well
    y, gradients = trained.runner()()
    assert y.shape == (2, length, dim)
    assert all(np.abs(np.asarray(gradient)).max() > 0 for gradient in jax.tree.leaves(gradients))


def test_a_layer_has_the_precision_that_is_asked_for():
    y, _ = layer("train", 16, "speed.precision=bfloat16").runner()()
    assert y.dtype == "bfloat16"
