"""Whatever becomes of a cluster's jobs, and of the command that sent them: each run is made once and none is lost."""

import os
import pickle
import signal
import sys
import time
import types
from collections import Counter
from dataclasses import replace

import pytest

from lra import record
from lra.bench import main
from lra.cells import SpeedFile, interleaved
from lra.cluster import sender, slurm
from lra.cluster.sender import Job, Refused, distribute
from lra.cluster.slurm import Slurm, SlurmJob
from lra.config import compose_run
from lra.errors import BadInput
from lra.status import JOB_FILE
from tests.lra import tiny


class FakeCluster:
    """Its jobs end one a look, each as `fates` says of its title next; without a word there, complete."""

    name, outlives = "fake", True

    def __init__(self, batch=100, room=100, **fates):
        self.batch, self.room, self.fates = batch, room, {name: list(words) for name, words in fates.items()}
        self.queue, self.sent, self.batches = {}, [], []
        self.interrupted = False

    def submit(self, jobs):
        if len(self.queue) + len(jobs) > self.room:
            raise Refused("too many jobs")
        assert len(jobs) <= self.batch
        self.batches.append(len(jobs))
        self.sent += [self.key(job) for job in jobs]
        ids = [f"{len(self.batches)}_{number}" for number in range(len(jobs))]
        self.queue |= dict(zip(ids, jobs, strict=True))
        return ids

    def key(self, job):
        return "speed" if job.measures else f"seed{job.run.config.seed}"

    def ended(self, ids):
        ids = list(ids)
        if self.interrupted:
            raise KeyboardInterrupt
        gone = {id: None for id in ids if id not in self.queue}  # of an earlier day
        for id in [id for id in ids if id in self.queue][: len(ids) > 1 or None]:
            job = self.queue[id]
            fates = self.fates.get(self.key(job), [])
            fate = fates.pop(0) if fates else "complete"
            if fate == "alive":
                continue
            del self.queue[id]
            if not job.measures and fate is not None:
                before = record.read_json(job.run.score_file) or {"attempts": 0}
                score = {"status": fate, "error": "why", "attempts": before["attempts"] + (fate != "interrupted")}
                record.write_json(job.run.score_file, score)
            gone[id] = fate
        return gone

    def trace(self, id):
        return f"see log {id}"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(sender, "print_summary", lambda runs: None)
    return [tiny.run_of(*tiny.places(tmp_path, tmp_path / "cache"), seed=seed) for seed in range(3)]


def test_every_run_is_sent_and_then_every_variant_is_measured_once(runs):
    fake = FakeCluster(batch=2)
    assert distribute(runs, fake) == 0
    assert fake.sent == ["seed0", "seed1", "seed2", "speed"]
    assert fake.batches == [2, 1, 1]
    assert not [path for run in runs for path in run.work_folder.parents[1].rglob(JOB_FILE)]


def test_a_killed_job_is_sent_again_as_often_as_stated_and_stops_nothing_else(runs, capsys):
    fake = FakeCluster(seed1=[None, None, None])
    assert distribute(runs, fake) == 3
    assert Counter(fake.sent) == {"seed0": 1, "seed1": 3, "seed2": 1, "speed": 1}
    said = capsys.readouterr().err
    assert said.count("was killed before it could say anything; see log 1_1; it is sent again") == 1
    assert f"{runs[1].title}: job 3_0 was killed before it could say anything; see log 3_0 (3 of 3)" in said


def test_what_failed_is_sent_again_while_it_has_attempts_left(runs, capsys):
    assert distribute(runs, fake := FakeCluster(seed2=["failed", "complete"])) == 0
    assert Counter(fake.sent)["seed2"] == 2
    assert distribute(runs, again := FakeCluster()) == 0
    assert again.sent == ["speed"]
    assert f"{runs[2].title}: failed; it is sent again" in capsys.readouterr().err


def test_what_failed_too_often_is_left(runs):
    assert distribute(runs[:1], fake := FakeCluster(seed0=4 * ["failed"])) == 3
    assert fake.sent == ["seed0", "seed0", "seed0", "speed"]
    assert distribute(runs[:1], again := FakeCluster()) == 3
    assert again.sent == ["speed"]


@pytest.mark.parametrize("fate", ["out_of_memory", "timed_out", "diverged"])
def test_other_ends_are_not_repeated_by_the_same_command(runs, fate, capsys):
    assert distribute(runs[:1], fake := FakeCluster(seed0=[fate])) == 3
    assert fake.sent == ["seed0", "speed"]
    assert f"{runs[0].title}: {fate}; see log 1_0 (1 of 1)" in capsys.readouterr().err


def test_a_job_that_was_stopped_costs_no_attempt(runs):
    assert distribute(runs[:1], fake := FakeCluster(seed0=5 * ["interrupted"])) == 0
    assert fake.sent.count("seed0") == 6
    assert record.read_json(runs[0].score_file)["attempts"] == 1


def test_an_interrupted_command_leaves_its_jobs_and_the_next_one_waits_for_them(runs, capsys):
    fake = FakeCluster()
    fake.interrupted = True
    assert distribute(runs, fake) == 75
    assert "the jobs that fake has go on, and the same command waits for them" in capsys.readouterr().err
    fake.interrupted = False
    fake.queue.pop("1_1")  # this one has ended meanwhile, without a word
    fake.fates = {f"seed{seed}": ["alive", "complete"] for seed in range(3)}
    assert distribute(runs, fake) == 0
    assert fake.sent == ["seed0", "seed1", "seed2", "seed1", "speed"]
    assert "fake has 2 of 3 jobs already" in capsys.readouterr().err


def test_what_a_full_cluster_does_not_take_waits(runs, capsys):
    assert distribute(runs, fake := FakeCluster(batch=1, room=1)) == 0
    assert fake.sent == ["seed0", "seed1", "seed2", "speed"]
    assert capsys.readouterr().err.count("takes no more jobs for now: too many jobs") == 1
    for run in runs:
        run.score_file.unlink()
    with pytest.raises(BadInput, match="fake takes no job: too many jobs"):
        distribute(runs, FakeCluster(room=0))


def test_force_begins_anew_once(runs):
    assert distribute(runs[:1], FakeCluster()) == 0
    forced = [replace(run, config=replace(run.config, force=True)) for run in runs[:1]]
    kept = runs[0].work_folder / "checkpoints" / "12"
    kept.mkdir(parents=True)
    fake = FakeCluster()
    submit, told = fake.submit, []
    fake.submit = lambda jobs: told.extend((job.run.config.force, kept.exists()) for job in jobs) or submit(jobs)
    assert distribute(forced, fake) == 0
    # The job itself isn't forced: when it is stopped, it goes on. Speed is measured anew by who measures.
    assert (fake.sent, told) == (["seed0", "speed"], [(False, False), (True, False)])


def test_what_is_measured_on_the_clusters_hardware_is_not_measured_again(runs):
    file = SpeedFile(runs[0], path=runs[0].speed_file.parents[2] / "gpu-x8" / "mini" / runs[0].speed_file.name)
    for cell in interleaved(runs[:1]):
        sizes = {"batch_size": runs[0].config.speed.batch_size, "precision": "float32"}
        file.add(cell, {"mode": cell.mode, "length": cell.length, "status": "complete", **sizes})
    assert distribute(runs[:1], fake := FakeCluster()) == 0
    assert fake.sent == ["seed0"]


def test_a_job_is_sent_without_its_data(runs, encoded):
    run = tiny.run_of(f"cache_dir={encoded}")
    before = len(pickle.dumps(Job(replace(run))))
    assert run.task.max_length
    assert len(pickle.dumps(Job(run).bare())) == before


# Slurm


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts a program of Slurm's on the path, a shell script."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "submitit", types.ModuleType("submitit"))

    def put(name, script):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    put("sbatch", "exit 1")
    return put


def a_slurm(tmp_path, *more):
    names = ["model=local", "task=listops", "preset=mini", "seed=0", "launcher=slurm"]
    return Slurm(compose_run([*names, f"work_dir={tmp_path}", *more]))


def test_a_job_has_ended_when_the_queue_has_it_no_more(tmp_path, programs, monkeypatch):
    there = a_slurm(tmp_path)
    programs("squeue", "echo 7_0; echo 8")
    there.folder.mkdir()
    for id, result in (("7_0", ("success", "interrupted")), ("7_1", ("success", "complete")), ("9", ("error", "x"))):
        (there.folder / f"{id}_0_result.pkl").write_bytes(pickle.dumps(result))
    assert there.ended(["7_0", "7_1", "8", "9"]) == {"7_1": "complete", "9": "failed"}
    # Without a result it may be one that a shared disk does not show yet; a stopped one may queue up again.
    (there.folder / "11_0_result.pkl").write_bytes(pickle.dumps(("success", "interrupted")))
    assert there.ended(["10", "11"]) == {}
    now = time.monotonic()
    monkeypatch.setattr(slurm.time, "monotonic", lambda: now + slurm.PATIENCE_SECONDS + 1)
    assert there.ended(["10", "11"]) == {"10": None, "11": "interrupted"}


def test_a_queue_that_does_not_answer_has_every_job(tmp_path, programs):
    there = a_slurm(tmp_path)
    there.folder.mkdir()
    (there.folder / "7_1_0_result.pkl").write_bytes(pickle.dumps(("success", "complete")))
    programs("squeue", "exit 1")
    assert there.ended(["7_1"]) == {}


def test_slurms_parameters_are_those_of_the_configuration(tmp_path, programs):
    more = ["launcher.partition=gpu", "launcher.mem_gb=8", "launcher.setup=[module load cuda]"]
    there = a_slurm(tmp_path, *more, "launcher.additional_parameters={reservation: lra}")
    training, measuring = (there._parameters(measures=measures) for measures in (False, True))
    assert training == {
        "partition": "gpu",
        "mem": "8GB",
        "time": 240,
        "signal_delay_s": 120,
        "array_parallelism": 256,
        "setup": ["module load cuda"],
        "job_name": "lra",
        "additional_parameters": {"requeue": True, "reservation": "lra"},
    }
    assert measuring["additional_parameters"] == {"requeue": True, "reservation": "lra", "exclusive": True}


@pytest.mark.parametrize(
    ("variables", "id"),
    [
        # the last of an array: by 7 Slurm understands all of it
        ({"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}, "7_3"),
        ({"SLURM_JOB_ID": "9"}, "9"),
    ],
)
def test_a_job_whose_time_is_out_queues_up_by_itself(tmp_path, programs, monkeypatch, signals_restored, variables, id):
    programs("scontrol", f"echo $* >> {tmp_path}/asked")
    for name in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def work(supervisor):
        supervisor.signal = signal.SIGUSR2
        return "interrupted"

    assert SlurmJob(types.SimpleNamespace(work=work), requeues=1)() == "interrupted"
    assert (tmp_path / "asked").read_text() == f"requeue {id}\n"


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("launcher.timeout_min=0", "launcher.timeout_min=0: must be at least 1"),
        ("launcher.batch=0", "launcher.batch=0: must be at least 1"),
        ("launcher.signal_delay_s=99999", "launcher.signal_delay_s=99999: must lie between 0 and"),
    ],
)
def test_an_option_out_of_range_is_named(tmp_path, programs, argument, named):
    with pytest.raises(BadInput, match=named):
        a_slurm(tmp_path, argument)


@pytest.mark.parametrize(
    ("launcher", "named"), [("slurm", "launcher=slurm: this machine has no sbatch"), ("ray", "make setup EXTRAS=ray")]
)
def test_a_launcher_that_is_not_here_is_named_before_anything_starts(
    tmp_path, encoded, monkeypatch, capsys, signals_restored, launcher, named
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    places = tiny.places(tmp_path, encoded)
    code = main(["model=transformer", "task=listops", *tiny.SMALL, *tiny.SMALL_CELLS, *places, f"launcher={launcher}"])
    assert code == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "work" / "plans").exists()
