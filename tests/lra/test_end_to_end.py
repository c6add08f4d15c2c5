"""The command as a person runs it: real children, interrupted once, beside packages of the same names as ours."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lra.record import read_json
from lra.soak import attempt, differences
from tests.lra import spread, tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path):
    """A path with packages called as ours are, and no wandb: neither is touched."""
    for name in ("models", "tasks", "lra", "wandb", "tensorflow"):
        package = tmp_path / "foreign" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise RuntimeError('a foreign {name} was imported')\n")
    return spread.environment_of_users(PYTHONPATH=str(tmp_path / "foreign"), PYTHONWARNINGS="default")


def be_as_users_are():
    """In a process that was forked here."""
    os.environ.pop("JAX_NUM_CPU_DEVICES", None)


def start(arguments, environment):
    command = [sys.executable, "-m", "lra.bench", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_interrupted_and_run_again(tmp_path, encoded, environment):
    steps = 60
    more = [f"train.steps={steps}", "train.evaluate_every=10", "speed.modes=[]"]
    arguments = [
        "model=transformer",
        "task=listops",
        *tiny.SMALL,
        *tiny.SMALL_CELLS,
        *tiny.places(tmp_path, encoded),
        *more,
    ]
    run = tiny.run_of(*tiny.places(tmp_path, encoded), *more)
    history = run.work_folder / "history.jsonl"

    first = start(arguments, environment)
    while not (history.exists() and len(history.read_text().splitlines()) >= 3):
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate()
    assert first.returncode == 75, errors
    assert errors.splitlines()[-1] == "lra.bench: interrupted; the same command goes on from here"
    assert "foreign" not in errors
    assert read_json(run.score_file)["status"] == "interrupted"

    second = start(arguments, environment)
    output, errors = second.communicate()
    assert second.returncode == 0, errors
    assert "goes on after step" in errors
    assert "Warning" not in errors
    assert "1 of 1 runs are complete." in output
    score = read_json(run.score_file)
    assert (score["status"], score["attempts"], score["seed"]) == ("complete", 1, 0)
    assert [row["step"] for row in score["history"]] == list(range(10, steps + 1, 10))
    assert score["metrics"]["n_test"] == tiny.TEST_EXAMPLES
    predictions = np.load(run.score_file.with_suffix(".predictions.npz"))
    assert (predictions["prediction"] == predictions["label"]).mean() == score["metrics"]["test_accuracy"]

    undisturbed = tiny.run_of(*tiny.places(tmp_path / "undisturbed", encoded), *more)
    assert attempt(undisturbed, encoded / "compiled", be_as_users_are) == (0, {"status": "complete", "error": None})
    assert differences(run, undisturbed) == []
    assert score["metrics"] == tiny.result(undisturbed.work_folder)["metrics"]
