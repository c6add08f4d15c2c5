"""Result files are read whole or not at all, and what is left out is named."""

import json
from pathlib import Path

import pytest

from lra.report.load import Results, load


def reasons(results: Results) -> dict[str, str]:
    return {skipped.path.name: skipped.reason for skipped in results.skipped}


def test_reads_scores_and_speeds(make):
    make.score("bigbird", seed=3, accuracy=0.41)
    make.speed("bigbird", hardware="toy-gpu")
    results = load(make.root)
    (score,), (speed,) = results.scores, results.speeds
    assert (score.variant, score.task, score.seed, score.accuracy) == ("bigbird", "listops", 3, 0.41)
    assert score.predictions.name == "seed3.predictions.npz"
    assert (speed.hardware, speed.cells[0].length, speed.cells[0].sequences_per_second) == ("toy-gpu", 1024, 80)
    assert speed.cells[0].peak_bytes == {"compiled": 3e8, "process": 9e8}  # the unknown one is left out
    assert results.presets == ["mini"]
    assert not results.skipped


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema_version": 2}, "schema_version 2"),
        ({"status": "finished"}, "'finished' is none of"),
        ({"preset": "lra"}, "preset is 'lra' in the file and 'mini' in its path"),
        ({"seed": 1}, "seed is 1 in the file and 0 in its path"),
        ({"variant": "local"}, "variant is 'local' in the file"),
        ({"metrics.test_accuracy": None}, "metrics.test_accuracy is missing"),
        ({"metrics.test_accuracy": 41.0}, "41.0 is not a fraction"),
        ({"metrics.test_accuracy": "0.4"}, "expected float, found '0.4'"),
        ({"metrics.interval": [0.3]}, "expected two fractions"),
        ({"data.source": "invented"}, "'invented' is none of"),
        ({"config_hash": None}, "config_hash is missing"),
        ({"data.baselines": {"majority": "low"}}, "data.baselines.majority: expected a number"),
    ],
)
def test_names_what_is_wrong_with_a_score(make, changes, reason):
    good = make.score("local")
    record = json.loads(make.score("bigbird").read_text())
    for key, value in changes.items():
        table, _, last = key.rpartition(".")
        (record[table] if table else record)[last] = value
    (make.root / "scores/mini/bigbird/listops/seed0.json").write_text(json.dumps(record))
    results = load(make.root)
    assert [score.path for score in results.scores] == [good]
    assert reason in reasons(results)["seed0.json"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"schema_version": 1, "a": NaN}', "NaN is not JSON"),
        ("[]", "not a table"),
        ("\xff", "not JSON"),
    ],
)
def test_a_damaged_file_is_skipped(make, text, reason):
    make.score("bigbird").write_text(text)
    assert reason in reasons(load(make.root))["seed0.json"]


def test_bytes_that_are_no_text_are_skipped(make):
    make.score("bigbird").write_bytes(b"\xff\xfe\x00")
    assert "unreadable" in reasons(load(make.root))["seed0.json"]


def test_foreign_files_are_named_and_predictions_are_not_foreign(make):
    score = make.score("bigbird")
    score.with_suffix(".predictions.npz").write_bytes(b"")
    (score.parent / ".seed0.json.half").write_text("{")
    (make.root / "speed").mkdir()
    (make.root / "speed/notes.txt").write_text("hello")
    results = load(make.root)
    assert len(results.scores) == 1
    assert set(reasons(results)) == {".seed0.json.half", "notes.txt"}


def test_a_run_without_a_score_keeps_its_status(make):
    make.score("bigbird", status="out_of_memory", error="killed", metrics=None)
    (score,) = load(make.root).scores
    assert (score.status, score.accuracy, score.error) == ("out_of_memory", None, "killed")


def test_a_wrong_cell_is_named(make):
    make.speed("bigbird", [make.cell(status="complete", sequences_per_second=None)])
    assert "sequences_per_second is missing" in reasons(load(make.root))["bigbird.json"]


def test_an_empty_folder_is_no_error(tmp_path: Path):
    assert load(tmp_path / "nowhere") == Results(tmp_path / "nowhere", (), (), ())


def test_reads_the_schema_that_the_runner_writes():
    from lra import record
    from lra.report import load as module

    assert record.SCHEMA_VERSION == module.SCHEMA_VERSION
