"""How step time and memory grow with length: fitted exponents, and where a variant overtakes the Transformer."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lra.report.load import Cell
from lra.report.rows import Condition, Row, shared_memory_source

FITTED = 3  # the longest lengths: at short ones the fixed cost of a step hides the growth
FURTHEST = 16  # how many times the longest measured length a crossover may be extrapolated to


@dataclass(frozen=True)
class Series:
    """One quantity of one variant by length, ascending; everything else about the measurement is equal."""

    row: Row
    lengths: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def exponent(self) -> float | None:
        """Slope of log value against log length, least squares over the longest lengths; None below two."""
        x = [math.log(length) for length in self.lengths[-FITTED:]]
        y = [math.log(value) for value in self.values[-FITTED:]]
        return statistics.linear_regression(x, y).slope if len(x) > 1 else None

    def at(self, length: float) -> float | None:
        """The value at a length inside what was measured, on straight lines between the points of a log-log plot."""
        for i in range(len(self.lengths)):
            if self.lengths[i] == length:
                return self.values[i]
            if i and self.lengths[i - 1] < length < self.lengths[i]:
                (x0, x1), (y0, y1) = self.lengths[i - 1 : i + 1], self.values[i - 1 : i + 1]
                share = math.log(length / x0) / math.log(x1 / x0)
                return y0 * (y1 / y0) ** share
        return None


@dataclass(frozen=True)
class Crossover:
    """From which length on a variant costs less than the Transformer.

    Attributes:
        length: None if it never does.
        kind: `measured`; `always` (from the shortest length measured); `extrapolated` by the fits, beyond the longest.
    """

    length: float | None
    kind: str

    def __str__(self) -> str:
        if self.length is None:
            return "never"
        sign = {"always": "\N{LESS-THAN OR EQUAL TO} ", "extrapolated": "~ "}.get(self.kind, "")
        return f"{sign}{self.length:,.0f}"


def step_time(rows: Sequence[Row], condition: Condition) -> list[Series]:
    """Median seconds of a step, per row with a measurement like `condition` at any length."""
    return _series(rows, condition, lambda cell: cell.step_seconds)


def peak_memory(rows: Sequence[Row], condition: Condition) -> tuple[list[Series], str | None]:
    """Peak bytes per row, all from one source, which is named."""
    cells = [cell for row in rows for cell in _cells(row, condition)]
    source = shared_memory_source(cells)
    return _series(rows, condition, lambda cell: cell.peak_bytes.get(source or "")), source


def crossover(variant: Series, reference: Series) -> Crossover | None:
    """Where `variant` overtakes `reference`, the last time if it does so more than once; None without shared lengths.

    Beyond the longest shared length both are continued with their exponents, but no further than `FURTHEST` times.
    """
    shared = [length for length in variant.lengths if length in reference.lengths]
    if not shared:
        return None
    gaps = [math.log((variant.at(length) or 0) / (reference.at(length) or 1)) for length in shared]
    if gaps[-1] >= 0:
        return _extrapolate(variant, reference, shared[-1], gaps[-1])
    last = max((i for i, gap in enumerate(gaps) if gap >= 0), default=None)
    if last is None:
        return Crossover(shared[0], "always")
    share = gaps[last] / (gaps[last] - gaps[last + 1])
    return Crossover(shared[last] * (shared[last + 1] / shared[last]) ** share, "measured")


def _extrapolate(variant: Series, reference: Series, longest: int, gap: float) -> Crossover:
    ours, theirs = variant.exponent, reference.exponent
    if ours is None or theirs is None or theirs - ours < 0.05:
        return Crossover(None, "never")
    stretch = gap / (theirs - ours)
    if stretch > math.log(FURTHEST):
        return Crossover(None, "never")
    return Crossover(longest * math.exp(stretch), "extrapolated")


def _cells(row: Row, condition: Condition) -> list[Cell]:
    fixed = (condition.mode, condition.batch_size, condition.precision)
    return [
        cell
        for cell in row.cells.get(condition.hardware, ())
        if (cell.mode, cell.batch_size, cell.precision) == fixed and cell.status == "complete" and not cell.simulated
    ]


def _series(rows: Sequence[Row], condition: Condition, value: Callable[[Cell], float | None]) -> list[Series]:
    found = []
    for row in rows:
        points = sorted((cell.length, value(cell)) for cell in _cells(row, condition) if value(cell))
        if points:
            lengths, values = zip(*points, strict=True)
            found.append(Series(row, lengths, values))
    return found
