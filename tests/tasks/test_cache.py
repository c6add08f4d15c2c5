import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tasks.errors import DataError
from tests.tasks.toy import keep, small_task

ROOT = Path(__file__).parents[2]


def never(report):
    raise AssertionError("built again")


def entry_of(cache_dir: Path) -> Path:
    (entry,) = [path for path in (cache_dir / "toy").iterdir() if not path.name.startswith(".")]
    return entry


@pytest.mark.parametrize("paired", [False, True])
def test_a_task_comes_back_as_it_was_built_and_is_built_once(tmp_path, paired):
    built = keep(tmp_path, lambda report: small_task(paired=paired))
    again = keep(tmp_path, never)
    expected = small_task(paired=paired)
    for task in (built, again):
        for name in ("train", "validation", "test"):
            split, right = getattr(task, name), getattr(expected, name)
            assert isinstance(split.tokens, np.memmap)
            assert split.paired == paired
            for part in ("tokens", "offsets", "labels"):
                np.testing.assert_array_equal(getattr(split, part), getattr(right, part))
        for name in ("name", "version", "source", "vocab_size", "num_classes", "max_length", "paired"):
            assert getattr(task, name) == getattr(expected, name)
        assert (task.baselines, task.truncated_fraction, task.skipped_files) == ({"majority": 0.5}, 0.25, ("a.png",))
    assert built.fingerprint == again.fingerprint != ""


def test_the_fingerprint_follows_the_content(tmp_path):
    original, same, other = (keep(tmp_path, lambda report, v=v: small_task(v), n=n) for n, v in enumerate((3, 3, 4)))
    assert original.fingerprint == same.fingerprint != other.fingerprint


def test_version_parameters_and_changed_files_make_a_new_entry(tmp_path):
    source = tmp_path / "raw.tsv"
    source.write_text("one")
    keep(tmp_path, files=[source], length=4)
    keep(tmp_path, never, files=[source], length=4)
    source.write_text("other")
    for change in ({"version": 2, "length": 4}, {"length": 5}, {"length": 4, "files": [source]}):
        with pytest.raises(AssertionError, match="built again"):
            keep(tmp_path, never, **{"files": [], **change})


@pytest.mark.parametrize("damage", ["missing", "truncated", "unreadable"])
def test_a_damaged_entry_is_named_and_built_again(tmp_path, caplog, damage):
    keep(tmp_path)
    tokens, facts = entry_of(tmp_path) / "train.tokens.npy", entry_of(tmp_path) / "task.json"
    if damage == "missing":
        tokens.unlink()
    elif damage == "truncated":
        os.truncate(tokens, tokens.stat().st_size - 7)
    else:
        facts.write_text("{")
    task = keep(tmp_path)
    np.testing.assert_array_equal(task.train.tokens, small_task().train.tokens)
    assert (facts if damage == "unreadable" else tokens).name in caplog.text
    keep(tmp_path, never)


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot keep the encoded toy data in .*file/toy: .*LRA_CACHE"):
        keep(tmp_path / "file")


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(file, array):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        with pytest.raises(DataError, match="No space left on device"):
            keep(tmp_path)
    assert [path for path in (tmp_path / "toy").iterdir() if path.is_dir()] == []
    keep(tmp_path)


def test_a_source_that_cannot_be_read_is_not_blamed_on_the_cache(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*gone\.tsv: No such file"):
        keep(tmp_path, lambda report: (tmp_path / "gone.tsv").read_text())


CHILD = """
import sys, time
import numpy as np
from pathlib import Path
from tests.tasks.toy import keep, small_task

def build(report):
    with open(sys.argv[2], "a") as file:
        file.write("built\\n")
    time.sleep(0.5)
    return small_task()

if sys.argv[3] == "hang":
    save = np.save
    def slow_save(file, array):
        save(file, array)
        if Path(file.name).name.startswith("validation.tokens"):
            print("saving", flush=True)
            time.sleep(60)
    np.save = slow_save
print("ready", flush=True)
sys.stdin.readline()
print(keep(sys.argv[1], build).fingerprint, flush=True)
"""


def start_child(cache_dir: Path, builds: Path, mode: str = "build") -> subprocess.Popen:
    """A process that is ready to build and does so once it is told `go`."""
    command = [sys.executable, "-c", CHILD, str(cache_dir), str(builds), mode]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def go(child: subprocess.Popen) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def line_of(child: subprocess.Popen) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_four_processes_at_once_build_once_and_agree(tmp_path):
    children = [start_child(tmp_path, tmp_path / "builds") for _ in range(4)]
    assert [line_of(child) for child in children] == ["ready"] * 4
    for child in children:
        go(child)
    outputs = [child.communicate(timeout=60)[0] for child in children]
    assert [child.returncode for child in children] == [0] * 4
    assert (tmp_path / "builds").read_text().count("built") == 1
    assert len(set(outputs)) == 1
    assert len(outputs[0].strip()) == 32


def test_a_build_killed_half_way_leaves_nothing_that_counts(tmp_path):
    child = start_child(tmp_path, tmp_path / "builds", "hang")
    assert line_of(child) == "ready"
    go(child)
    assert line_of(child) == "saving"
    assert len(list((tmp_path / "toy").rglob("*.npy"))) == 4, "the kill must come in the middle of the writing"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    started = time.monotonic()
    task = keep(tmp_path)
    assert time.monotonic() - started < 10, "a dead process still holds the lock"
    np.testing.assert_array_equal(task.test.tokens, small_task().test.tokens)
    assert [path for path in (tmp_path / "toy").iterdir() if path.is_dir()] == [entry_of(tmp_path)]
    assert len(json.loads((entry_of(tmp_path) / "task.json").read_text())["bytes"]) == 9
