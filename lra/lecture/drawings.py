"""The page's pictures, as SVG that is byte for byte the same for the same figures."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from lra.lecture.claims import SUMMARY, Claim
from lra.lecture.evidence import Evidence
from lra.lecture.mechanisms import HALF, LOW_RANK, attention_share, operations_share
from lra.lecture.products import described
from lra.lecture.verdicts import Figure
from lra.report import canvas, style
from lra.report.canvas import LEFT, LINE, RIGHT, WIDTH, Page
from lra.report.curves import TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOP, BOTTOM, PLOT, GAP = 46.0, 40.0, 170.0, 40.0  # points: title, axis and its label, axes, between two axes
DENSE, KERNELS = style.family("dense")[0], style.family("kernels")[0]
DARKER_KERNELS = "#1F7FA8"  # the family's colour, dark enough for a line on white
PALE_BAND = 0.18


def draw(evidence: Evidence, made: Sequence[Claim]) -> dict[str, bytes]:
    """Contents by file name, of those pictures for which something was measured."""
    parts = {name: evidence.measured.get(name) for name in OF_PART}
    drawn = {f"{name}.svg": OF_PART[name](part) for name, part in parts.items() if part}
    if summary := _summary(made):
        drawn["summary.svg"] = summary
    return drawn


def _panels(count: int, heading: str, subtitle: str, note: str = "") -> tuple[Page, list["Axes"]]:
    """A page with axes side by side, and a line of text under them."""
    lines = canvas.wrap(note) if note else []
    below = BOTTOM + LINE * len(lines)
    page = Page(TOP + PLOT + below + 10)
    page.title(heading, subtitle)
    width = (WIDTH - LEFT - RIGHT - (count - 1) * GAP) / count
    found = [page.axes(LEFT + i * (width + GAP), below, width, PLOT) for i in range(count)]
    page.lines(below - BOTTOM + 4, lines)
    return page, found


def _logarithmic(axes: "Axes", ticks: Sequence[float], label: str) -> None:
    """A logarithmic x axis with exactly these ticks."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel(label, size=8, parse_math=False)


def _percent_axis(axes: "Axes") -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def _share(part: dict[str, Any]) -> bytes:
    points, encoder = part["points"], part["encoder"]
    sizes = f"{encoder['layers']} layers of width {encoder['dim']}, {encoder['heads']} heads, MLP {encoder['mlp_dim']}"
    page, (axes,) = _panels(
        1, "Attention's share of a Transformer's training step", f"{sizes}  |  batch {part['batch_size']}"
    )
    lengths = [point["length"] for point in points]
    _logarithmic(axes, lengths, "Length, tokens")
    times = [attention_share(point) for point in points]
    lows, highs = ([ends[side] for _, ends in times] for side in (0, 1))
    axes.fill_between(lengths, lows, highs, color=DENSE, alpha=PALE_BAND, linewidth=0)
    axes.plot(lengths, [value for value, _ in times], color=DENSE, marker="o", markersize=3.5, label="of its time")
    operations = [operations_share(point) for point in points]
    axes.plot(lengths, operations, color="#CC6677", linestyle="--", marker="s", markersize=3, label="of its operations")
    axes.axhline(HALF, color=style.PALE, linewidth=0.8)
    axes.set_ylim(min(0, *(low for _, (low, _) in times)), 1)
    _percent_axis(axes)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    return canvas.svg(page.figure)


def _low_rank(part: dict[str, Any]) -> bytes:
    note = (
        "Lines: mean over layers and heads, with its 95 % interval over documents. Dots: single heads after training."
    )
    subtitle = "how many hold 90 % of their sum, as a share of the length"
    page, panels = _panels(len(part["runs"]), "Singular values of attention matrices", subtitle, note)
    for axes, run in zip(panels, part["runs"], strict=True):
        colour = TASKS.get(run["task"], (DENSE, "-"))[0]
        lengths = sorted({point["length"] for point in run["points"]})
        for which, dash, words in (("trained", "-", "trained"), ("initial", ":", "before training")):
            own = [point for point in run["points"] if point["which"] == which]
            means = [(p["length"], p["of_sum"]["share"]) for p in own if p["layer"] is None]
            x, y = [length for length, _ in means], [share for _, share in means]
            axes.fill_between(
                x, [s["low"] for s in y], [s["high"] for s in y], color=colour, alpha=PALE_BAND, linewidth=0
            )
            axes.plot(x, [s["mean"] for s in y], dash, color=colour, marker="o", markersize=3, label=words)
            if which == "trained":
                heads = [(p["length"], p["of_sum"]["share"]["mean"]) for p in own if p["layer"] is not None]
                axes.plot(*zip(*heads, strict=True), ".", color=style.PALE, markersize=4, zorder=1)
        _logarithmic(axes, lengths, f"Tokens, {run['title']}")
        axes.axhline(LOW_RANK, color=style.PALE, linewidth=0.8)
        axes.set_ylim(0, None)
        _percent_axis(axes)
        axes.legend(fontsize=8, frameon=False)
    return canvas.svg(page.figure)


def _features(part: dict[str, Any]) -> bytes:
    note = "Band: range over draws of the features. Attention with equal weights is the mean of all values."
    page, panels = _panels(len(part["sources"]), "Error of attention with phi(q) . phi(k)", "relative, log scale", note)
    for axes, source in zip(panels, part["sources"], strict=True):
        x = [point["features"] for point in source["plain"]]
        axes.set_yscale("log")
        for kind, words, colour, dash in (
            ("performer", "Performer's code", DARKER_KERNELS, "-"),
            ("plain", "Performer's paper", "#882255", "-."),
        ):
            points = source[kind]
            axes.fill_between(
                x, [p["low"] for p in points], [p["high"] for p in points], color=colour, alpha=PALE_BAND, linewidth=0
            )
            axes.plot(x, [p["mean"] for p in points], dash, color=colour, marker="o", markersize=3, label=words)
        axes.axhline(source["elu"], color=style.INK, linestyle="--", linewidth=1, label="Linear Transformer, elu + 1")
        axes.axhline(source["equal_weights"], color=style.PALE, linestyle=":", linewidth=1.2, label="equal weights")
        _logarithmic(axes, x, f"Features, {described(source)}")
        _plain_decades(axes)
        axes.legend(fontsize=7, frameon=False)
    return canvas.svg(page.figure)


def _plain_decades(axes: "Axes") -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _orders(part: dict[str, Any]) -> bytes:
    dims = sorted({point["dim"] for point in part["points"]})
    note = "Grey line: N = D, where both orders take equally many multiplications."
    page, panels = _panels(len(dims), "Time of Q K^T V in both orders", "no softmax, one head, log scales", note)
    for axes, dim in zip(panels, dims, strict=True):
        own = [point for point in part["points"] if point["dim"] == dim]
        x = [point["length"] for point in own]
        axes.set_yscale("log")
        for order, words, colour, dash in (
            ("queries_first", "(Q K^T) V", DENSE, "-"),
            ("values_first", "Q (K^T V)", DARKER_KERNELS, "--"),
        ):
            y = [point[order]["seconds"]["median"] for point in own]
            axes.plot(x, y, dash, color=colour, marker="o", markersize=3, label=words)
        axes.axvline(dim, color=style.PALE, linewidth=0.8)
        _logarithmic(axes, x[::2], f"Length N, D = {dim}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.seconds(value)))
        axes.legend(fontsize=7, frameon=False)
    low, high = min(axes.get_ylim()[0] for axes in panels), max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, high)
    return canvas.svg(page.figure)


def _reach(part: dict[str, Any]) -> bytes:
    variants, row = part["variants"], 15.0
    subtitle = f"share of {part['length']:,} tokens that reach a token, mean  |  preset {part['preset']}"
    page = Page(TOP + row * len(variants) + BOTTOM + 10)
    page.title("What one layer joins, and what two", subtitle)
    axes = page.axes(104, BOTTOM, WIDTH - 104 - 130, row * len(variants))
    for place, found in enumerate(reversed(variants)):
        one, two = (layer["mean"] for layer in found["layers"])
        colour = style.family(found["family"])[0]
        axes.plot([one, two], [place, place], color=style.PALE, linewidth=1)
        axes.plot([one], [place], "o", color=colour, markersize=5, label="one layer" if place == 0 else None)
        hollow: Any = {"markerfacecolor": "white", "markeredgecolor": colour}
        axes.plot([two], [place], "o", markersize=5, **hollow, label="two layers" if place == 0 else None)
        layers = found["layers_to_all"]
        words = "never all" if layers is None else f"all in {layers:,} layer{'s' if layers > 1 else ''}"
        page.text(WIDTH - 120, BOTTOM + row * (place + 0.5) - 2.5, words)
    axes.set_yticks(range(len(variants)), [found["variant"] for found in reversed(variants)], size=8)
    axes.set_ylim(-0.5, len(variants) - 0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.set_xlabel("filled: one layer; hollow: two layers", size=8)
    return canvas.svg(page.figure)


def _summary(made: Sequence[Claim]) -> bytes | None:
    """Score and speed of the chart's variants, each with the range that the lecture's words stand for."""
    rows = [next(claim for claim in made if claim.key == f"chart-{name.replace('_', '-')}") for name, *_ in SUMMARY]
    if all(figure.value is None for claim in rows for figure in claim.figures):
        return None
    row = 19.0
    height = row * len(rows)
    note = (
        "Filled: ours, with interval. Hollow: the LRA paper's. Grey: the range that the lecture's words stand for. "
        "Solid line: the Transformer."
    )
    lines = canvas.wrap(note)
    below = BOTTOM + LINE * len(lines)
    page = Page(TOP + height + below + 6)
    page.title("The lecture's chart, held against ours and the paper's", "each variant against the Transformer")
    left, width, gap = 104.0, 176.0, 14.0
    panels = [page.axes(left + i * (width + gap), below, width, height) for i in range(2)]
    for number, (axes, label) in enumerate(zip(panels, ("Score, points", "Speed, times"), strict=True)):
        axes.set_xlabel(label, size=8)
        if number == 1:
            axes.set_xscale("log")
        shown = [claim.figures[number] for claim in rows]
        axes.set_xlim(*_limits(shown, logarithmic=number == 1))
        for place, (figure, (name, *_)) in enumerate(zip(reversed(shown), reversed(SUMMARY), strict=True)):
            _forest_row(axes, place, figure, name)
        axes.axvline(number, color=style.INK, linewidth=0.8)
        axes.set_ylim(-0.5, len(rows) - 0.5)
        axes.set_yticks(range(len(rows)), [name for name, *_ in reversed(SUMMARY)] if number == 0 else [""] * len(rows))
        axes.tick_params(axis="y", labelsize=8, length=0)
    ticks = [
        tick for tick in (0.25, 0.5, 1, 2, 4, 8, 16, 32) if panels[1].get_xlim()[0] <= tick <= panels[1].get_xlim()[1]
    ]
    panels[1].xaxis.set_major_locator(FixedLocator(ticks))
    panels[1].xaxis.set_minor_locator(NullLocator())
    panels[1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    for place, claim in enumerate(reversed(rows)):
        page.text(left + 2 * width + gap + 6, below + row * (place + 0.5) - 2.5, claim.verdict.value)
    page.lines(below - BOTTOM + 4, lines)
    return canvas.svg(page.figure)


def _limits(figures: Sequence[Figure], *, logarithmic: bool) -> tuple[float, float]:
    """An axis that holds ours, the paper's, and the reference, with some room around them."""
    seen = [1.0 if logarithmic else 0.0]
    for figure in figures:
        seen += [value for value in (figure.value, figure.paper, *(figure.interval or ())) if value is not None]
    if logarithmic:
        return min(seen) / 1.4, max(seen) * 1.4
    room = max(0.08 * (max(seen) - min(seen)), 0.5)
    return min(seen) - room, max(seen) + room


def _forest_row(axes: "Axes", place: int, figure: Figure, variant: str) -> None:
    """The claimed range, our figure with its interval, and the paper's."""
    low, high = axes.get_xlim()
    if figure.wanted is not None:
        start, end = max(figure.wanted.low, low), min(figure.wanted.high, high)
        axes.fill_betweenx([place - 0.4, place + 0.4], start, end, color="#DDDDDD", linewidth=0)
    if figure.paper is not None:
        axes.plot([figure.paper], [place], "o", markersize=6, markerfacecolor="none", markeredgecolor=style.PALE)
    if figure.value is None:
        return
    if figure.interval is not None:
        axes.plot(figure.interval, [place, place], color=style.INK, linewidth=1.2)
    axes.plot([figure.value], [place], "o", markersize=4, color=style.INK)


OF_PART: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "share": _share,
    "low_rank": _low_rank,
    "features": _features,
    "orders": _orders,
    "reach": _reach,
}
PICTURES = (*(f"{name}.svg" for name in OF_PART), "summary.svg")
