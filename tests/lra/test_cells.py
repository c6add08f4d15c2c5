"""Which cells there are, what a speed file keeps of them, and what `lra.profile` prints, with fake children."""

import os
from types import SimpleNamespace

import pytest

from lra import cells, hardware, profile, record
from lra.cells import SpeedFile, interleaved, reference_of
from lra.config import compose_run, parse
from lra.errors import BadInput
from lra.runs import Run
from lra.supervise import Outcome
from tests.lra import tiny
from tests.lra.faking import Faking

pytestmark = pytest.mark.usefixtures("signals_restored")


@pytest.fixture
def measure(tmp_path, encoded, monkeypatch):
    """Runs the command with cells that are measured at once."""
    places = tiny.places(tmp_path, encoded)
    monkeypatch.setattr(profile, "Supervisor", Faking)

    def run(*arguments):
        return profile.main([*arguments, *places])

    return run


def speed_file(tmp_path, preset, name="transformer"):
    (found,) = (tmp_path / "results" / "speed").glob(f"*/{preset}/{name}.json")
    return record.read_json(found)


def keys(content):
    return [(cell["mode"], cell["length"], cell["batch_size"], cell["precision"]) for cell in content["cells"]]


def test_further_lengths_and_precisions_join_the_cells_that_are_there(measure, tmp_path):
    few = ["model=transformer", "speed.modes=[train]", "speed.batch_size=2"]
    assert measure(*few, "speed.lengths=[16,32]") == 0
    assert measure(*few, "speed.lengths=[64]") == 0
    assert measure(*few, "speed.lengths=[16]", "speed.precision=bfloat16") == 0
    expected = [("train", length, 2, "float32") for length in (16, 32, 64)] + [("train", 16, 2, "bfloat16")]
    assert keys(speed_file(tmp_path, "mini")) == expected
    assert measure(*few, "speed.lengths=[16]", "speed.encoder.dim=64") == 0  # another model: nothing of it is the same
    assert keys(speed_file(tmp_path, "mini")) == [("train", 16, 2, "float32")]


def test_what_is_measured_is_not_measured_again_unless_forced(measure, tmp_path, capsys):
    arguments = ["model=transformer", "speed.lengths=[16]", "speed.modes=[train]"]
    assert measure(*arguments) == 0
    assert "length 16" in capsys.readouterr().err
    assert measure(*arguments) == 0
    out, err = capsys.readouterr()
    assert "length 16" not in err
    assert "100.0" in out  # milliseconds of the fake cell
    assert measure(*arguments, "force=true") == 0
    out, err = capsys.readouterr()
    assert "length 16" in err
    assert "100.0" in out


def test_layers_have_a_place_lengths_and_defaults_of_their_own(measure, tmp_path, capsys):
    assert measure("model=local,transformer", "protocol=layer", "preset=mini") == 0
    assert "one layer by itself, train, batch 1, float32" in capsys.readouterr().out
    for name in ("local", "transformer"):
        content = speed_file(tmp_path, "layer", name)
        assert content["preset"] == "layer"
        assert keys(content) == [("train", 1024 * 2**k, 1, "float32") for k in range(5)]
    own = compose_run(["model=local", "task=listops", "preset=mini", "seed=0", "protocol=layer"])
    assert own.model["window"] == 64  # the class's default, not what the preset takes for short tasks
    encoder = own.speed.encoder
    assert (encoder.dim, encoder.heads, encoder.qkv_dim) == (256, 4, 256)


def test_the_reference_is_a_cell_of_the_same_protocol_and_place(tmp_path):
    overrides = ["model=local", "task=listops", "preset=mini", "seed=0", "protocol=layer", "speed.lengths=[128,64]"]
    overrides += [f"work_dir={tmp_path}", "limits.cell_minutes=7"]
    cell = reference_of(Run.of(overrides, compose_run(overrides)))
    assert (cell.run.config.work_dir, cell.run.config.limits.cell_minutes) == (str(tmp_path), 7)
    assert (cell.run.variant, cell.mode, cell.length, cell.run.speed_preset) == ("transformer", "train", 64, "layer")


def test_variants_take_turns(tmp_path):
    runs = [tiny.run_of("speed.lengths=[16,32]", "speed.modes=[train]", variant=name) for name in ("local", "bigbird")]
    order = [(cell.run.variant, cell.length) for cell in interleaved(runs)]
    assert order == [("local", 16), ("bigbird", 16), ("local", 32), ("bigbird", 32)]


def test_one_thread_is_one_core_of_the_hardware(measure, tmp_path):
    before = os.sched_getaffinity(0)
    try:
        assert measure("model=transformer", "protocol=layer", "speed.lengths=[16]", "threads=1") == 0
        assert len(os.sched_getaffinity(0)) == 1
        assert hardware.describe()["count"] == 1
    finally:
        os.sched_setaffinity(0, before)
    (place,) = (tmp_path / "results" / "speed").iterdir()
    assert place.name.endswith("-x1")
    with pytest.raises(BadInput, match=f"threads=9999: this machine lets us use {len(before)} core"):
        hardware.use_cores(9999)


@pytest.mark.parametrize(("status", "code"), [("complete", 0), ("failed", 3)])
def test_overhead_has_a_child_and_a_table_of_its_own(measure, monkeypatch, capsys, status, code):
    class Told(Faking):
        def run_child(self, module, folder, **keywords):
            assert module == "lra.overhead"
            took = {"batch_size": 64, "loop_seconds": 0.25, "bare_seconds": 0.24, "throughput_over_bare": 0.96}
            record.write_json(folder / "result.json", took)
            return Outcome(status, "why")

    monkeypatch.setattr(profile, "Supervisor", Told)
    assert measure("model=transformer", "overhead=true") == code
    out, err = capsys.readouterr()
    assert ("250.0" in out, "240.0" in out, "0.960" in out) == (status == "complete",) * 3
    assert ("failed: why" in err) == (status == "failed")


def test_a_protocol_is_for_profile_only(measure, capsys):
    from lra.bench import main

    assert main(["model=local", "protocol=layer"]) == 2
    assert "is for lra.profile" in capsys.readouterr().err
    assert measure("model=local", "protocol=lyer") == 2
    assert "Did you mean layer? Allowed: layer, text" in capsys.readouterr().err
    assert parse(["model=local", "protocol=layer"]).overrides == ["protocol=layer"]


def test_a_file_of_another_version_begins_anew(tmp_path, encoded):
    run = tiny.run_of(*tiny.places(tmp_path, encoded))
    cell = {"mode": "train", "length": 16, "batch_size": 2, "precision": "float32", "status": "complete"}
    record.write_json(run.speed_file, {"config_hash": SpeedFile(run).hash, "cells": [cell]})
    assert SpeedFile(run).at("train", 16) == cell
    assert SpeedFile(run, afresh=True).cells == {}
    record.write_json(run.speed_file, {"config_hash": "another", "cells": [cell]})
    assert SpeedFile(run).cells == {}


@pytest.mark.parametrize(
    ("reference", "again"),
    [((1.0, 1.1, 0.95, 1.05), []), ((1.3, 1.0, 1.0, 1.0), [16]), ((1.0, 1.0, 1.4, 1.0), [32, 64])],
)
def test_cells_beside_a_reference_away_from_its_median_are_measured_again(tmp_path, monkeypatch, reference, again):
    monkeypatch.setattr(cells, "REFERENCE_SECONDS", -1.0)  # after every cell
    run = tiny.run_of(*tiny.places(tmp_path, tmp_path), "speed.lengths=[16,32,64]", "speed.modes=[train]")
    took = iter(reference)
    file = SpeedFile(run)

    def measured(cell, supervisor, lease, *, quiet=False):
        key = dict(zip(("mode", "length", "batch_size", "precision"), cell.key, strict=True))
        return key | {"status": "complete", "step_seconds": {"median": next(took) if quiet else 9.0}}

    monkeypatch.setattr(cells, "measure_cell", measured)
    held = SimpleNamespace(held=True, interrupted=False)
    session = cells.Session(reference_of(run), held, held, {run.speed_file: file})
    todo = list(interleaved([run]))
    assert [cell.length for cell in session.measure(todo)] == again
    far = {cell["length"] for cell in file.cells.values() if abs(cell["drift"]) > cells.DRIFT_ALLOWED}
    assert far == set(again)
