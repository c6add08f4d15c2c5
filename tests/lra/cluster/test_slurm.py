"""What goes through a real Slurm, disturbed on the way or over two nodes, ends as here in peace: `make test-slurm`."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lra import record
from lra.bench import plan_runs
from lra.config import parse
from lra.soak import differences

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.skipif("SLURM_CONF" not in os.environ or not shutil.which("sbatch"), reason="no Slurm; see README"),
]

SMALL = [
    *("model=transformer,local", "task=listops,pathfinder", "preset=mini", "seed=0"),
    *("task.examples.train=60", "task.examples.validation=20", "task.examples.test=30"),
    *("encoder.dim=16", "encoder.qkv_dim=16", "encoder.heads=2", "encoder.mlp_dim=16", "encoder.layers=1"),
    *("train.steps=40", "train.batch_size=2", "train.evaluate_every=20", "train.warmup_steps=2"),
    *("speed.lengths=[16]", "speed.modes=[train]", "speed.batch_size=2", "speed.seconds=0.01"),
    *("speed.encoder.dim=16", "speed.encoder.qkv_dim=16", "speed.encoder.heads=2", "speed.encoder.layers=1"),
    "limits.cell_minutes=60",  # the nodes may share a slow core
]
SLURM = ["launcher=slurm", "launcher.timeout_min=10", "launcher.signal_delay_s=30", "launcher.cpus_per_task=1"]


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def command(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class Launcher:
    """The command in a process of its own."""

    def __init__(self, log, arguments):
        self.log = log
        words = [sys.executable, "-m", "lra.sweep", *arguments]
        with open(log, "w") as file:
            self.process = subprocess.Popen(words, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)

    def until(self, text):
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.2)

    def end(self):
        code = self.process.wait()
        say(f"exit code {code}; it said:\n{self.log.read_text()}")
        return code


def queue():
    """State of each of our jobs by its id."""
    return dict(line.split() for line in command("squeue", "-h", "-r", "-o", "%i %T").splitlines())


def second_node():
    return command("sinfo", "-h", "-N", "-o", "%N").split()[1]


def first_running(runs, but=()):
    """The first run that has written history and is held by someone; its job, its supervisor and its training child."""
    while True:
        for run in (each for each in runs if each not in but):
            note, lease = (record.read_json(run.work_folder / name) for name in ("job.json", "lease.json"))
            history = run.work_folder / record.HISTORY_FILE
            trains = note and lease and len(lease["processes"]) == 2 and history.exists() and history.stat().st_size
            if trains and queue().get(note["id"]) == "RUNNING":
                return run, note["id"], [process["pid"] for process in lease["processes"]]
        time.sleep(0.2)


def hold_with_a_short_time(id, pid):
    """Holds the training child of a job still until Slurm announces the end of the time, a minute from its start."""
    os.kill(pid, signal.SIGSTOP)
    command("scontrol", "update", f"jobid={id}", "timelimit=1")


def test_a_disturbed_sweep_ends_as_one_in_peace(tmp_path):
    def arguments(name, *more):
        return [*SMALL, f"results={tmp_path / name / 'results'}", f"work_dir={tmp_path / name / 'work'}", *more]

    calm = plan_runs(parse(arguments("calm")))
    say("a sweep on this machine")
    assert Launcher(tmp_path / "calm.log", arguments("calm")).end() == 0

    runs = plan_runs(parse(arguments("slurm")))
    say("the same through Slurm")
    first = Launcher(tmp_path / "first.log", arguments("slurm", *SLURM))
    late, late_id, (_, held) = first_running(runs)
    say(f"{late.title}, job {late_id}, stands still, and its time is a minute")
    hold_with_a_short_time(late_id, held)
    killed, id, pids = first_running(runs, but=(late,))
    say(f"kill -9 to all of {killed.title}, job {id}")  # scancel would ask first, and the run would save
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    first.until(f"{killed.title}: job {id} was killed")
    say("drain the second node")
    command("scontrol", "update", f"nodename={second_node()}", "state=drain", "reason=test")
    say("Ctrl-C to the launcher")
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 75
    left = set(queue())
    assert left

    second = Launcher(tmp_path / "second.log", arguments("slurm", *SLURM))
    second.until("jobs already")
    while "Restarts=1" not in command("scontrol", "show", "job", late_id):
        time.sleep(0.2)
    say(f"the time of job {late_id} was out and it has queued up again; the second node comes back")
    command("scontrol", "update", f"nodename={second_node()}", "state=resume")
    assert second.end() == 0
    assert queue() == {}

    for run, undisturbed in zip(runs, calm, strict=True):
        assert differences(run, undisturbed) == []
        here, there = (record.read_json(each.score_file) for each in (run, undisturbed))
        assert here["metrics"] == there["metrics"]
        assert (here["status"], here["attempts"]) == ("complete", 1)
        assert [cell["status"] for cell in record.read_json(run.speed_file)["cells"]] == ["complete"]
        say(f"{run.title}: equal to that on this machine, {here['metrics']['test_accuracy']:.4f}")

    say("the same command once more has nothing to train")
    third = Launcher(tmp_path / "third.log", arguments("slurm", *SLURM))
    assert third.end() == 0
    sent = re.findall(r"sent (\d+) jobs", third.log.read_text())
    assert sent == ["2"]  # they look whether speed is measured, and end


def test_a_run_over_two_nodes_is_that_of_one_process(tmp_path):
    def arguments(name):
        one = ["model=transformer", "task=listops", *SMALL[2:]]
        return [*one, f"results={tmp_path / name / 'results'}", f"work_dir={tmp_path / name / 'work'}"]

    (here,), (there,) = (plan_runs(parse(arguments(name))) for name in ("one", "two"))
    words = shlex.join([sys.executable, "-m", "lra.bench"])
    say("one process on this machine")
    command(*shlex.split(words), *arguments("one"))
    batch, log = tmp_path / "batch.sh", tmp_path / "batch.log"
    batch.write_text(f"#!/bin/bash\nsrun --label {words} {shlex.join(arguments('two'))}\n")
    say("one task of Slurm on each node")
    sent = ["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", f"--chdir={ROOT}", f"--output={log}", str(batch)]
    code = subprocess.run(sent).returncode
    say(f"exit code {code}; the job said:\n{log.read_text()}")
    assert code == 0
    assert (there.work_folder / "process1").is_dir()
    found, right = (record.read_json(run.score_file) for run in (there, here))
    assert found["status"] == right["status"] == "complete"
    assert found["metrics"]["test_accuracy"] == right["metrics"]["test_accuracy"]
    for key in ("train_loss", "validation_loss"):
        losses = [[row[key] for row in score["history"]] for score in (found, right)]
        np.testing.assert_allclose(*losses, atol=1e-5, rtol=0)
    predictions = [np.load(run.score_file.with_suffix(".predictions.npz"))["prediction"] for run in (there, here)]
    np.testing.assert_array_equal(*predictions)
    say(f"equal: accuracy {found['metrics']['test_accuracy']:.4f}, training losses {losses}")
