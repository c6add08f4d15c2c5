"""When a claim holds: a figure with its interval, against the range that the claim's words stand for.

A claim holds if the whole interval lies within the range, does not hold if the whole interval lies outside, and can't
be told if the interval reaches over an edge or the figure is missing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

Interval = tuple[float, float]


class Verdict(Enum):
    """What the figures say of a claim."""

    holds = "holds"
    fails = "does not hold"
    untold = "can't be told"


@dataclass(frozen=True)
class Range:
    """What the words of a claim are taken to mean, ends excluded."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Figure:
    """One quantity, as it was measured here and as a paper prints it.

    Attributes:
        name: what it is.
        unit: how it is printed, a key of `lra.lecture.page.UNITS`.
        wanted: what the claim says it is; None for a figure that only stands beside the others.
        source: the file or folder that it was read from.
        value: None where it is missing; `missing` then says why.
        interval: what the verdict is made from; an exact figure has an interval without width.
        paper: the published figure.
        mark: the signs of packaged or surrogate data behind it.
    """

    name: str
    unit: str
    wanted: Range | None
    source: str
    value: float | None = None
    interval: Interval | None = None
    missing: str = ""
    paper: float | None = None
    mark: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """What our figure says; None where nothing is asked of it."""
        return None if self.wanted is None else judge(self.interval, self.wanted)

    @property
    def paper_verdict(self) -> Verdict | None:
        """What the published figure says, which comes without an interval; None without one."""
        if self.wanted is None or self.paper is None:
            return None
        return judge((self.paper, self.paper), self.wanted)


def judge(interval: Interval | None, wanted: Range) -> Verdict:
    """The rule above; ends of the range are outside of it."""
    if interval is None or any(math.isnan(end) for end in interval):
        return Verdict.untold
    low, high = interval
    if wanted.low < low and high < wanted.high:
        return Verdict.holds
    if high <= wanted.low or low >= wanted.high:
        return Verdict.fails
    return Verdict.untold


def together(figures: Sequence[Figure]) -> Verdict:
    """A claim about several figures holds if it holds for all, and does not hold if it fails for one."""
    verdicts = [figure.verdict for figure in figures if figure.verdict is not None]
    if Verdict.fails in verdicts:
        return Verdict.fails
    return Verdict.holds if verdicts and set(verdicts) == {Verdict.holds} else Verdict.untold


def exact(value: float) -> Interval:
    """The interval of a figure that is counted, not sampled."""
    return value, value
