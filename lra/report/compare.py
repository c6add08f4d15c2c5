"""Are two variants really different? Paired tests on the predictions that their runs stored.

McNemar's exact test asks whether, of the test examples on which two runs disagree, one run is right more often than
chance allows. The bootstrap draws seeds (of each variant) and test examples (the same for both) again and again; its
interval holds both sources of luck.
"""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lra.errors import BadInput
from lra.report import style
from lra.report.formats import DASH, Table
from lra.report.load import Score
from lra.report.rows import FIVE, SIX, Row, title

DRAWS = 2000
SEED = 0

Correct = NDArray[np.bool_]


@dataclass(frozen=True)
class TaskComparison:
    """Two variants on one task.

    Attributes:
        first, second: whether each seed's prediction is right, [seeds, examples]; both on the same examples.
        shared: the seeds that both have, as positions in `first` and `second`.
        draws: bootstrap differences of mean accuracy, first minus second, [DRAWS].
    """

    task: str
    first: Correct
    second: Correct
    shared: tuple[tuple[int, int, int], ...]  # seed, its row in first, its row in second
    draws: NDArray[np.float64]

    @property
    def difference(self) -> float:
        """Mean accuracy of the first minus the second's."""
        return float(self.first.mean() - self.second.mean())

    def mcnemar(self) -> list[tuple[int, int, int, float]]:
        """Per shared seed: the seed, examples only the first has right, only the second, and the exact p."""
        found = []
        for seed, i, j in self.shared:
            only_first = int((self.first[i] & ~self.second[j]).sum())
            only_second = int((~self.first[i] & self.second[j]).sum())
            found.append((seed, only_first, only_second, mcnemar(only_first, only_second)))
        return found


def compare(first: Row, second: Row, tasks: Sequence[str] = ()) -> tuple[Table, list[str]]:
    """The table of all tasks that both have, and why the others are missing; raises BadInput if there is none."""
    found, missing = [], []
    for task in tasks or (*SIX, *sorted({*first.tasks} - {*SIX})):
        if task in first.tasks or task in second.tasks:
            try:
                found.append(compare_task(first, second, task))
            except BadInput as error:
                missing.append(f"{title(task)}: {error}")
    if not found:
        raise BadInput(f"nothing to compare {first.label} and {second.label} on. " + " ".join(missing))
    return _table(first, second, found), missing


def compare_task(first: Row, second: Row, task: str) -> TaskComparison:
    """Raises BadInput when predictions are missing, damaged, or of other examples."""
    ours, theirs = _runs(first, task), _runs(second, task)
    loaded = [_predictions(run) for run in (*ours, *theirs)]
    ids, labels, _ = loaded[0]
    for run, (other_ids, other_labels, _) in zip((*ours, *theirs), loaded, strict=True):
        if not (np.array_equal(ids, other_ids) and np.array_equal(labels, other_labels)):
            raise BadInput(f"{run.predictions} is of other test examples than {ours[0].predictions}")
    right = [predictions == labels for _, labels, predictions in loaded]
    a, b = np.array(right[: len(ours)]), np.array(right[len(ours) :])
    seeds = [run.seed for run in theirs]
    shared = tuple((run.seed, i, seeds.index(run.seed)) for i, run in enumerate(ours) if run.seed in seeds)
    return TaskComparison(task, a, b, shared, bootstrap(a, b))


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p of McNemar's test (https://doi.org/10.1007/BF02295996): a fair coin for each disagreement."""
    total, fewer = only_first + only_second, min(only_first, only_second)
    logs = [math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) for k in range(fewer + 1)]
    tail = math.fsum(math.exp(log - total * math.log(2)) for log in logs)
    return min(1.0, 2 * tail)


def bootstrap(first: Correct, second: Correct) -> NDArray[np.float64]:
    """Differences of mean accuracy, [DRAWS], with seeds and test examples drawn anew each time."""
    rng = np.random.default_rng(SEED)
    examples = first.shape[1]
    differences = np.empty(DRAWS)
    for draw in range(DRAWS):
        a = first[rng.integers(0, len(first), len(first))].mean(0) if len(first) > 1 else first[0]
        b = second[rng.integers(0, len(second), len(second))].mean(0) if len(second) > 1 else second[0]
        gap = a.astype(np.float64) - b
        differences[draw] = gap[rng.integers(0, examples, examples)].mean()
    return differences


def _runs(row: Row, task: str) -> list[Score]:
    runs = [run for run in row.tasks[task].runs if run.accuracy is not None] if task in row.tasks else []
    if not runs:
        raise BadInput(f"{row.label} has no score")
    return runs


def _predictions(run: Score) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, labels and predictions, ordered by id; they must give the accuracy that the score file states."""
    try:
        with np.load(run.predictions) as stored:
            ids, labels, predictions = (stored[name] for name in ("id", "label", "prediction"))
    except FileNotFoundError:
        raise BadInput(f"{run.predictions} is missing") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"{run.predictions} is damaged: {error}") from None
    if not (ids.ndim == 1 and ids.shape == labels.shape == predictions.shape and len(ids)):
        raise BadInput(f"{run.predictions} is damaged: shapes {ids.shape}, {labels.shape}, {predictions.shape}")
    if abs((labels == predictions).mean() - (run.accuracy or 0)) > 0.5 / len(ids):
        raise BadInput(f"{run.predictions} does not give the accuracy of {run.path.name}, {run.accuracy}")
    order = np.argsort(ids, kind="stable")
    return ids[order], labels[order], predictions[order]


def _table(first: Row, second: Row, found: Sequence[TaskComparison]) -> Table:
    columns = [
        "Task",
        first.label,
        second.label,
        "Difference",
        "95 % interval",
        "Seeds",
        "Right: only first, only second",
    ]
    columns.append("McNemar p")
    body = []
    for one in found:
        tests = one.mcnemar()
        body.append(
            [
                title(one.task),
                style.percent(float(one.first.mean())),
                style.percent(float(one.second.mean())),
                _signed(one.difference),
                _interval(one.draws),
                f"{len(one.first)}, {len(one.second)}",
                "; ".join(f"{a}, {b}" for _, a, b, _ in tests) or DASH,
                "; ".join(_p(p) for *_, p in tests) or DASH,
            ]
        )
    if {one.task for one in found} >= set(FIVE):
        five = [one for one in found if one.task in FIVE]
        means = [float(np.mean([getattr(one, side).mean() for one in five])) for side in ("first", "second")]
        draws = np.mean([one.draws for one in five], 0)
        shown = [style.percent(means[0]), style.percent(means[1]), _signed(means[0] - means[1]), _interval(draws)]
        body.append(["Mean of 5", *shown, "", "", ""])
    notes = [
        f"Interval: bootstrap over test examples and seeds, {DRAWS:,} draws; one seed alone says nothing of others.",
        "McNemar: exact, two-sided, one test for each seed that both have; not corrected for testing several tasks.",
    ]
    return Table(f"{first.label} against {second.label}, accuracy in percent", columns, body, notes)


def _signed(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def _interval(draws: NDArray[np.float64]) -> str:
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{_signed(low)} to {_signed(high)}"


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"
