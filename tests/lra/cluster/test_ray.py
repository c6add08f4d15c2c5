"""A sweep on a Ray of this machine, ended on the way, ends as one without Ray. Runs where `EXTRAS=ray` is installed."""

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lra import record
from lra.bench import plan_runs
from lra.config import parse
from lra.soak import differences
from tests.lra import tiny

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: make setup EXTRAS=ray"),
]


def start(arguments):
    command = [sys.executable, "-m", "lra.sweep", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_sweep_on_ray_ends_as_one_without(tmp_path, encoded):
    arguments = ["model=transformer,local,linformer,performer", "task=listops", "seed=0,1"]
    arguments += [*tiny.SMALL, *tiny.SMALL_CELLS, "train.steps=120", "speed.modes=[inference]"]
    arguments += ["limits.cell_minutes=60"]  # the tasks may share a slow core
    here, there = ([*arguments, *tiny.places(tmp_path / name, encoded)] for name in ("here", "there"))
    runs, calm = plan_runs(parse(there)), plan_runs(parse(here))
    process = start(here)
    output, _ = process.communicate()
    assert process.returncode == 0, output

    on_ray = [*there, "launcher=ray", "launcher.init.num_cpus=2"]
    first = start(on_ray)
    while not any((run.work_folder / record.HISTORY_FILE).exists() for run in runs):
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    output, _ = first.communicate()
    assert first.returncode == 75, output
    print(output)
    second = start(on_ray)
    output, _ = second.communicate()
    print(output)
    assert second.returncode == 0, output
    for run, undisturbed in zip(runs, calm, strict=True):
        assert differences(run, undisturbed) == []
        score = record.read_json(run.score_file)
        assert (score["status"], score["attempts"]) == ("complete", 1)
        assert score["metrics"] == record.read_json(undisturbed.score_file)["metrics"]
        assert [cell["status"] for cell in record.read_json(run.speed_file)["cells"]] == ["complete"]
