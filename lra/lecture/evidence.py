"""The figures that claims are held against, read from result files. What is missing stays missing, with the reason."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lra.errors import BadInput
from lra.lecture import record
from lra.lecture.verdicts import Figure, Interval, Range
from lra.report import growth, load, published, rows
from lra.report.compare import compare_task
from lra.report.load import Skipped
from lra.report.rows import FIVE, Condition, Row

REFERENCE = rows.REFERENCE
MODE = "train"


@dataclass(frozen=True)
class Value:
    """A figure without its name: value and interval, or why there is none."""

    value: float | None = None
    interval: Interval | None = None
    missing: str = ""


@dataclass(frozen=True)
class Evidence:
    """One results folder, one preset.

    Attributes:
        rows: by variant, without those that have overrides.
        condition: that of the speeds: the longest length that most variants were timed at.
        measured: the parts of `lecture.json`.
    """

    root: Path
    preset: str
    rows: dict[str, Row]
    condition: Condition | None
    measured: dict[str, Any]
    skipped: tuple[Skipped, ...]

    def scores(self, variant: str) -> str:
        """The folder of a variant's scores."""
        return str(self.root / "scores" / self.preset / variant)

    def speeds(self, variant: str) -> str:
        """The file of a variant's speeds."""
        hardware = self.condition.hardware if self.condition else "*"
        return str(self.root / "speed" / hardware / self.preset / f"{variant}.json")

    @property
    def lecture(self) -> str:
        """The file of what only the lecture needs."""
        return str(self.root / record.FILE)


def gather(root: Path, preset: str) -> Evidence:
    """Reads a results folder; raises BadInput when it has neither scores nor speeds of this preset."""
    results = load.load(root)
    if preset not in results.presets:
        having = f"; it has {', '.join(results.presets)}" if results.presets else ""
        raise BadInput(f"no results of preset {preset} in {root}{having}")
    found = {row.key: row for row in rows.join(results, preset) if row.key == row.variant}
    condition = rows.choose_condition(list(found.values()), MODE)
    return Evidence(root, preset, found, condition, record.read(root), results.skipped)


def score_difference(evidence: Evidence, first: str, second: str = REFERENCE) -> Value:
    """Mean accuracy of the five tasks, `first` minus `second`, in points, with its 95 % interval.

    The interval is a bootstrap over test examples, the same for both, and over the seeds that there are.
    """
    pair = [evidence.rows.get(name) for name in (first, second)]
    for name, row in zip((first, second), pair, strict=True):
        if row is None or (reason := row.trouble(FIVE)):
            return Value(missing=f"{name}: {reason if row else 'not run'}")
    one, other = (row for row in pair if row is not None)
    try:
        tasks = [compare_task(one, other, task) for task in FIVE]
    except BadInput as error:
        return Value(missing=str(error))
    draws = 100 * np.mean([task.draws for task in tasks], axis=0)
    low, high = (float(end) for end in np.quantile(draws, (0.025, 0.975)))
    return Value(100 * float(np.mean([task.difference for task in tasks])), (low, high))


def speed_ratio(evidence: Evidence, first: str, second: str = REFERENCE) -> Value:
    """How many times as fast a training step of `first` is as one of `second`, at the chart's length.

    The interval sets the slow steps of one (90th percentile) against the fast ones of the other (10th).
    """
    if evidence.condition is None:
        return Value(missing="no speed was measured")
    cells = []
    for name in (first, second):
        row = evidence.rows.get(name)
        cell = evidence.condition.cell(row) if row else None
        if cell is None or cell.step_seconds is None or cell.simulated:
            reason = "not timed" if cell is None else "simulated" if cell.simulated else cell.status.replace("_", " ")
            return Value(missing=f"{name}: {reason} at length {evidence.condition.length:,}")
        median = cell.step_seconds
        cells.append((median, cell.spread or (median, median)))
    (own, (own_low, own_high)), (base, (base_low, base_high)) = cells
    return Value(base / own, (base_low / own_high, base_high / own_low))


def crossover(evidence: Evidence, variant: str) -> growth.Crossover | None:
    """From which length on a step of `variant` is shorter than the Transformer's; None where that was not measured."""
    if evidence.condition is None:
        return None
    series = {one.row.key: one for one in growth.step_time(list(evidence.rows.values()), evidence.condition)}
    if variant not in series or REFERENCE not in series:
        return None
    return growth.crossover(series[variant], series[REFERENCE])


def time_exponent(evidence: Evidence, variant: str) -> float | None:
    """The fitted exponent of a variant's step time."""
    if evidence.condition is None or variant not in evidence.rows:
        return None
    found = growth.step_time([evidence.rows[variant]], evidence.condition)
    return found[0].exponent if found else None


def paper_scores() -> dict[str, float]:
    """Mean over the five tasks by variant, in percent, as the LRA paper's Table 1 has it."""
    found = {line.variant: line.mean(FIVE) for line in published.scores() if line.setting == published.PAPER}
    return {name: mean for name, mean in found.items() if name and mean is not None}


def paper_speeds(length: int) -> dict[str, float]:
    """Speed by variant as a multiple of the Transformer's, from the paper's Table 2 at the nearest of its lengths."""
    names = {model: variant for model, (variant, _) in published.VARIANTS.items()}
    return {names[name]: speed for name, _, speed, _, _ in published.bubbles(FIVE, length).bubbles} | {REFERENCE: 1.0}


def score_figure(evidence: Evidence, variant: str, wanted: Range | None, second: str = REFERENCE) -> Figure:
    """`score_difference` as a claim's figure, beside the paper's."""
    found, paper = score_difference(evidence, variant, second), paper_scores()
    printed = paper[variant] - paper[second] if variant in paper and second in paper else None
    name = f"score, {variant} minus {second}"
    rows = [evidence.rows[each] for each in (variant, second) if each in evidence.rows]
    mark = "".join(sorted({sign for row in rows for sign in row.marks(FIVE)}))
    return Figure(name, "points", wanted, evidence.scores(variant), *_fields(found), paper=printed, mark=mark)


def speed_figure(evidence: Evidence, variant: str, wanted: Range | None, second: str = REFERENCE) -> Figure:
    """`speed_ratio` as a claim's figure, beside the paper's."""
    found = speed_ratio(evidence, variant, second)
    length = evidence.condition.length if evidence.condition else 4096
    paper = paper_speeds(length)
    printed = paper[variant] / paper[second] if variant in paper and second in paper else None
    name = f"speed, {variant} over {second}"
    return Figure(name, "times", wanted, evidence.speeds(variant), *_fields(found), paper=printed)


def _fields(found: Value) -> tuple[float | None, Interval | None, str]:
    return found.value, found.interval, found.missing


def points_of(evidence: Evidence, part: str) -> list[dict[str, Any]] | None:
    """The points of a part of `lecture.json`, None if it was not measured."""
    found: list[dict[str, Any]] | None = evidence.measured[part]["points"] if part in evidence.measured else None
    return found


def measured_figure(
    evidence: Evidence, name: str, unit: str, wanted: Range | None, value: float, interval: Interval | None = None
) -> Figure:
    """A figure from `lecture.json`."""
    return Figure(name, unit, wanted, evidence.lecture, value, interval)


def unmeasured(evidence: Evidence, name: str, unit: str, wanted: Range) -> Figure:
    """A figure that `lecture.json` lacks."""
    return Figure(name, unit, wanted, evidence.lecture, missing="not measured")
