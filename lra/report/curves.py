"""Curves: cost against length, validation accuracy against training; and the heat map of scores."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator

from lra.report import style
from lra.report.canvas import LEFT, LINE, RIGHT, SMALL, WIDTH, Page, wrap
from lra.report.growth import Series, crossover
from lra.report.rows import SIX, Row, Score, title

TOP, PLOT = 46.0, 330.0  # heights in points: title, axes
WIDEST = WIDTH / 3  # of a column of names; a name that needs more is made smaller

# One colour and dash a task: Okabe and Ito, for colour-blind readers (https://jfly.uni-koeln.de/color/).
TASKS: dict[str, tuple[str, str]] = {
    "listops": ("#0072B2", "-"),
    "text": ("#D55E00", "-"),
    "retrieval": ("#009E73", "--"),
    "image": ("#CC79A7", "-"),
    "pathfinder": ("#E69F00", "--"),
    "pathx": ("#000000", ":"),
}


def against_length(
    series: Sequence[Series], heading: str, subtitle: str, unit: Callable[[float], str], notes: Sequence[str]
) -> Figure:
    """Log-log curves with their names and exponents at the right; a ring where one overtakes the Transformer."""
    text = wrap(" ".join(notes))
    bottom = 36 + 30 + LINE * len(text) + 8
    height = max(PLOT, 8.6 * len(series))
    page = Page(TOP + height + bottom)
    page.title(heading, subtitle)
    words = [_named(one) for one in series]
    left = WIDTH - min(max(map(page.width, words)) + 12, WIDEST)  # of the names
    axes = page.axes(LEFT, bottom, left - LEFT, height)
    axes.set_xscale("log")
    axes.set_yscale("log")
    lengths = sorted({length for one in series for length in one.lengths})
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(LogLocator(subs=()))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))
    axes.set_xlabel("Length, tokens", size=8)
    for one in series:
        _curve(axes, one)
    _rings(axes, series)
    _names(page, axes, series, left, bottom, height)
    page.families((one.row.family for one in series), bottom - 42, WIDTH - RIGHT)
    page.lines(bottom - 36 - 30, text)
    return page.figure


def _curve(axes: Axes, one: Series) -> None:
    colour, marker, _ = style.family(one.row.family)
    wide = 2.0 if one.row.is_reference else 1.1
    axes.plot(one.lengths, one.values, color=colour, linewidth=wide, marker=marker, markersize=3.5, zorder=3)


def _rings(axes: Axes, series: Sequence[Series]) -> None:
    """Where each curve crosses under the Transformer's, within what was measured."""
    reference = next((one for one in series if one.row.is_reference), None)
    for one in series if reference else []:
        crossing = crossover(one, reference) if reference and one is not reference else None
        if reference and crossing and crossing.length and crossing.kind == "measured":
            at = (crossing.length, reference.at(crossing.length) or math.nan)
            axes.plot(*at, "o", markersize=6, markerfacecolor="none", color=style.INK, zorder=6)


def _named(one: Series) -> str:
    return one.row.label + (f"  L^{one.exponent:.2f}" if one.exponent is not None else "")


def _names(page: Page, axes: Axes, series: Sequence[Series], left: float, bottom: float, height: float) -> None:
    """A name beside the end of each curve, moved apart where curves end close to each other."""
    axes.autoscale_view()  # else the limits are only known when the figure is drawn
    ends = np.array([axes.transData.transform((one.lengths[-1], one.values[-1])) for one in series])
    order = np.argsort(ends[:, 1], kind="stable")
    heights = spread(ends[order, 1], 8.4, bottom + 4, bottom + height - 4)
    for index, y in zip(order, heights, strict=True):
        one = series[index]
        page.line(ends[index] + [3, 0], (left + 6, y), color=style.family(one.row.family)[0])
        page.fit(page.text(left + 8, y - 2.5, _named(one)), WIDTH - 4 - left - 8)


def spread(wanted: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Ascending positions at least `gap` apart between `low` and `high`, each as near to the wanted one as that allows.

    Positions that would touch are pooled into runs, each as near as it can be to what its members want. The gap shrinks
    where there is no room.
    """
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    runs: list[list[float]] = []  # [start wanted by the run, number of members]
    for value in wanted:
        runs.append([float(np.clip(value, low, high)), 1])
        while len(runs) > 1 and runs[-2][0] + gap * runs[-2][1] > runs[-1][0]:
            start, count = runs.pop()
            before, members = runs.pop()
            joined = (before * members + (start - gap * members) * count) / (members + count)
            size = members + count
            runs.append([float(np.clip(joined, low, high - gap * (size - 1))), size])
    return np.array([start + gap * i for start, count in runs for i in range(int(count))])


def heat_map(
    rows: Sequence[Row], baselines: dict[str, dict[str, float]], subtitle: str, notes: Sequence[str]
) -> Figure:
    """Accuracy of every variant on every task; a column's colours run from its majority class to its best score."""
    tasks = [task for task in SIX if any(task in row.tasks for row in rows)]
    scores = np.array([[_mean(row, task) for task in tasks] for row in rows])
    below = np.array([[by_task.get(task, np.nan) for task in tasks] for by_task in baselines.values()])
    values = np.concatenate([scores, below.reshape(-1, len(tasks))]) * 100
    text = wrap(" ".join(notes))
    cell = 15.0
    bottom = LINE * len(text) + 12
    height = cell * len(values)
    page = Page(TOP + 18 + height + bottom)
    page.title("Accuracy by task, %", subtitle)
    names = [row.label for row in rows] + [f"({name.replace('_', ' ')})" for name in baselines]
    left = min(max(LEFT, *(page.width(name) + 8 for name in names)), WIDEST)
    wide = min(78.0, (WIDTH - left - RIGHT) / len(tasks))
    axes = page.axes(left, bottom, wide * len(tasks), height)
    axes.grid(visible=False)
    floor = [100 * baselines.get("majority", {}).get(task, 0.0) for task in tasks]
    with np.errstate(all="ignore"):
        best = np.array([np.nanmax(column) if not np.isnan(column).all() else 1.0 for column in values.T])
        shades = (values - floor) / np.maximum(best - floor, 1e-9)
    colours = matplotlib.colormaps["cividis"].with_extremes(bad="white")
    axes.imshow(np.ma.masked_invalid(np.clip(shades, 0, 1)), cmap=colours, vmin=0, vmax=1, aspect="auto")
    axes.set_yticks(range(len(names)), names, size=SMALL, parse_math=False)
    for label in axes.get_yticklabels():
        page.fit(label, left - 8)
    axes.set_xticks(range(len(tasks)), [title(task) for task in tasks], size=SMALL + 1)
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for (i, j), value in np.ndenumerate(values):
        words = "" if math.isnan(value) else f"{value:.1f}"
        ink = "white" if shades[i, j] < 0.5 else "black"
        if i < len(rows) and not words:
            words = _why(rows[i], tasks[j])
        elif i < len(rows):
            words += rows[i].tasks[tasks[j]].mark
        page.fit(axes.text(j, i, words, size=SMALL, ha="center", va="center_baseline", color=ink), wide - 8)
    axes.axhline(len(rows) - 0.5, color="white", linewidth=3)
    page.lines(bottom - 4, text)
    return page.figure


def _mean(row: Row, task: str) -> float:
    mean = row.tasks[task].mean if task in row.tasks else None
    return math.nan if mean is None else mean


def _why(row: Row, task: str) -> str:
    return row.tasks[task].trouble if task in row.tasks else "\N{EN DASH}"


def training(rows: Sequence[Row], subtitle: str, notes: Sequence[str]) -> Figure | None:
    """Validation accuracy against the share of training done: a panel a variant, a line a seed; None without any."""
    rows = [row for row in rows if any(_history(run) for score in row.tasks.values() for run in score.runs)]
    if not rows:
        return None
    text = wrap(" ".join(notes))
    columns = min(4, len(rows))
    bottom = 36 + LINE * len(text) + 12
    width, height = (WIDTH - LEFT - RIGHT) / columns, 92.0
    page = Page(TOP + -(-len(rows) // columns) * height + bottom)
    page.title("Validation accuracy during training, %", subtitle)
    seen = [a for row in rows for score in row.tasks.values() for run in score.runs for _, a in _history(run)]
    low, high = 100 * min(seen), 100 * max(seen)
    margin = max(0.05 * (high - low), 1)
    low, high = low - margin, high + margin
    panels = [
        Panel(
            LEFT + index % columns * width,
            page.height - TOP - (index // columns + 1) * height,
            width,
            height,
            low,
            high,
        )
        for index in range(len(rows))
    ]
    _frames(page, panels, rows, columns)
    for task in sorted({task for row in rows for task in row.tasks}):
        colour, dash = TASKS.get(task, (style.PALE, "-."))
        lines = [
            panel.place(_history(run))
            for panel, row in zip(panels, rows, strict=True)
            for run in (row.tasks[task].runs if task in row.tasks else ())
        ]
        page.polylines(lines, color=colour, linestyle=dash, linewidth=0.9)
    _task_legend(page, rows, bottom - 28)
    page.lines(bottom - 36, text)
    return page.figure


@dataclass(frozen=True)
class Panel:
    """A small plot at a place of the page, in points; up: percent from `low` to `high`, across: percent of the steps.

    Not matplotlib axes, of which thirty take longer to make than everything else on the page.
    """

    left: float
    bottom: float
    width: float
    height: float
    low: float
    high: float

    def x(self, share: float) -> float:
        """Position of a share of the training, 0 to 1."""
        return self.left + share * (self.width - 16)

    def y(self, value: float) -> float:
        """Position of a percentage."""
        return self.bottom + (value - self.low) / (self.high - self.low) * (self.height - 22)

    def place(self, history: Sequence[tuple[float, float]]) -> np.ndarray:
        """The curve of a run on the page, [points, 2]."""
        last = max((step for step, _ in history), default=1)
        return np.array([(self.x(step / max(last, 1)), self.y(100 * a)) for step, a in history]).reshape(-1, 2)


def _frames(page: Page, panels: Sequence[Panel], rows: Sequence[Row], columns: int) -> None:
    """Axes, grid, numbers at the left and below, and names."""
    low, high = panels[0].low, panels[0].high
    ticks = [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    grid, spines = [], []
    for index, (panel, row) in enumerate(zip(panels, rows, strict=True)):
        right, top = panel.x(1), panel.y(high)
        spines.append(np.array([(panel.left, top), (panel.left, panel.bottom), (right, panel.bottom)]))
        grid += [np.array([(panel.left, panel.y(tick)), (right, panel.y(tick))]) for tick in ticks]
        grid += [np.array([(panel.x(share), panel.bottom), (panel.x(share), top)]) for share in (0.5, 1)]
        page.fit(page.text(panel.left + 2, top + 2, row.label, size=SMALL + 0.5), panel.width - 8)
        if index % columns == 0:
            for tick in ticks:
                page.text(panel.left - 4, panel.y(tick), f"{tick:g}", ha="right", va="center")
        if index + columns >= len(rows):
            for share in (0, 0.5, 1):
                page.text(panel.x(share), panel.bottom - 10, f"{100 * share:.0f}", ha="center")
    page.polylines(grid, color="#E6E6E6", linewidth=0.5)
    page.polylines(spines, color=style.PALE, linewidth=0.7)


def _task_legend(page: Page, rows: Sequence[Row], height: float) -> None:
    left = LEFT
    for task in [task for task in TASKS if any(task in row.tasks for row in rows)]:
        colour, dash = TASKS[task]
        page.line((left, height), (left + 16, height), color=colour, linestyle=dash, linewidth=1.4)
        left += 30 + page.extent(page.text(left + 20, height - 2.5, title(task)))[0]
    page.text(left, height - 2.5, "across: percent of the training steps", color=style.PALE)


def _history(run: Score) -> list[tuple[float, float]]:
    """(step, validation accuracy) wherever both were recorded."""
    pairs = [(entry.get("step"), entry.get("validation_accuracy")) for entry in run.history]
    return [(step, a) for step, a in pairs if isinstance(step, int | float) and isinstance(a, int | float)]
