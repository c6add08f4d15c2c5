"""The command from outside: what is started, skipped, repeated, written and answered, whatever the children do."""

import contextlib
import functools
import io
import json
import os
import platform
import signal
import time

import numpy as np
import pytest

from lra import bench, cores, hardware, lease, record, runs
from lra.bench import main
from lra.runs import Run
from lra.soak import processes
from tests.lra import tiny
from tests.lra.faking import Faking

pytestmark = pytest.mark.usefixtures("signals_restored")


class Bench:
    """Runs the command with fake children; `started` counts trainings."""

    def __init__(self, root, encoded, monkeypatch):
        self.root, self.monkeypatch = root, monkeypatch
        self.common = [*tiny.SMALL, *tiny.SMALL_CELLS, *tiny.places(root, encoded)]
        self.started = 0

    def arguments(self, *more, seeds="0"):
        return ["model=transformer", "task=listops", f"seed={seeds}", *self.common, *more]

    def __call__(self, *behaviours, seeds="0", more=()):
        supervisors = []

        def make():
            supervisors.append(Faking(*behaviours))
            return supervisors[-1]

        self.monkeypatch.setattr(bench, "Supervisor", make)
        code = main(self.arguments(*more, seeds=seeds))
        self.started = supervisors[0].started if supervisors else None
        return code

    def run(self, seed=0):
        return tiny.run_of(*tiny.places(self.root, self.common[-1].partition("=")[2]), seed=seed)

    def score(self, seed=0):
        return record.read_json(self.run(seed).score_file)


@pytest.fixture
def fake(tmp_path, encoded, monkeypatch):
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.05)
    return Bench(tmp_path, encoded, monkeypatch)


def test_one_failure_stops_nothing_else(fake, capfd):
    assert fake("complete", "raises", "complete", seeds="0,1,2") == 3
    output, errors = capfd.readouterr()
    assert "2 of 3 runs are complete." in output
    assert "RuntimeError: no such luck" in errors
    assert "Traceback" in errors
    assert [fake.score(seed)["status"] for seed in range(3)] == ["complete", "failed", "complete"]
    assert fake.score(1)["error"] == "RuntimeError: no such luck"
    assert fake.score(1)["metrics"] is None
    speed = record.read_json(fake.run().speed_file)
    assert [(cell["mode"], cell["length"], cell["status"]) for cell in speed["cells"]] == [
        ("train", 16, "complete"),
        ("inference", 16, "complete"),
    ]


def test_what_is_complete_is_skipped_and_the_rest_is_tried_again(fake, capfd):
    assert fake("complete", "kill", seeds="0,1") == 3
    first = fake.run().score_file.read_bytes()
    assert (fake.score(1)["status"], fake.score(1)["error"]) == ("failed", "killed by SIGKILL")
    capfd.readouterr()
    assert fake("complete", seeds="0,1") == 0
    assert fake.started == 1
    assert f"already in {fake.run().score_file}" in capfd.readouterr().err
    assert fake.run().score_file.read_bytes() == first
    assert (fake.score(1)["status"], fake.score(1)["error"], fake.score(1)["attempts"]) == ("complete", None, 2)
    assert fake(seeds="0,1") == 0
    assert fake.started == 0


def test_a_diverged_run_is_a_result(fake):
    assert fake("diverged") == 3
    assert (fake.score()["status"], fake.score()["history"][0]["step"]) == ("diverged", 3)
    assert fake() == 3
    assert fake.started == 0


@pytest.mark.parametrize(
    ("behaviour", "minutes", "status"), [("exhausted", 1, "out_of_memory"), ("sleep", 0.01, "timed_out")]
)
def test_a_run_without_memory_or_time_is_tried_again(fake, behaviour, minutes, status):
    assert fake(behaviour, more=[f"limits.train_minutes={minutes}"]) == 3
    assert fake.score()["status"] == status
    assert fake("complete") == 0


def test_a_run_that_fails_again_and_again_is_left_after_the_stated_number(fake, capfd):
    limit = ["limits.attempts=2"]
    assert [fake("raises", more=limit) for _ in range(2)] == [3, 3]
    assert fake.score()["attempts"] == 2
    capfd.readouterr()
    assert fake(more=limit) == 3
    assert fake.started == 0
    assert "failed 2 times, last with: RuntimeError: no such luck. Try again with force=true" in capfd.readouterr().err
    assert fake("complete", more=["force=true"]) == 0


several_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


@several_cores
def test_runs_that_keep_to_a_core_train_side_by_side_on_different_ones(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "CLAIMS", tmp_path / "cores")
    assert fake("meet", "meet", seeds="0,1", more=["limits.cores=1"]) == 0
    first, second = (json.loads((fake.run(seed).work_folder / "came").read_text()) for seed in (0, 1))
    assert (len(first), len(second)) == (1, 1)
    assert first != second
    assert [fake.score(seed)["hardware"]["count"] for seed in (0, 1)] == [1, 1]
    told = record.read_json(fake.run().work_folder / "specification.json")
    assert not told["alone"]  # the terminal has room for one bar
    assert record.read_json(fake.run().speed_file)["hardware"]["count"] == hardware.describe()["count"]
    monkeypatch.setattr(cores, "memory", lambda: cores.MEMORY_EACH)
    assert fake("complete", "complete", seeds="2,3", more=["limits.cores=1"]) == 0
    assert record.read_json(fake.run(3).work_folder / "specification.json")["alone"]


@several_cores
def test_a_signal_stops_all_that_train_side_by_side_and_nothing_starts_after_it(fake, start):
    process, _ = start("count_signals", "count_signals", more=["limits.cores=1"], seeds="0,1,2")
    for seed in (0, 1):
        wait_for(fake.run(seed).work_folder / "ready", process)
    os.kill(process.pid, signal.SIGINT)
    process.join(30)
    assert process.exitcode == 75
    assert [(fake.run(seed).work_folder / "came").read_text() for seed in (0, 1)] == [f"[{signal.SIGTERM.value}]"] * 2
    assert [(fake.score(seed) or {}).get("status") for seed in range(3)] == ["interrupted", "interrupted", None]


@several_cores
def test_what_ends_the_command_lets_the_run_beside_it_save_first(fake, start):
    """One score file is spoilt after the command has looked at it, while the other run trains."""
    process, log = start("count_signals", "slow", more=["limits.cores=1"], seeds="0,1")
    folders = [fake.run(seed).work_folder for seed in (0, 1)]
    for folder in folders:
        wait_for(folder / "behaviour", process)
    stopped = int((folders[0] / "behaviour").read_text() == "slow")
    fake.run(1 - stopped).score_file.mkdir(parents=True)
    process.join(30)
    assert process.exitcode == 3
    assert log.read_text().splitlines()[-1].startswith("lra.bench: cannot write")
    assert fake.score(stopped)["status"] == "interrupted"


def test_force_repeats_what_is_complete(fake):
    assert fake("complete") == 0
    (fake.run().work_folder / "checkpoints" / "12").mkdir(parents=True)
    assert fake("complete", more=["force=true"]) == 0
    assert fake.started == 1
    assert not (fake.run().work_folder / "checkpoints").exists()  # it begins at the beginning


def test_an_interrupted_run_costs_no_attempt(fake):
    fake("raises")
    content = fake.score() | {"status": "interrupted"}
    record.write_json(fake.run().score_file, content)
    fake("raises", more=["limits.attempts=2"])
    assert (fake.score()["status"], fake.score()["attempts"]) == ("failed", 1)


def test_another_runs_score_in_its_place_is_an_error(fake, capfd):
    assert fake("complete") == 0
    record.write_json(fake.run().score_file, fake.score() | {"config_hash": "0123456789abcdef"})
    before = fake.run().score_file.read_bytes()
    capfd.readouterr()
    assert fake() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert str(fake.run().score_file) in line
    assert "hash 0123456789abcdef, this one" in line
    assert fake.run().score_file.read_bytes() == before
    assert fake("complete", more=["force=true"]) == 0
    assert fake.score()["config_hash"] == fake.run().hash


@pytest.mark.parametrize("which", ["score_file", "speed_file"])
def test_a_damaged_result_is_named_before_anything_starts(fake, which, capfd):
    assert fake("complete") == 0
    path = getattr(fake.run(), which)
    path.write_text(path.read_text()[:100])
    capfd.readouterr()
    assert fake() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"cannot read {path}" in line


def test_the_score_file_has_every_field(fake):
    assert fake("complete") == 0
    score, run = fake.score(), fake.run()
    assert run.score_file == fake.root / "results" / "scores" / "mini" / run.label / "listops" / "seed0.json"
    assert score.keys() >= {
        *("schema_version", "status", "error", "variant", "family", "task", "preset", "seed", "config", "config_hash"),
        *("data", "metrics", "parameters", "history", "hardware", "software", "git_commit", "started", "finished"),
        *("wall_seconds", "attempts"),
    }
    assert (score["variant"], score["family"], score["task"], score["preset"]) == (
        *("transformer", "dense", "listops", "mini"),
    )
    assert score["data"].keys() >= {
        "source",
        "fingerprint",
        "splits",
        "baselines",
        "truncated_fraction",
        "skipped_files",
    }
    assert score["data"]["splits"] == {"train": 60, "validation": 20, "test": 30}
    assert score["config_hash"] == run.hash
    assert score["config"]["encoder"]["dim"] == 16
    assert score["hardware"]["host"] == platform.node()
    predictions = np.load(run.score_file.with_suffix(".predictions.npz"))
    assert set(predictions) == {"id", "label", "prediction"}


def test_overrides_that_change_the_run_have_a_place_of_their_own(encoded):
    plain = Run.of(overrides := ["model=local", "task=listops", "preset=mini", "seed=3"], bench.compose_run(overrides))
    assert (plain.label, plain.variant) == ("local", "local")
    same = Run.of([*overrides, "tracking=offline"], bench.compose_run([*overrides, "tracking=offline"]))
    assert same.label == "local"
    other, seed = tiny.run_of(variant="local"), tiny.run_of(variant="local", seed=1)
    name, _, digits = other.label.partition("@")
    assert name == "local"
    assert len(digits) == 8
    assert seed.label == other.label  # seeds of one configuration are one row


def test_a_line_is_written_whole_beside_the_lines_of_other_runs(monkeypatch):
    written = []
    stream = io.StringIO()
    stream.write = written.append
    monkeypatch.setattr(runs.sys, "stderr", stream)
    runs.say("local on text, seed 0: done")
    assert [text for text in written if text] == ["local on text, seed 0: done\n"]


def wait_for(path, process):
    while not path.exists():
        assert process.is_alive(), f"{path} never came"
        time.sleep(0.01)


def bench_process(log, arguments, behaviours):
    """The command in a process of its own, with fake children."""
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    lease.POLL_SECONDS = 0.05
    cores.CLAIMS = log.parent / "cores"
    bench.Supervisor = functools.partial(Faking, *behaviours)
    os._exit(main(arguments))


@pytest.fixture
def start(fake, tmp_path):
    """Starts the command beside the test; returns its process and its log."""
    started = []

    def begin(*behaviours, more=(), seeds="0"):
        assert fake.run().hash  # which builds the data
        log = tmp_path / f"log{len(started)}"
        process = processes.Process(target=bench_process, args=(log, fake.arguments(*more, seeds=seeds), behaviours))
        process.start()
        started.append(process)
        return process, log

    yield begin
    for process in started:
        process.kill()
        process.join()


def test_ctrl_c_leaves_everything_resumable_and_says_how(fake, start):
    process, log = start("count_signals")
    folder = fake.run().work_folder
    wait_for(folder / "ready", process)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 75
    assert (folder / "came").read_text() == f"[{signal.SIGTERM.value}]"
    last = log.read_text().splitlines()[-1]
    assert last == "lra.bench: interrupted; the same command goes on from here"
    assert "Traceback" not in log.read_text()
    assert (fake.score()["status"], fake.score()["attempts"]) == ("interrupted", 1)
    assert fake("complete") == 0
    assert (fake.score()["status"], fake.score()["attempts"]) == ("complete", 1)


def test_two_at_once_one_trains_and_the_other_waits_and_skips(fake, start):
    first, _ = start("slow")
    folder = fake.run().work_folder
    wait_for(folder / "behaviour", first)
    assert fake() == 0  # it has no child to start
    first.join()
    assert first.exitcode == 0
    assert fake.score()["attempts"] == 1


def test_whoever_waits_can_be_stopped(fake, start):
    first, _ = start("sleep")
    wait_for(fake.run().work_folder / "behaviour", first)
    waiting, log = start()
    while "waiting for it" not in (log.read_text() if log.exists() else ""):
        time.sleep(0.02)
    os.kill(waiting.pid, signal.SIGINT)
    waiting.join()
    assert waiting.exitcode == 75
    assert fake.score() is None


def test_the_child_of_a_killed_supervisor_ends_and_the_next_one_takes_over(fake, start, capfd):
    process, _ = start("wait_for_stop")
    folder = fake.run().work_folder
    wait_for(folder / "ready", process)
    holders = json.loads((folder / "lease.json").read_text())["processes"]
    assert len(holders) == 2
    process.kill()
    process.join()
    while not (folder / "stopped").exists():
        assert lease._process(holders[1]["pid"]) == holders[1]
        time.sleep(0.01)
    assert fake("complete") == 0
    assert f"left {folder} unfinished; taking over" in capfd.readouterr().err
    assert fake.score()["attempts"] == 1


def test_unwritable_places_are_named_before_anything_starts(fake, small_disk, capfd):
    os.system(f"mount -o remount,ro {small_disk}")
    for key, place in (("results", small_disk), ("work_dir", small_disk / "work")):
        assert fake(more=[f"{key}={place}"]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert (
            line == f"lra.bench: cannot write into {place}: Read-only file system. Choose another folder with {key}=..."
        )


def test_results_that_fill_the_disk_damage_nothing_and_a_rerun_completes(fake, small_disk, capfd):
    here = [f"results={small_disk / 'results'}"]
    assert fake("complete", more=here) == 0
    files = sorted(path for path in small_disk.rglob("*") if path.is_file())
    before = [path.read_bytes() for path in files]
    capfd.readouterr()
    filling = small_disk / "filling"
    with open(filling, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert fake("complete", more=[*here, "force=true"]) == 3
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("lra.bench: cannot write ")
    assert line.endswith("No space left on device")
    assert [path.read_bytes() for path in files] == before
    assert sorted(path for path in small_disk.rglob("*") if path.is_file() and path != filling) == files
    filling.unlink()
    assert fake("complete", more=[*here, "force=true"]) == 0
