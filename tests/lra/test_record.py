"""Result files are whole or not there, and hold nothing that JSON does not know."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from lra import record
from lra.errors import BadInput

ROOT = Path(__file__).parents[2]


def only_file(path):
    return [each.name for each in path.parent.iterdir()] == [path.name]


def test_what_is_written_is_read_and_nan_becomes_null(tmp_path):
    path = tmp_path / "deep" / "in" / "score.json"
    values = {"nan": float("nan"), "list": [1.5, -np.inf, (np.float32(0.25), np.int64(3))], "none": None, "text": "é"}
    record.write_json(path, values)
    assert record.read_json(path) == {"nan": None, "list": [1.5, None, [0.25, 3]], "none": None, "text": "é"}
    assert path.stat().st_mode & 0o777 == 0o644  # others may read results
    assert only_file(path)


def test_a_missing_file_is_none(tmp_path):
    assert record.read_json(tmp_path / "none.json") is None


@pytest.mark.parametrize("content", ["", '{"status": "comp', "[1, 2]", "null", "\udcff\udcfe"])
def test_a_damaged_file_is_bad_input_that_names_it(tmp_path, content):
    path = tmp_path / "score.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=rf"cannot read {path}: .* Move it away to run again"):
        record.read_json(path)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: record.write_json(path, {"new": object()}),
        lambda path: record.copy_file(path.parent, path),
        lambda path: record.write_predictions(path, np.zeros(3), np.zeros(3)),
    ],
    ids=["json", "copy", "predictions"],
)
def test_a_failed_write_leaves_the_old_file(tmp_path, write, monkeypatch):
    path = tmp_path / "score.json"
    record.write_json(path, {"old": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises((TypeError, OSError)):
            write(path)
    assert record.read_json(path) == {"old": 1}
    assert only_file(path)


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path):
    """The process dies when the new content is written and not yet in its place."""
    path = tmp_path / "score.json"
    record.write_json(path, {"old": 1})
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom lra import record\n"
        "os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)\n"
        "record.write_json(Path(sys.argv[1]), {'new': 2})\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert record.read_json(path) == {"old": 1}


def test_copy_and_predictions(tmp_path):
    record.write_predictions(tmp_path / "a.npz", np.array([3, 1], np.int32), np.array([3, 2], np.int32))
    record.copy_file(tmp_path / "a.npz", tmp_path / "there" / "b.npz")
    found = np.load(tmp_path / "there" / "b.npz")
    assert {name: found[name].tolist() for name in found} == {"id": [0, 1], "label": [3, 1], "prediction": [3, 2]}


@pytest.mark.parametrize(("correct", "count"), [(0, 10), (10, 10), (5, 10), (81, 263), (1234, 2000), (1999, 2000)])
def test_wilson_interval_is_scipys(correct, count):
    known = binomtest(correct, count).proportion_ci(method="wilson")
    assert record.wilson_interval(correct, count) == pytest.approx((known.low, known.high), abs=1e-12)


def test_wilson_interval_of_81_of_263():
    """Newcombe 1998, table I, https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8<857::AID-SIM777>3.0.CO;2-E"""
    assert record.wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert record.wilson_interval(0, 0) == (0.0, 1.0)


def test_the_hash_does_not_depend_on_order_or_process(tmp_path):
    one = record.config_hash({"a": 1, "b": {"c": [1.5, None], "d": "x"}})
    assert one == record.config_hash({"b": {"d": "x", "c": [1.5, None]}, "a": 1})
    assert one != record.config_hash({"a": 1, "b": {"c": [1.5, 0], "d": "x"}})
    program = "from lra import record; print(record.config_hash({'a': 1, 'b': {'c': [1.5, None], 'd': 'x'}}))"
    for seed in "01":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE)
        assert done.stdout.decode().strip() == one


def test_places_of_result_files():
    results = Path("results")
    assert record.score_path(results, "mini", "bigbird@0123abcd", "listops", 3) == Path(
        "results/scores/mini/bigbird@0123abcd/listops/seed3.json"
    )
    assert record.speed_path(results, "xeon-x2", "lra", "local") == Path("results/speed/xeon-x2/lra/local.json")


def test_versions_and_commit_are_known():
    versions = record.software()
    assert {"python", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy"} <= set(versions)
    assert json.dumps(versions)
    commit = record.git_commit()
    assert commit is None or set(commit.removesuffix("+")) <= set("0123456789abcdef")


def test_a_changed_file_marks_the_commit_but_a_new_result_does_not(tmp_path, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=tmp_path, check=True)

    monkeypatch.setattr(record, "ROOT", tmp_path)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    (tmp_path / "results" / "published").mkdir(parents=True)
    (tmp_path / "results" / "published" / "lecture.json").write_text("{}")
    assert not record.git_commit().endswith("+")
    (tmp_path / "train.py").write_text("")
    assert record.git_commit().endswith("+")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=rf"cannot write into {tmp_path}/file/results: .*results="):
        record.require_writable(tmp_path / "file" / "results", "results")
    record.require_writable(tmp_path / "new", "results")
    assert list((tmp_path / "new").iterdir()) == []
