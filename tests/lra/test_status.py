"""What the table says of runs follows from their files, whoever wrote them and however they ended."""

import json
import os
import platform
import time
from pathlib import Path

import pytest

from lra import record, status
from lra.lease import Lease
from lra.status import JOB_FILE, State, main, note_plan, pick, planned, state_of, time_left
from tests.lra import tiny


@pytest.fixture
def runs(tmp_path):
    """Two variants with three seeds each, planned and not begun."""
    made = [
        tiny.run_of(*tiny.places(tmp_path, tmp_path / "cache"), variant=variant, seed=seed)
        for variant in ("transformer", "local")
        for seed in range(3)
    ]
    note_plan(made)
    return made


def write_score(run, status, **more):
    score = {"status": status, "error": None, "wall_seconds": 60.0}
    record.write_json(run.score_file, score | more)


def write_history(run, *steps):
    run.work_folder.mkdir(parents=True, exist_ok=True)
    (run.work_folder / record.HISTORY_FILE).write_text("".join(f'{{"step": {step}}}\n' for step in steps))


def states(tmp_path):
    found = [state_of(run) for run in planned(tmp_path / "work")]
    return {(state.planned["variant"], state.planned["seed"]): (state.status, state.detail) for state in found}


def held(run):
    return Lease(run.work_folder, print, lambda: None, stopped=lambda: False)


def shown(capsys, tmp_path, *arguments):
    assert main([f"work_dir={tmp_path / 'work'}", *arguments]) == 0
    return capsys.readouterr().out


def test_every_end_has_its_word(runs, tmp_path):
    write_score(runs[0], "complete")
    write_score(runs[1], "failed", error="RuntimeError: no such luck")
    write_score(runs[2], "out_of_memory", error="RESOURCE_EXHAUSTED")
    write_score(runs[3], "diverged", error="the loss of step 4 is nan")
    write_history(runs[4], 3, 6)
    assert states(tmp_path) == {
        ("transformer", 0): ("complete", ""),
        ("transformer", 1): ("failed", "RuntimeError: no such luck"),
        ("transformer", 2): ("out_of_memory", "RESOURCE_EXHAUSTED"),
        ("local", 0): ("diverged", "the loss of step 4 is nan"),
        ("local", 1): ("interrupted", "ended without a word after step 6 of 12"),
        ("local", 2): ("missing", ""),
    }


def test_who_holds_the_lease_is_running_whatever_was_written_before(runs, tmp_path):
    write_score(runs[0], "failed", error="RuntimeError")
    write_history(runs[0], 3, 9)
    with held(runs[0]):
        where = f"on {platform.node()}, process {os.getpid()}, step 9 of 12"
        assert states(tmp_path)["transformer", 0] == ("running", where)
    assert states(tmp_path)["transformer", 0] == ("failed", "RuntimeError")


def test_a_dead_holder_is_not_running(runs, tmp_path):
    with held(runs[0]) as lease:
        content = json.loads(lease.path.read_text()) | {"host": "elsewhere", "beat": time.time() - 3600}
    record.write_json(runs[0].work_folder / "lease.json", content)
    write_history(runs[0], 3)
    assert states(tmp_path)["transformer", 0] == ("interrupted", "ended without a word after step 3 of 12")


def test_what_a_cluster_has_is_queued_until_it_is_finished(runs, tmp_path):
    record.write_json(runs[0].work_folder / JOB_FILE, {"launcher": "slurm", "id": "12_3"})
    assert states(tmp_path)["transformer", 0] == ("queued", "slurm job 12_3")
    write_score(runs[0], "interrupted")
    assert states(tmp_path)["transformer", 0] == ("queued", "slurm job 12_3")
    write_score(runs[0], "complete")
    assert states(tmp_path)["transformer", 0] == ("complete", "")


def test_a_damaged_score_is_named(runs, tmp_path):
    write_score(runs[0], "complete")
    runs[0].score_file.write_text("{")
    word, why = states(tmp_path)["transformer", 0]
    assert (word, str(runs[0].score_file) in why) == ("failed", True)


def state(status, task="listops", label="local", share=0.0, seconds=None):
    return State({"preset": "mini", "task": task, "label": label}, status, "", share, seconds)


def test_time_left_is_that_of_the_same_variant_on_the_same_task_or_else_of_others():
    finished = [state("complete", seconds=seconds) for seconds in (100.0, 300.0, 110.0)]
    assert time_left([*finished, state("missing"), state("interrupted", share=0.5)]) == (165.0, 0)
    assert time_left([*finished, state("missing", label="bigbird")]) == (110.0, 0)
    assert time_left([*finished, state("missing", task="text")]) == (0.0, 1)
    two_at_a_time = [state("running", share=0.5), state("running", share=0.5), state("missing"), state("failed")]
    assert time_left([*finished, *two_at_a_time]) == (165.0, 0)


def test_the_page_counts_names_and_estimates(runs, tmp_path, capsys):
    write_score(runs[0], "complete", wall_seconds=1800.0)
    write_score(runs[1], "failed", error="ValueError: shapes [2] and [3]")
    cells = [
        {"mode": mode, "length": length, "batch_size": batch, "precision": "float32", "status": status}
        for mode, length, batch, status in (
            ("train", 16, 2, "complete"), ("inference", 16, 2, "failed"), ("train", 32, 2, "complete"),
            ("inference", 16, 4, "complete"),
        )
    ]  # fmt: skip
    record.write_json(runs[0].speed_file.parents[2] / "gpu" / "mini" / runs[0].speed_file.name, {"cells": cells})
    page = shown(capsys, tmp_path)
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert f"mini {runs[0].label} 1 of 3, 1 failed 1 of 2" in lines
    assert f"mini {runs[3].label} 0 of 3 0 of 2" in lines
    assert f"{runs[1].label} listops 1 failed ValueError: shapes [2] and [3]" in lines
    assert "6 runs: 1 complete, 1 failed, 4 missing. About 2 h 30 min of training left." in page


def test_runs_are_picked_by_name(runs, tmp_path, capsys):
    assert "3 runs: 3 missing" in shown(capsys, tmp_path, "model=local")
    assert "2 runs: 2 missing" in shown(capsys, tmp_path, "seed=1", "model=all", f"results={tmp_path / 'results'}")
    assert pick(planned(tmp_path / "work"), str(tmp_path / "elsewhere"), {}) == []
    assert main([f"work_dir={tmp_path / 'work'}", "task=text"]) == 2
    assert "no such run is planned" in capsys.readouterr().err


def test_the_same_plan_twice_is_one_and_another_joins_it(runs, tmp_path):
    note_plan(runs)
    note_plan(runs[:1])
    assert len(planned(tmp_path / "work")) == 6


@pytest.mark.parametrize(
    ("argument", "answer"),
    [("wach=true", "Did you mean watch?"), ("watch=yes", "true or false"), ("every=0", "every=0")],
)
def test_a_misspelling_is_answered(argument, answer, capsys):
    assert main([argument]) == 2
    assert answer in capsys.readouterr().err


def test_watching_ends_with_the_last_run(runs, tmp_path, capsys, monkeypatch):
    for run in runs[:-1]:
        write_score(run, "complete")
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            write_score(runs[-1], "complete")

    monkeypatch.setattr(status.time, "sleep", wait)
    assert "6 runs: 6 complete." in shown(capsys, tmp_path, "watch=true", "every=3")
    assert waits == [3, 3]


def test_it_writes_nothing(runs, tmp_path, capsys):
    def files():
        return {path: path.stat().st_mtime_ns for path in Path(tmp_path).rglob("*")}

    before = files()
    shown(capsys, tmp_path)
    assert files() == before
