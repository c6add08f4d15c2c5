"""The bubble chart: score up, speed to the right, memory as the circle's area, family as its colour."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from lra.report import labels, style
from lra.report.canvas import LEFT, LINE, RIGHT, WIDTH, Page, wrap
from lra.report.published import Bubbles
from lra.report.rows import FIVE, Comparison, title

TOP, PLOT, LEGEND, AXIS = 46.0, 330.0, 34.0, 36.0  # heights in points: title, axes, legend, axis label


@dataclass(frozen=True)
class Bubble:
    """One circle in the units of the axes; `size` is memory, `error` half the length of the bar."""

    label: str
    family: str
    x: float
    y: float
    size: float | None
    error: float | None = None
    hollow: bool = False


@dataclass(frozen=True)
class View:
    """A chart before it is drawn."""

    title: str
    subtitle: str
    x_label: str
    y_label: str
    bubbles: list[Bubble]
    reference: tuple[float, float] | None
    size_text: Callable[[float], str]


def score_name(tasks: Sequence[str]) -> str:
    """What the mean over `tasks` is called: LRA score only for the five."""
    if set(tasks) == set(FIVE):
        return "LRA score (mean accuracy of the five tasks)"
    if len(tasks) == 1:
        return f"Accuracy on {title(tasks[0])}"
    return "Mean accuracy on " + ", ".join(title(task) for task in tasks[:-1]) + f" and {title(tasks[-1])}"


def absolute(comparison: Comparison) -> View:
    """Percent against sequences per second; `comparison` has at least one point."""
    bubbles = [
        Bubble(
            label=point.row.label + point.row.marks(comparison.tasks),
            family=point.row.family,
            x=point.speed,
            y=100 * point.accuracy,
            size=point.memory,
            error=None if point.deviation is None else 100 * point.deviation,
        )
        for point in comparison.points
    ]
    reference = comparison.reference
    return View(
        title=f"{score_name(comparison.tasks)} against speed",
        subtitle=_conditions(comparison),
        x_label=f"Sequences per second {_mode(comparison)}",
        y_label="Accuracy, %" if len(comparison.tasks) == 1 else "Mean accuracy, %",
        bubbles=bubbles,
        reference=None if reference is None else (reference.speed, 100 * reference.accuracy),
        size_text=style.memory,
    )


def relative(comparison: Comparison, published: Bubbles) -> View:
    """Everything as a multiple of the Transformer's, with published figures hollow; needs the Transformer's point."""
    own = comparison.reference
    assert own is not None
    ours = [
        Bubble(
            label=point.row.label + point.row.marks(comparison.tasks),
            family=point.row.family,
            x=point.speed / own.speed,
            y=point.accuracy / own.accuracy,
            size=point.memory / own.memory if point.memory and own.memory else None,
            error=None if point.deviation is None else point.deviation / own.accuracy,
        )
        for point in comparison.points
    ]
    theirs = [
        Bubble(f"{name} (paper)", family, speed, score, memory, hollow=True)
        for name, family, speed, score, memory in published.bubbles
    ]
    return View(
        title="Ours and the LRA paper's, as multiples of the Transformer",
        subtitle=_conditions(comparison),
        x_label=f"Speed {_mode(comparison)}, times the Transformer's",
        y_label="Score, times the Transformer's",
        bubbles=ours + theirs,
        reference=(1.0, 1.0),
        size_text=lambda value: f"{style.number(value)}x memory",
    )


def draw(view: View, notes: Sequence[str] = (), absent: Sequence[tuple[str, str]] = (), *, log: bool = False) -> Figure:
    """The chart as a figure. What it cannot show (`absent`: name, reason) is listed under it."""
    text = wrap(" ".join(notes))
    if absent:
        text += wrap("Not drawn: " + "; ".join(f"{name} ({reason})" for name, reason in absent) + ".")
    bottom = AXIS + LEGEND + LINE * len(text) + 8
    page = Page(TOP + PLOT + bottom)
    page.title(view.title, view.subtitle)
    frame = np.array([LEFT, bottom, WIDTH - RIGHT, bottom + PLOT])
    axes = page.axes(LEFT, bottom, WIDTH - LEFT - RIGHT, PLOT)
    axes.set_xlabel(f"{view.x_label} ({'logarithmic; ' if log else ''}the further right, the faster)", size=8)
    axes.set_ylabel(view.y_label, size=8)
    radii = _radii([bubble.size for bubble in view.bubbles])
    centres, bars = _bubbles(axes, view, radii, frame, log=log)
    _labels(page, view, centres, radii, bars, frame)
    left = _sizes(page, view, radii, bottom - AXIS)
    page.families((bubble.family for bubble in view.bubbles), bottom - AXIS - 6, left - 10)
    page.lines(bottom - AXIS - LEGEND, text)
    return page.figure


def pareto_front(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Indices of the points that no other beats in one coordinate without losing in the other, by ascending x."""
    order = np.lexsort((-y, -x))  # fastest first; of equally fast ones the best first
    front, best = [], -math.inf
    for index in order:
        if y[index] > best:
            front.append(int(index))
            best = y[index]
    return np.array(front[::-1], dtype=int)


def _mode(comparison: Comparison) -> str:
    return f"in {style.mode(comparison.condition.mode)}" if comparison.condition else ""


def _conditions(comparison: Comparison) -> str:
    condition = comparison.condition
    assert condition is not None
    work = f"length {condition.length:,}, batch {condition.batch_size}, {condition.precision}"
    return f"preset {comparison.preset}  |  {style.mode(condition.mode)} at {work}  |  {condition.hardware}"


def _bubbles(
    axes: Axes, view: View, radii: np.ndarray, frame: np.ndarray, *, log: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Draws everything inside the axes; in points, the circles' centres [N, 2] and boxes [M, 4] of bars and lines."""
    x, y = (np.array([getattr(bubble, name) for bubble in view.bubbles]) for name in "xy")
    errors = np.array([bubble.error or 0.0 for bubble in view.bubbles])
    u = np.log10(x) if log else x
    room = np.maximum(radii, 3) + 8
    low_x, high_x = _limits(u, u, room, room + 30, frame[2] - frame[0])  # room for names at the right
    low_y, high_y = _limits(y - errors, y + errors, room, room, frame[3] - frame[1])
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_minor_locator(LogLocator(subs=()))
    axes.set_xlim(*((10**low_x, 10**high_x) if log else (low_x, high_x)))
    axes.set_ylim(low_y, high_y)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.number(value)))
    front = _lines(axes, view, x, y)
    for index in np.argsort(-radii, kind="stable"):  # the small ones on top
        _bubble(axes, view.bubbles[index], radii[index])

    def to_points(values: np.ndarray) -> np.ndarray:
        fraction = (values - [low_x, low_y]) / np.array([high_x - low_x, high_y - low_y])
        return frame[:2] + fraction * (frame[2:] - frame[:2])

    def boxes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        corners = np.stack([to_points(low), to_points(high)])
        return np.concatenate([corners.min(0), corners.max(0)], -1)

    barred = np.flatnonzero(errors)
    bars = boxes(np.stack([u, y - errors], -1)[barred], np.stack([u, y + errors], -1)[barred])
    centres = np.stack([u, y], -1)
    corners = np.stack([u[front[:-1]], y[front[1:]]], -1)  # of the steps
    steps = [boxes(centres[front[:-1]], corners), boxes(corners, centres[front[1:]])]
    return to_points(centres), np.concatenate([bars, *steps])


def _lines(axes: Axes, view: View, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Draws the Transformer's position and the Pareto front of what is ours; returns the front's bubbles."""
    if view.reference:
        axes.axvline(view.reference[0], color=style.PALE, linewidth=0.7, dashes=(5, 4), zorder=1.8)
        axes.axhline(view.reference[1], color=style.PALE, linewidth=0.7, dashes=(5, 4), zorder=1.8)
    own = np.flatnonzero([not bubble.hollow for bubble in view.bubbles])
    front = own[pareto_front(x[own], y[own])]
    if len(front) > 1:
        axes.step(x[front], y[front], where="pre", color="#C9A227", linewidth=1.2, zorder=1.9)
    return front


def _bubble(axes: Axes, bubble: Bubble, radius: float) -> None:
    """A circle, its error bar, and the sign of its family. Line markers: ten times as fast as `scatter`."""
    colour, marker, _ = style.family(bubble.family)
    at = ([bubble.x], [bubble.y])
    if bubble.size is not None and bubble.hollow:
        axes.scatter(*at, s=(2 * radius) ** 2, facecolor="none", edgecolor=colour, linewidth=0.8, linestyle="dashed")
    elif bubble.size is not None:
        face = (*to_rgb(colour), 0.6)
        axes.plot(*at, "o", markersize=2 * radius, markerfacecolor=face, markeredgecolor=colour, markeredgewidth=0.8)
    if bubble.error:
        axes.errorbar(*at, yerr=bubble.error, color=style.INK, elinewidth=0.7, capsize=1.5, capthick=0.7, zorder=4)
    inside, edge = ("white", style.INK) if bubble.hollow else (style.INK, "white")
    axes.plot(*at, marker, markersize=4.5, color=inside, markeredgecolor=edge, markeredgewidth=0.5, zorder=5)


def _radii(sizes: Sequence[float | None]) -> np.ndarray:
    """Radii in points, area proportional to size, 0 where it is unknown. Many bubbles make all of them smaller."""
    known = np.array([value or 0.0 for value in sizes])
    if not known.any():
        return np.zeros(len(known))
    shares = known / known.max()
    largest = min(34.0, math.sqrt(0.10 * PLOT * (WIDTH - LEFT) / (math.pi * shares.sum())))
    return largest * np.sqrt(shares)


def _limits(
    low: np.ndarray, high: np.ndarray, before: np.ndarray, after: np.ndarray, length: float
) -> tuple[float, float]:
    """Ends of an axis `length` points long on which every value keeps `before` and `after` points to the ends."""
    first, last = float(low.min()), float(high.max())
    if last - first < 1e-6 * max(abs(last), 1):
        first, last = first - max(abs(first), 1) * 0.05, last + max(abs(last), 1) * 0.05
    start, end = first, last
    for _ in range(30):
        scale = (end - start) / length
        start, end = min(first, (low - before * scale).min()), max(last, (high + after * scale).max())
    return start, end


def _labels(
    page: Page, view: View, centres: np.ndarray, radii: np.ndarray, bars: np.ndarray, frame: np.ndarray
) -> None:
    radii = np.maximum(radii, 3)  # the sign in the middle
    texts = [page.text(0, 0, b.label, style="italic" if b.hollow else "normal") for b in view.bubbles]
    sizes = np.array([page.extent(text) for text in texts]) + np.array([2, 1])
    crosses = []
    for bubble, (x, y) in zip(view.bubbles, centres, strict=True):
        if (bubble.x, bubble.y) == view.reference:
            crosses = [(frame[0], y, frame[2], y), (x, frame[1], x, frame[3])]
    lines = np.concatenate([np.array(crosses).reshape(-1, 4), bars])
    corners = labels.place(centres, radii, sizes, frame + np.array([2, 2, -2, -2]), lines)
    for index, (text, corner, size) in enumerate(zip(texts, corners, sizes, strict=True)):
        text.set_position((corner[0] + 1, corner[1] + 1))
        if line := labels.leader(index, centres, radii, np.concatenate([corner, corner + size])):
            page.line(*line, color=style.INK)


def _sizes(page: Page, view: View, radii: np.ndarray, top: float) -> float:
    """Circles of known memory at the right end of the legend; returns where they begin."""
    known = [(bubble.size, radius) for bubble, radius in zip(view.bubbles, radii, strict=True) if bubble.size]
    left = WIDTH - RIGHT
    if not known:
        return left
    most, radius = max(known)
    large = _round_down(most * min(1.0, (15 / radius) ** 2))
    for value in (_round_down(large / 4), large):  # from the right
        size = radius * math.sqrt(value / most)
        text = page.text(0, 0, view.size_text(value))
        left -= page.extent(text)[0]
        text.set_position((left, top - 16.5))
        page.dot(left - 3 - size, top - 14, size, color="none", markeredgecolor=style.PALE, markeredgewidth=0.8)
        left -= 2 * size + 11
    return left


def _round_down(value: float) -> float:
    """The nearest 1, 2 or 5 times a power of ten below."""
    power = 10.0 ** math.floor(math.log10(value))
    return max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)) * power
