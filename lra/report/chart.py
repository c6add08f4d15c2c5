"""The bubble chart: score up, speed to the right, memory as the circle's area, family as its colour."""

import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator
from matplotlib.transforms import Affine2D, Transform

from lra.report import labels, style
from lra.report.rows import FIVE, Comparison, title

WIDTH, PLOT_HEIGHT = 540.0, 330.0  # points; 7.5 inches fit a printed page
LEFT, RIGHT, TOP = 46.0, 12.0, 46.0
SMALL, LINE = 7.0, 9.5  # font size and line height of the text under the plot
STABLE = {"svg.hashsalt": "lra", "svg.fonttype": "path", "path.simplify": False}


def draw(comparison: Comparison, notes: Sequence[str] = (), *, log: bool = False) -> Figure:
    """The chart as a figure; `comparison` has at least one point. What it cannot show is listed under it."""
    text = _wrap(" ".join(notes))
    text += _wrap(_absent(comparison)) if comparison.absent else []
    bottom = 36 + 34 + LINE * len(text) + 8
    height = TOP + PLOT_HEIGHT + bottom
    figure = Figure((WIDTH / 72, height / 72), dpi=72)
    FigureCanvasAgg(figure)
    points = Affine2D().scale(1 / 72) + figure.dpi_scale_trans
    axes = figure.add_axes((LEFT / WIDTH, bottom / height, (WIDTH - LEFT - RIGHT) / WIDTH, PLOT_HEIGHT / height))
    frame = np.array([LEFT, bottom, WIDTH - RIGHT, bottom + PLOT_HEIGHT])
    _title(figure, comparison, height, points)
    centres, radii = _bubbles(axes, comparison, frame, log=log)
    _labels(figure, comparison, centres, radii, frame, points)
    _legend(figure, comparison, radii, bottom - 36, points)
    for number, line in enumerate(text):
        _text(figure, LEFT, bottom - 36 - 34 - LINE * (number + 1), line, points, size=SMALL, color=style.INK)
    return figure


def png(figure: Figure) -> bytes:
    """300 dots per inch."""
    return _save(figure, format="png", dpi=300, metadata={"Software": None})


def svg(figure: Figure) -> bytes:
    """Byte for byte the same for the same figure."""
    return _save(figure, format="svg", metadata={"Date": None, "Creator": None})


def _save(figure: Figure, **options: Any) -> bytes:
    file = io.BytesIO()
    with matplotlib.rc_context(STABLE):  # type: ignore[arg-type]
        figure.savefig(file, **options)
    return file.getvalue()


def score_name(tasks: Sequence[str]) -> str:
    """What the mean over `tasks` is called: LRA score only for the five."""
    if set(tasks) == set(FIVE):
        return "LRA score (mean accuracy of the five tasks)"
    if len(tasks) == 1:
        return f"Accuracy on {title(tasks[0])}"
    return "Mean accuracy on " + ", ".join(title(task) for task in tasks[:-1]) + f" and {title(tasks[-1])}"


def _title(figure: Figure, comparison: Comparison, height: float, points: Transform) -> None:
    condition = comparison.condition
    assert condition is not None
    name = score_name(comparison.tasks)
    _text(figure, LEFT, height - 20, f"{name} against speed", points, size=11, weight="bold")
    mode = "training" if condition.mode == "train" else "inference"
    second = f"preset {comparison.preset}  |  {mode} at length {condition.length:,}, batch {condition.batch_size}, "
    _text(figure, LEFT, height - 35, f"{second}{condition.precision}  |  {condition.hardware}", points, size=8)


def _bubbles(axes: Axes, comparison: Comparison, frame: np.ndarray, *, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draws the circles; their centres [N, 2] and radii [N] in points."""
    shown = comparison.points
    x = np.array([point.speed for point in shown])
    y = np.array([100 * point.accuracy for point in shown])
    radii = _radii([point.memory for point in shown])
    width, height = frame[2] - frame[0], frame[3] - frame[1]
    u = np.log10(x) if log else x
    low_x, high_x = _limits(u, radii + 8, width)
    low_y, high_y = _limits(y, radii + 8, height)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(LogLocator(subs=()))
    axes.set_xlim(*((10**low_x, 10**high_x) if log else (low_x, high_x)))
    axes.set_ylim(low_y, high_y)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.number(value)))
    _decorate(axes, comparison)
    for index in np.argsort(-radii, kind="stable"):  # the small ones on top
        colour, marker, _ = style.family(shown[index].row.family)
        at, area = (x[index], y[index]), (2 * radii[index]) ** 2
        if shown[index].memory is not None:
            axes.scatter(*at, s=area, color=colour, alpha=0.6, linewidth=0, zorder=3)
            axes.scatter(*at, s=area, facecolor="none", edgecolor=colour, linewidth=0.8, zorder=3)
        axes.scatter(*at, s=20, marker=marker, color=style.INK, edgecolor="white", linewidth=0.5, zorder=5)
    fraction = np.stack([(u - low_x) / (high_x - low_x), (y - low_y) / (high_y - low_y)], -1)
    return frame[:2] + fraction * (frame[2:] - frame[:2]), np.maximum(radii, 3)


def _decorate(axes: Axes, comparison: Comparison) -> None:
    condition = comparison.condition
    assert condition is not None
    mode = "in training" if condition.mode == "train" else "in inference"
    axes.set_xlabel(f"Sequences per second {mode}, length {condition.length:,}", size=8)
    axes.set_ylabel(f"{score_name(comparison.tasks)}, %" if len(comparison.tasks) < 3 else "Mean accuracy, %", size=8)
    axes.tick_params(labelsize=7, color=style.PALE, width=0.6)
    axes.grid(color="#E6E6E6", linewidth=0.5)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(style.PALE)
    if reference := comparison.reference:
        axes.axvline(reference.speed, color=style.PALE, linewidth=0.7, dashes=(5, 4), zorder=2)
        axes.axhline(100 * reference.accuracy, color=style.PALE, linewidth=0.7, dashes=(5, 4), zorder=2)


def _radii(memory: Sequence[float | None]) -> np.ndarray:
    """Radii in points, area proportional to memory, 0 where it is unknown. Many bubbles make all of them smaller."""
    known = np.array([value or 0.0 for value in memory])
    if not known.any():
        return np.zeros(len(known))
    relative = known / known.max()
    largest = min(34.0, math.sqrt(0.10 * PLOT_HEIGHT * (WIDTH - LEFT) / (math.pi * relative.sum())))
    return largest * np.sqrt(relative)


def _limits(values: np.ndarray, padding: np.ndarray, length: float) -> tuple[float, float]:
    """Ends of an axis `length` points long on which every value keeps its padding (points) to both ends."""
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-6 * max(abs(high), 1):
        low, high = low - max(abs(low), 1) * 0.05, high + max(abs(high), 1) * 0.05
    start = (low, high)
    for _ in range(30):
        scale = (high - low) / length
        low, high = min(start[0], (values - padding * scale).min()), max(start[1], (values + padding * scale).max())
    return low, high


def _labels(figure: Figure, comparison: Comparison, centres, radii, frame, points: Transform) -> None:
    names = [point.row.label + point.row.marks(comparison.tasks) for point in comparison.points]
    texts = [_text(figure, 0, 0, name, points, size=SMALL) for name in names]
    boxes = [text.get_window_extent(_renderer(figure)) for text in texts]
    sizes = np.array([[box.width + 2, box.height + 1] for box in boxes])
    middle = [centre for point, centre in zip(comparison.points, centres, strict=True) if point.row.is_reference]
    crosses = [box for x, y in middle for box in ((frame[0], y, frame[2], y), (x, frame[1], x, frame[3]))]
    corners = labels.place(centres, radii, sizes, frame + np.array([2, 2, -2, -2]), np.array(crosses).reshape(-1, 4))
    for text, corner, size, centre, radius in zip(texts, corners, sizes, centres, radii, strict=True):
        text.set_position((corner[0] + 1, corner[1] + 1))
        start, end = labels.leader(centre, radius, np.concatenate([corner, corner + size]))
        if np.linalg.norm(end - start) > 6:
            line = Line2D(*zip(start, end, strict=True), transform=points, color=style.PALE, linewidth=0.5)
            figure.add_artist(line)


def _legend(figure: Figure, comparison: Comparison, radii: np.ndarray, top: float, points: Transform) -> None:
    """Families from the left, in as many lines as they need, and two circles of known memory at the right end."""
    families = {point.row.family for point in comparison.points}
    left, line = LEFT, top - 6
    for name in [*(name for name in style.FAMILIES if name in families), *sorted(families - set(style.FAMILIES))]:
        colour, marker, words = style.family(name)
        text = _text(figure, 0, 0, words, points, size=SMALL)
        width = 12 + text.get_window_extent(_renderer(figure)).width + 10
        if left + width > WIDTH - 130:
            left, line = LEFT, line - 11
        _dot(figure, left + 5, line, 4.5, points, color=colour, alpha=0.6)
        _dot(figure, left + 5, line, 2.2, points, marker=marker, color=style.INK)
        text.set_position((left + 12, line - 2.5))
        left += width
    known = [(point.memory, radius) for point, radius in zip(comparison.points, radii, strict=True) if point.memory]
    if not known:
        return
    most, radius = max(known)
    large = _round_down(most * min(1.0, (15 / radius) ** 2))
    left = WIDTH - 120
    for value in (large, _round_down(large / 4)):
        size = radius * math.sqrt(value / most)
        _dot(figure, left + size, top - 14, size, points, color="none", markeredgecolor=style.PALE, markeredgewidth=0.8)
        text = _text(figure, left + 2 * size + 3, top - 16.5, style.memory(value), points, size=SMALL)
        left += 2 * size + 3 + text.get_window_extent(_renderer(figure)).width + 8


def _round_down(value: float) -> float:
    """The nearest 1, 2 or 5 times a power of ten below."""
    power = 10.0 ** math.floor(math.log10(value))
    return max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)) * power


def _renderer(figure: Figure) -> RendererBase:
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    return canvas.get_renderer()


def _dot(
    figure: Figure, x: float, y: float, radius: float, points: Transform, marker: str = "o", **options: Any
) -> None:
    options = {"markeredgewidth": 0} | options
    figure.add_artist(Line2D([x], [y], transform=points, marker=marker, markersize=2 * radius, linestyle="", **options))


def _text(figure: Figure, x: float, y: float, words: str, points: Transform, *, size: float, **options: Any) -> Text:
    # a variant may be called anything: no mathematics in it
    return figure.text(x, y, words, transform=points, size=size, parse_math=False, **options)


def _wrap(words: str) -> list[str]:
    return textwrap.wrap(words, width=int((WIDTH - LEFT - RIGHT) / (0.52 * SMALL)), break_long_words=True)


def _absent(comparison: Comparison) -> str:
    return "Not drawn: " + "; ".join(f"{row.label} ({reason})" for row, reason in comparison.absent) + "."
