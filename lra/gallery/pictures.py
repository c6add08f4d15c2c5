"""The gallery's pictures of variants: L x L matrices, a row a query and a column a key."""

import re
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure

from lra.gallery.weights import Mixing
from lra.report import style
from lra.report.canvas import LEFT, LINE, RIGHT, WIDTH, Page, wrap

BIG = 236.0  # points of a variant's first matrix
COLUMNS, GAP, ABOVE, BELOW = 4, 14.0, 15.0, 30.0  # of the sheet
HEADS = ("#4477AA", "#EE6677", "#CCBB44", "#AA3377", "#66CCEE", "#BBBBBB")  # Paul Tol's "bright" without its green
FAINTEST = 0.15  # of the family's colour, so that a small weight still differs from a pair that is not computed
DOT = "\N{MIDDLE DOT}"


def of_variant(mixing: Mixing) -> Figure:
    """One variant: all heads together, each head (and layer) beside them, what it costs and where it comes from."""
    layers, heads = mixing.weights.shape[:2]
    alike = bool((mixing.weights == mixing.weights[:1, :1]).all())
    about = _about(mixing, alike)
    page = Page(48 + BIG + (36 if mixing.is_pattern else 50) + LINE * len(about))
    bottom = page.height - 48 - BIG
    colour, _, family = style.family(mixing.family)
    page.title(mixing.name, f"{family}  |  cost: {formula(mixing.cost)}  |  {mixing.paper}")
    first = page.axes(LEFT, bottom, BIG, BIG)
    _draw(first, together(mixing, alike, colour), ticks=True)
    first.set_xlabel("key", size=7, labelpad=2)
    first.set_ylabel("query", size=7, labelpad=2)
    if not alike:
        left, room = LEFT + BIG + 22, WIDTH - RIGHT - LEFT - BIG - 22
        columns, rows = (heads, layers) if layers > 1 else _grid(heads)
        side = min((room - 8 * (columns - 1)) / columns, (BIG - 14 * rows) / rows)
        names = _panel_names(mixing)
        peak = mixing.weights.max()
        for number, matrix in enumerate(_panels(mixing)):
            x = left + number % columns * (side + 8)
            y = bottom + BIG - (number // columns + 1) * (side + 14)
            own = head_colours(mixing)[number] if mixing.is_pattern else colour
            _draw(page.axes(x, y, side, side), tinted(matrix / peak, own))
            page.text(x, y + side + 3, names[number], size=min(7.0, side / 6))
    if not mixing.is_pattern:
        _scale(page, LEFT, bottom - 27, float(_panels(mixing).mean(0).max()), colour)
    page.lines(LINE * len(about) + 10, about)
    return page.figure


def sheet(mixings: Sequence[Mixing]) -> Figure:
    """All variants beside each other, in the order given."""
    side = (WIDTH - 2 * GAP - (COLUMNS - 1) * GAP) / COLUMNS
    rows = -(-(len(mixings) + 1) // COLUMNS)
    page = Page(46 + rows * (ABOVE + side + BELOW))
    length = mixings[0].weights.shape[-1]
    page.text(GAP, page.height - 20, "Which query-key pairs are computed, and with what weight", size=11, weight="bold")
    page.text(GAP, page.height - 34, f"{length} tokens; rows are queries, columns keys, both from 0", size=8)
    for number in range(len(mixings) + 1):
        x = GAP + number % COLUMNS * (side + GAP)
        y = page.height - 46 - number // COLUMNS * (ABOVE + side + BELOW) - ABOVE - side
        if number == len(mixings):
            _legend(page, x, y + side)
            break
        _cell(page, mixings[number], x, y, side)
    return page.figure


def _cell(page: Page, mixing: Mixing, x: float, y: float, side: float) -> None:
    colour, _, family = style.family(mixing.family)
    alike = bool((mixing.weights == mixing.weights[:1, :1]).all())
    _draw(page.axes(x, y, side, side), together(mixing, alike, colour, first_only=not mixing.is_pattern))
    name = page.text(x, y + side + 4, mixing.name, size=8, weight="bold")
    page.text(x + page.extent(name)[0] + 5, y + side + 4, family, size=6.5, color=style.PALE)
    paper = re.sub(r", arXiv:[\d.]+", "", mixing.paper)
    for line, words in enumerate((formula(mixing.cost), paper)):
        text = page.text(x, y - 9 - 8 * line, words, size=6.5)
        text.set_fontsize(min(6.5, 6.5 * side / max(1.0, page.extent(text)[0])))


def _legend(page: Page, x: float, top: float) -> None:
    """What the sheet's colours mean, in its last cell."""
    lines = [
        ([style.family("patterns")[0]], "a pattern: all heads compute the pair"),
        ([*HEADS[:4]], "only some do, a colour each"),
        (list(map(to_hex, shades(style.family("kernels")[0])((0.0, 0.5, 1.0)))), "weights of head 1, dark is large"),
    ]
    for number, (colours, words) in enumerate(lines):
        y = top - 10 - 11 * number
        for place, colour in enumerate(colours):
            page.dot(x + 4 + 6 * place, y + 2.2, 3, color=colour, marker="s")
        page.text(x + 4 + 6 * len(colours), y, words, size=6)
    below = (
        "White pairs are not computed.",
        "Weights: at initialisation, how strongly the",
        "query's output depends on the key's value.",
        "Costs are half the multiplications, without",
        "projections: L length, D width of the model,",
        "H heads, K width of a head.",
    )
    for number, words in enumerate(below):
        page.text(x, top - 14 - 11 * len(lines) - 9 * number, words, size=6)


def _about(mixing: Mixing, alike: bool) -> list[str]:
    layers, heads, length = mixing.weights.shape[:3]
    share = f"{100 * mixing.computed:.1f} % of the pairs of {length} tokens are computed"
    if mixing.is_pattern:
        whose = (
            "All heads are alike."
            if alike
            else "On the left, pairs that only some heads compute are coloured by pattern."
        )
        return wrap(f"The pattern: {share}. {whose}")
    many = f"the mean of {heads} heads" if layers == 1 else f"the mean of {layers} layers and {heads} heads"
    first = "All heads are alike." if alike and heads > 1 else f"On the left {many}." if layers * heads > 1 else ""
    return wrap(
        f"Weights {mixing.input}. {first} A weight is how strongly a query's output depends on a key's "
        f"value: the norm of that block of the Jacobian, which for attention is the attention weight. {share}."
    )


def together(mixing: Mixing, alike: bool, colour: str, *, first_only: bool = False) -> np.ndarray:
    """All heads and layers in one picture, RGB [L, L, 3].

    Of a pattern, pairs that all heads compute have the colour of the family, others the mixture of their patterns. Of
    weights it is the mean, or the first head's in the first layer.
    """
    panels = _panels(mixing)
    if not mixing.is_pattern:
        matrix = panels[0] if first_only else panels.mean(0)
        return tinted(matrix / matrix.max(), colour)
    computed = panels != 0
    if alike:
        return tinted(computed[0].astype(float), colour)
    own = dict(zip(head_colours(mixing), computed, strict=True))  # heads of one pattern count once
    colours, which = np.array([to_rgb(one) for one in own]), np.stack(list(own.values()))
    mixture = np.einsum("hij,hc->ijc", which, colours) / np.maximum(which.sum(0), 1)[..., None]
    picture = np.where(computed.any(0)[..., None], mixture, 1.0)
    return np.where(computed.all(0)[..., None], to_rgb(colour), picture)


def head_colours(mixing: Mixing) -> list[str]:
    """The colour of each head's pattern; heads of the same pattern share it."""
    seen: list[bytes] = []
    colours = []
    for matrix in _panels(mixing):
        if matrix.tobytes() not in seen:
            seen.append(matrix.tobytes())
        colours.append(HEADS[seen.index(matrix.tobytes()) % len(HEADS)])
    return colours


def shades(colour: str) -> LinearSegmentedColormap:
    """From a faint tint through the colour to a dark shade of it."""
    full = np.array(to_rgb(colour))
    return LinearSegmentedColormap.from_list("", [1 - FAINTEST * (1 - full), full, 0.35 * full])


def tinted(strength: np.ndarray, colour: str) -> np.ndarray:
    """RGB [L, L, 3] of strengths in [0, 1]; exactly 0 is white. A picture of zeros and ones has the colour itself."""
    if set(np.unique(strength)) <= {0.0, 1.0}:
        return np.where(strength[..., None] == 1, to_rgb(colour), 1.0)
    return np.where(strength[..., None] == 0, 1.0, shades(colour)(strength)[..., :3])


def formula(cost: str) -> str:
    """A cost as it is printed."""
    return re.sub(r"len\((\w+)\)", r"|\1|", cost).replace(" * ", f" {DOT} ") or "not stated"


def _panels(mixing: Mixing) -> np.ndarray:
    """[layers * heads, L, L]."""
    return mixing.weights.reshape(-1, *mixing.weights.shape[2:])


def _draw(axes: Axes, picture: np.ndarray, *, ticks: bool = False) -> None:
    length = len(picture)
    axes.imshow(picture, interpolation="none", extent=(0, length, length, 0), aspect="auto")
    axes.grid(False)
    marks = list(range(0, length + 1, max(1, length // 4))) if ticks else []
    axes.set_xticks(marks)
    axes.set_yticks(marks)
    for spine in axes.spines.values():
        spine.set(visible=True, color=style.PALE, linewidth=0.5)


def _scale(page: Page, left: float, bottom: float, peak: float, colour: str) -> None:
    """A strip of the colours of weights."""
    axes = page.axes(left + 10, bottom - 8, 90, 7)
    axes.imshow(shades(colour)(np.linspace(0, 1, 90))[None, :, :3], aspect="auto", interpolation="none")
    axes.set_axis_off()
    page.text(left, bottom - 7, "0")
    page.text(left + 104, bottom - 7, f"{style.number(peak)} on the left; white: not computed")


def _grid(panels: int) -> tuple[int, int]:
    """Columns and rows of panels, as square as can be."""
    columns = int(np.ceil(np.sqrt(panels)))
    return columns, -(-panels // columns)


def _panel_names(mixing: Mixing) -> list[str]:
    layers = len(mixing.weights)
    prefix = [f"layer {i + 1}, " if layers > 1 else "" for i in range(layers)]
    return [f"{before}{head}".strip(", ") for before in prefix for head in mixing.heads]
