"""The rule that turns figures into verdicts."""

import math

import pytest

from lra.lecture.verdicts import Figure, Range, Verdict, exact, judge, together

HOLDS, FAILS, UNTOLD = Verdict.holds, Verdict.fails, Verdict.untold


@pytest.mark.parametrize(
    ("interval", "wanted", "verdict"),
    [
        ((0.5, 1.5), Range(0, 2), HOLDS),
        ((2.5, 3.0), Range(0, 2), FAILS),
        ((-3.0, -0.1), Range(0, 2), FAILS),
        ((-0.1, 1.0), Range(0, 2), UNTOLD),  # over the lower edge
        ((1.0, 2.1), Range(0, 2), UNTOLD),  # over the upper edge
        ((-1.0, 3.0), Range(0, 2), UNTOLD),  # over both
        ((-9.0, -5.1), Range(high=-5), HOLDS),
        ((-4.9, 1.0), Range(high=-5), FAILS),
        ((1.1, 90.0), Range(low=1), HOLDS),
        ((0.0, 0.0), Range(low=0), FAILS),  # no difference is not better
        (None, Range(low=0), UNTOLD),
        ((math.nan, math.nan), Range(low=0), UNTOLD),
    ],
)
def test_the_whole_interval_must_be_on_one_side(interval, wanted, verdict):
    assert judge(interval, wanted) is verdict


def figure(interval, wanted=Range(low=0), **more):  # noqa: B008 - a frozen dataclass
    return Figure("a figure", "points", wanted, "a file", 1.0, interval, **more)


@pytest.mark.parametrize(
    ("intervals", "verdict"),
    [
        ([(1, 2), (1, 2)], HOLDS),
        ([(1, 2), (-1, 2)], UNTOLD),
        ([(1, 2), None], UNTOLD),
        ([(-1, 2), (-2, -1)], FAILS),
        ([], UNTOLD),
    ],
)
def test_all_figures_must_hold_and_one_that_fails_is_enough(intervals, verdict):
    assert together([figure(interval) for interval in intervals]) is verdict


def test_a_figure_without_a_range_says_nothing():
    bystander = figure((-2, -1), wanted=None)
    assert bystander.verdict is None
    assert together([figure((1, 2)), bystander]) is HOLDS
    assert together([bystander]) is UNTOLD


def test_the_paper_is_held_against_the_same_range():
    assert figure((1, 2), paper=0.5).paper_verdict is HOLDS
    assert figure((1, 2), paper=-0.5).paper_verdict is FAILS
    assert figure((1, 2)).paper_verdict is None
    assert figure(exact(1.0), wanted=None, paper=1.0).paper_verdict is None
