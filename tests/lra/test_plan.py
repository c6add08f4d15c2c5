"""Planning compiles the step and allocates nothing of it."""

import jax
import pytest

from lra.build import build_classifier, parameter_count
from lra.config import compose_run
from lra.plan import main, plan
from tests.lra import tiny

SIZES = {"max_length": 24, "vocab_size": 16, "num_classes": 10, "paired": False}


def test_figures_are_those_of_the_real_step(monkeypatch):
    config = compose_run(tiny.overrides())
    found = plan(config, SIZES)
    model = build_classifier(config.model, config.encoder, **SIZES)
    assert found.parameters == parameter_count(model)
    assert 0 < found.temp_bytes < found.total_bytes
    larger = plan(config, SIZES | {"max_length": 48, "paired": True})  # twice the length, and two documents of it
    assert larger.flops > 1.9**2 * found.flops > 0


def test_nothing_of_the_model_is_allocated(monkeypatch):
    """Parameters of 2 GiB would show among the living arrays, and take their time."""
    config = compose_run(tiny.overrides("encoder.dim=16384", "encoder.mlp_dim=16384", "encoder.layers=1"))
    before = sum(array.nbytes for array in jax.live_arrays())
    found = plan(config, SIZES)
    assert found.parameters > 2**28
    assert sum(array.nbytes for array in jax.live_arrays()) - before < 2**20


def test_the_command_prints_a_row_for_each_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["model=transformer,local", "task=listops", "preset=mini", *tiny.SMALL]) == 0
    output = capsys.readouterr().out
    assert "compiled for cpu and not run" in output
    rows = [line.split() for line in output.splitlines() if "listops" in line]
    assert [row[0] for row in rows] == ["transformer", "local"]
    assert rows[0][1:5] == ["listops", "mini", "24", "8"]
    assert "another backend's will differ" in output


def test_bad_input_is_answered_before_anything_compiles(capsys):
    assert main(["model=bigbrid"]) == 2
    assert "Did you mean bigbird?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_full_size_of_bigbird(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["model=bigbird", "task=listops", "preset=lra"]) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if "listops" in line]
    assert row[:5] == ["bigbird", "listops", "lra", "2,000", "32"]
    assert 8e6 < int(row[5].replace(",", "")) < 2e7
