"""A sweep goes on where it was, tries failures again as often as stated, and ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lra import bench, config, lease, record, sweep
from lra.bench import plan_runs
from lra.config import parse
from lra.soak import differences
from tests.lra import tiny
from tests.lra.faking import Faking

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("signals_restored")


@pytest.fixture
def swept(tmp_path, encoded, monkeypatch):
    """Runs a sweep of one variant on one task with fake children; returns the exit code and the supervisor."""
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.05)
    common = ["task=listops", *tiny.SMALL, *tiny.SMALL_CELLS, *tiny.places(tmp_path, encoded)]

    def run(*behaviours, more=("model=transformer",)):
        supervisors = []

        def make():
            supervisors.append(Faking(*behaviours))
            return supervisors[-1]

        monkeypatch.setattr(bench, "Supervisor", make)
        code = sweep.main([*common, *more])
        return code, supervisors[0]

    run.scores = lambda: {path.stem: record.read_json(path) for path in (tmp_path / "results").rglob("seed*.json")}
    return run


def test_three_seeds_unless_named_and_every_variant_unless_named(monkeypatch):
    asked = []
    monkeypatch.setattr(bench, "main", lambda arguments, *, repeat: asked.append((parse(arguments), repeat)) or 0)
    assert sweep.main([]) == 0
    assert sweep.main(["model=local", "seed=7"]) == 0
    (every, repeats), (named, _) = asked
    assert (every.variants, every.seeds, repeats) == (config.variant_names(), [0, 1, 2], True)
    assert (named.variants, named.seeds) == (["local"], [7])


def test_what_failed_is_tried_again_after_all_the_others_and_then_left(swept, capfd):
    code, supervisor = swept("raises", "complete", "kill", "raises", "complete", "raises")
    assert (code, supervisor.started) == (3, 6)
    scores = swept.scores()
    assert {seed: (score["status"], score["attempts"]) for seed, score in scores.items()} == {
        "seed0": ("failed", 3),
        "seed1": ("complete", 1),
        "seed2": ("complete", 2),
    }
    said = [line for line in capfd.readouterr().err.splitlines() if ": failed: " in line]
    assert [line.partition("seed ")[2][0] for line in said] == ["0", "2", "0", "0"]  # at once, in the order of the work
    assert swept()[1].started == 0


def test_a_bench_tries_once(swept, tmp_path, encoded):
    bench.Supervisor = lambda: Faking("raises")
    places = tiny.places(tmp_path, encoded)
    assert bench.main(["model=transformer", "task=listops", *tiny.SMALL, *tiny.SMALL_CELLS, *places]) == 3
    assert swept.scores()["seed0"]["attempts"] == 1


@pytest.fixture
def composed(monkeypatch):
    """The overrides of everything that Hydra composes; a composition takes longer than all else about a run."""
    found = []
    compose = config._compose
    monkeypatch.setattr(config, "_compose", lambda overrides: found.append(overrides) or compose(overrides))
    config._composed.cache_clear()
    return found


def test_a_run_that_computes_what_its_preset_says_is_composed_once(composed):
    plan_runs(parse(["model=transformer,local", "task=listops,text", "launcher=local", "speed.lengths=[64]"]))
    assert len(composed) == 4 + 1  # and what `parse` holds the keys against


def test_seeds_share_a_composition_and_differ_in_the_seed_alone(composed):
    chosen = ["model=transformer,local", "task=listops", "seed=0,1,2,3,4", "encoder.layers=1", "results=somewhere"]
    runs = plan_runs(parse(chosen))
    assert len(composed) == 4 + 1  # of two variants, as asked for and plain; and what `parse` holds the keys against
    assert [run.config.seed for run in runs] == 2 * [0, 1, 2, 3, 4]
    runs[0].config.model["window"] = 7
    assert "window" not in plan_runs(parse(chosen))[0].config.model  # what is kept can't be changed from outside


def start(arguments):
    command = [sys.executable, "-m", "lra.sweep", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
def test_a_sweep_stopped_twice_ends_as_one_in_peace(tmp_path, encoded):
    """Four variants, two seeds: Ctrl-C in the second run, `kill -9` of the program in the fifth."""
    more = ["train.steps=120", "speed.modes=[inference]"]
    arguments = ["model=transformer,local,linformer,performer", "task=listops", "seed=0,1", *tiny.SMALL]
    arguments += [*tiny.SMALL_CELLS, *more]
    disturbed, peace = ([*arguments, *tiny.places(tmp_path / name, encoded)] for name in ("disturbed", "peace"))
    runs, calm = (plan_runs(parse(chosen)) for chosen in (disturbed, peace))
    for number, how in ((1, signal.SIGINT), (4, signal.SIGKILL)):
        process = start(disturbed)
        history = runs[number].work_folder / record.HISTORY_FILE
        while not (history.exists() and len(history.read_text().splitlines()) >= 2):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.kill(process.pid, how)
        output, _ = process.communicate()
        assert process.returncode == (75 if how == signal.SIGINT else -how), output
    for chosen in (disturbed, peace):
        process = start(chosen)
        output, _ = process.communicate()
        assert process.returncode == 0, output
        print(output)
    for run, undisturbed in zip(runs, calm, strict=True):
        assert differences(run, undisturbed) == []
        assert record.read_json(run.score_file)["metrics"] == record.read_json(undisturbed.score_file)["metrics"]
        assert record.read_json(run.score_file)["attempts"] == 1
        assert record.read_json(run.speed_file)["cells"][0]["status"] == "complete"
