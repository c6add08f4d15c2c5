"""Weights & Biases beside a run: each step once, each end as it was, and never in the way."""

import json
import os
import shutil
import signal
import struct
import subprocess
import time

import pytest

from lra import track
from lra.config import Tracking
from lra.record import HISTORY_FILE, write_json
from lra.track import FINAL_FILE, Tracker, mode, rows
from lra.variants import ROOT

ID = "0123456789abcdef"


@pytest.fixture
def folder(tmp_path):
    """The work folder of a run that tracks offline."""
    specify(tmp_path, "offline")
    return tmp_path


def specify(folder, tracking):
    specification = {
        "config": {"tracking": tracking, "train": {"steps": 12}},
        "title": "local on listops, seed 0",
        "id": ID,
        "group": "mini",
        "history": HISTORY_FILE,
    }
    write_json(folder / "specification.json", specification)


def write_history(folder, *steps, more=""):
    text = "".join(json.dumps({"step": step, "train_loss": 1 / step}) + "\n" for step in steps)
    (folder / HISTORY_FILE).write_text(text + more)


def finish(tracker, status, folder, metrics=None):
    score = folder / "seed0.json"
    score.write_text("{}")
    return tracker.finish({"status": status, "metrics": metrics}, score)


def records(run):
    """Every record of an offline run: W&B keeps them in the log format of LevelDB, 32 KiB blocks of framed pieces."""
    from wandb.proto import wandb_internal_pb2

    (file,) = run.glob("*.wandb")
    content, position, pieces = file.read_bytes(), 7, b""
    while position + 7 <= len(content):
        if 2**15 - position % 2**15 < 7:
            position += 2**15 - position % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        if kind == 0:
            break
        pieces += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(pieces)
            pieces = b""
            yield record


def of_kind(found, kind):
    return [getattr(record, kind) for record in found if record.WhichOneof("record_type") == kind]


def logged_steps(found):
    rows = [
        {item.key or ".".join(item.nested_key): item.value_json for item in row.item}
        for row in of_kind(found, "history")
    ]
    return [int(row["step"]) for row in rows]


def test_modes(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert [mode(each) for each in (Tracking.none, Tracking.offline, Tracking.online)] == ["none", "offline", "online"]
    assert mode(Tracking.auto) == "offline"
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password " + "a" * 40 + "\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert mode(Tracking.auto) == "online"
    (tmp_path / ".netrc").write_text("nonsense")
    assert mode(Tracking.auto) == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    assert mode(Tracking.auto) == "online"


def test_without_tracking_nothing_is_started(folder):
    tracker = Tracker(Tracking.none, folder)
    assert tracker.process is None
    assert finish(tracker, "complete", folder) is None
    assert not (folder / "tracking.log").exists()


def test_rows_come_once_however_the_history_grows(folder, monkeypatch):
    monkeypatch.setattr(track, "POLL_SECONDS", 0.01)
    follower = rows(folder, HISTORY_FILE, os.getppid())
    write_history(folder, 3, 6, more='{"step": 9, "tra')  # a row that is being written
    assert [next(follower)["step"] for _ in range(2)] == [3, 6]
    write_history(folder, 3, 6, 9)
    assert next(follower)["step"] == 9
    write_history(folder, 3)  # set back to a checkpoint
    (folder / FINAL_FILE).touch()
    assert [row["step"] for row in follower] == [3]  # the caller knows that it has it


def test_rows_end_when_the_supervisor_is_gone(folder):
    write_history(folder, 3)
    assert [row["step"] for row in rows(folder, HISTORY_FILE, parent=os.getpid())] == [3]


def test_two_attempts_are_one_run_with_each_step_once(folder):
    tracker = Tracker(Tracking.offline, folder)
    write_history(folder, 3, 6)
    assert finish(tracker, "failed", folder) is None
    (first,) = (folder / "wandb").glob("offline-run-*")
    first = first.rename(folder / "first")
    tracker = Tracker(Tracking.offline, folder)
    assert not (folder / FINAL_FILE).exists()
    write_history(folder, 3, 6, 9, 12)
    assert finish(tracker, "complete", folder, {"test_accuracy": 0.5}) is None
    (second,) = (folder / "wandb").glob("offline-run-*")
    attempts = [list(records(run)) for run in (first, second)]
    assert [logged_steps(found) for found in attempts] == [[3, 6], [9, 12]]
    assert [next(run.run_id for run in of_kind(found, "run")) for found in attempts] == [ID, ID]
    assert [next(run.run_group for run in of_kind(found, "run")) for found in attempts] == ["mini", "mini"]
    assert [[end.exit_code for end in of_kind(found, "exit")] for found in attempts] == [[1], [0]]
    summary = {item.key: item.value_json for part in of_kind(attempts[1], "summary") for item in part.update}
    assert summary["status"] == '"complete"'
    assert summary["test_accuracy"] == "0.5"
    assert of_kind(attempts[1], "artifact")


def test_a_tracker_ends_with_its_supervisor(folder):
    """Its parent is not who it was told: the supervisor has been killed."""
    write_history(folder, 3)
    tracker = Tracker(Tracking.offline, folder)
    tracker.process.kill()
    tracker.process.wait()
    shutil.rmtree(folder / "wandb", ignore_errors=True)
    assert track.subprocess.run(
        [track.sys.executable, "-m", "lra.track", str(folder), "1"], cwd=track.ROOT, timeout=120, capture_output=True
    ).returncode == 1  # fmt: skip
    (run,) = (folder / "wandb").glob("offline-run-*")
    found = list(records(run))
    assert logged_steps(found) == [3]
    assert [end.exit_code for end in of_kind(found, "exit")] == [1]


def processes_in(folder):
    """Living processes whose command line names a folder."""
    found = []
    for each in os.scandir("/proc"):
        if each.name.isdecimal():
            try:
                with open(f"/proc/{each.name}/cmdline", "rb") as file:
                    if os.fsencode(folder) in file.read():
                        found.append(int(each.name))
            except OSError:
                continue
    return found


def test_a_tracker_that_hangs_is_ended_with_one_warning(folder, monkeypatch):
    monkeypatch.setattr(track, "PATIENCE_SECONDS", 0.5)
    tracker = Tracker(Tracking.offline, folder)
    os.kill(tracker.process.pid, signal.SIGSTOP)
    started = time.monotonic()
    assert finish(tracker, "complete", folder) == "tracking did not end within 0 s and was ended"
    assert time.monotonic() - started < 30
    assert processes_in(folder) == []


def test_a_tracker_that_fails_is_one_warning(folder):
    (folder / "specification.json").write_text("{}")
    tracker = Tracker(Tracking.offline, folder)
    assert finish(tracker, "complete", folder) == f"tracking failed; see {folder / 'tracking.log'}"
    assert "KeyError" in (folder / "tracking.log").read_text()


def test_without_a_network_nothing_waits_and_the_run_is_kept(folder, monkeypatch):
    """Online is asked for, and no connection is answered."""
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(
        track,
        "ROOT",
        shortened(folder, "ONLINE_SECONDS, PATIENCE_SECONDS = 20.0", "ONLINE_SECONDS, PATIENCE_SECONDS = 1.0"),
    )
    specify(folder, "online")
    write_history(folder, 3, 6)
    started = time.monotonic()
    tracker = Tracker(Tracking.online, folder)
    assert time.monotonic() - started < 5  # training begins now
    warning = finish(tracker, "complete", folder)
    assert warning == f"no connection to W&B, the run was kept in {folder / 'wandb'}; scripts/sync_wandb.sh sends it"
    (run,) = (folder / "wandb").glob("offline-run-*")
    found = list(records(run))
    assert logged_steps(found) == [3, 6]
    assert [end.exit_code for end in of_kind(found, "exit")] == [0]


def shortened(folder, old, new):
    """A copy of the rooms that the tracker imports, less patient."""
    root = folder / "root"
    for room in ("lra", "tasks", "models", "configs"):
        shutil.copytree(track.ROOT / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    text = (root / "lra" / "track.py").read_text()
    assert old in text
    (root / "lra" / "track.py").write_text(text.replace(old, new))
    return root


def test_the_sync_script_sends_all_attempts_at_a_run_in_their_order(tmp_path):
    attempts = [f"{run}/wandb/offline-run-20261129_{time}-{run}" for run in ("b", "a") for time in (120000, 115959)]
    for attempt in attempts:
        (tmp_path / "runs" / attempt).mkdir(parents=True)
        (tmp_path / "runs" / attempt / f"run-{attempt[-1]}.wandb").touch()
    done = sync(tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    listed = [line.split("runs/")[1] for line in done.stderr.splitlines() if line.endswith(".wandb")]
    assert [path.rpartition("/")[0] for path in listed] == sorted(attempts)


def test_the_sync_script_says_that_there_is_nothing_to_send(tmp_path):
    assert sync(tmp_path).stdout == f"nothing was tracked offline in {tmp_path}\n"
    done = sync(tmp_path / "misspelt")
    assert (done.returncode, done.stderr) == (2, f"sync_wandb: there is no folder {tmp_path / 'misspelt'}\n")


def sync(*arguments):
    return subprocess.run(["scripts/sync_wandb.sh", *arguments], cwd=ROOT, capture_output=True, text=True)
