"""Paired tests, on predictions whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

from lra.report.__main__ import main
from lra.report.compare import bootstrap, compare_task, mcnemar
from lra.report.load import load
from lra.report.rows import FIVE, join


def predict(
    make, variant: str, correct: np.ndarray, *, task: str = "listops", seed: int = 0, shuffle: bool = False
) -> Path:
    """A score whose stored predictions are right exactly where `correct` says."""
    score = make.score(variant, task, seed, float(correct.mean()))
    labels = np.arange(len(correct)) % 10
    order = np.random.default_rng(1).permutation(len(correct)) if shuffle else np.arange(len(correct))
    predictions = np.where(correct, labels, labels + 1)
    path = score.with_suffix(".predictions.npz")
    np.savez(path, id=order, label=labels[order], prediction=predictions[order])
    return path


def task_of(make, first="bigbird", second="transformer"):
    rows = {row.key: row for row in join(load(make.root), "mini")}
    return compare_task(rows[first], rows[second], "listops")


def test_mcnemar_is_the_exact_binomial_test():
    assert mcnemar(0, 0) == 1
    assert mcnemar(5, 5) == 1
    assert mcnemar(0, 5) == pytest.approx(2 / 32)
    assert mcnemar(1, 8) == mcnemar(8, 1) == pytest.approx(2 * (1 + 9) / 512)
    assert mcnemar(300, 400) == pytest.approx(0.000178, rel=0.01)


def test_disagreements_are_counted_by_example_whatever_the_order(make):
    predict(make, "bigbird", np.array([1, 1, 1, 0, 0, 1], bool), shuffle=True)
    predict(make, "transformer", np.array([1, 0, 0, 0, 1, 1], bool))
    found = task_of(make)
    assert found.mcnemar() == [(0, 2, 1, 1.0)]
    assert found.difference == pytest.approx(1 / 6)


def test_bootstrap_interval_covers_the_difference_and_narrows_with_examples():
    rng = np.random.default_rng(0)
    widths = []
    for examples in (100, 10_000):
        first, second = rng.random((2, 1, examples)) < [[[0.6]], [[0.5]]]
        draws = bootstrap(first, second)
        low, high = np.quantile(draws, [0.025, 0.975])
        assert low < first.mean() - second.mean() < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 5
    assert widths[1] == pytest.approx(2 * 1.96 * np.sqrt((0.24 + 0.25) / 10_000), rel=0.1)


def test_bootstrap_knows_that_seeds_differ():
    examples = np.arange(1000)
    steady = np.stack([examples % 2 == 0] * 4)
    moody = np.stack([examples % 10 < share for share in (2, 4, 6, 8)])
    spread = [np.quantile(bootstrap(seeds, steady), [0.025, 0.975]) for seeds in (steady, moody)]
    assert spread[0] == pytest.approx([0, 0])
    assert spread[1][1] - spread[1][0] > 0.3


def test_seeds_are_paired_by_number(make):
    for seed in (0, 1):
        predict(make, "bigbird", np.ones(20, bool), seed=seed)
    for seed in (1, 2):
        predict(make, "transformer", np.arange(20) < 10, seed=seed)
    assert task_of(make).mcnemar() == [(1, 10, 0, pytest.approx(2 / 1024))]


def test_command_prints_and_writes_the_table(make, capsys):
    for task in FIVE:
        predict(make, "bigbird", np.arange(100) < 80, task=task)
        predict(make, "transformer", np.arange(100) < 50, task=task)
    assert main(["compare", "bigbird", "transformer", f"results={make.root}"]) == 0
    said = capsys.readouterr().out
    assert "Mean of 5" in said
    assert "+30.0" in said
    text = (make.root / "plots/compare-bigbird-transformer.md").read_text()
    assert "| ListOps    |    80.0 |        50.0 |      +30.0 |" in text
    assert "30, 0 |     2e-09 |" in text


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b"PK"), "is damaged"),
        (lambda path: np.savez(path, id=[0]), "is damaged"),
        (lambda path: np.savez(path, id=np.arange(4), label=np.arange(4), prediction=np.arange(4)), "not give the acc"),
        (lambda path: np.savez(path, id=np.arange(1, 5), label=[0, 1, 2, 3], prediction=[0, 1, 9, 9]), "other test ex"),
    ],
)
def test_unusable_predictions_are_named(make, capsys, damage, message):
    damage(predict(make, "bigbird", np.array([1, 1, 0, 0], bool)))
    predict(make, "transformer", np.array([1, 1, 0, 0], bool))
    assert main(["compare", "bigbird", "transformer", f"results={make.root}"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "seed0.predictions.npz" in said


def test_compare_needs_two_known_variants(make, capsys):
    make.score("bigbird")
    assert main(["compare", "bigbird", f"results={make.root}"]) == 2
    assert "compare needs two variants" in capsys.readouterr().err
    assert main(["compare", "bigbird", "transfromer", f"results={make.root}"]) == 2
    assert "unknown variant 'transfromer'" in capsys.readouterr().err
