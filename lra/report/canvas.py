"""What all pictures share: a page measured in points from its lower left corner, its text, and how it is saved."""

import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Affine2D

from lra.report import style

WIDTH = 540.0  # points; 7.5 inches fit a printed page
LEFT, RIGHT = 46.0, 12.0
SMALL, LINE = 7.0, 9.5  # font size and line height of the text under a picture
STABLE: Any = {"svg.hashsalt": "lra", "svg.fonttype": "path"}


class Page:
    """A figure `WIDTH` points wide. Every position given to its methods is in points."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.figure = Figure((WIDTH / 72, height / 72), dpi=72)
        self.renderer: RendererAgg = FigureCanvasAgg(self.figure).get_renderer()
        self.points = Affine2D().scale(1 / 72) + self.figure.dpi_scale_trans

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes with two pale spines and a pale grid."""
        axes = self.figure.add_axes((left / WIDTH, bottom / self.height, width / WIDTH, height / self.height))
        axes.tick_params(which="both", labelsize=SMALL, color=style.PALE, labelcolor=style.INK, width=0.6)
        axes.grid(color="#E6E6E6", linewidth=0.5)
        axes.set_axisbelow(True)
        for name, spine in axes.spines.items():
            spine.set_visible(name in ("left", "bottom"))
            spine.set_color(style.PALE)
        return axes

    def text(self, x: float, y: float, words: str, *, size: float = SMALL, **options: Any) -> Text:
        """Text as it is: a variant may be called anything, so there is no mathematics in it."""
        options = {"color": style.INK, **options}
        return self.figure.text(x, y, words, transform=self.points, size=size, parse_math=False, **options)

    def title(self, first: str, second: str) -> None:
        """Two lines at the top."""
        self.text(LEFT, self.height - 20, first, size=11, weight="bold")
        self.text(LEFT, self.height - 35, second, size=8)

    def lines(self, top: float, lines: Iterable[str]) -> None:
        """Small lines of text downwards from `top`."""
        for number, line in enumerate(lines, 1):
            self.text(LEFT, top - LINE * number, line)

    def dot(self, x: float, y: float, radius: float, **options: Any) -> None:
        """A circle, or another matplotlib marker."""
        options = {"marker": "o", "markeredgewidth": 0, "linestyle": "", **options}
        self.figure.add_artist(Line2D([x], [y], transform=self.points, markersize=2 * radius, **options))

    def line(self, start: Iterable[float], end: Iterable[float], **options: Any) -> None:
        """A straight line."""
        options = {"color": style.PALE, "linewidth": 0.5, **options}
        self.figure.add_artist(Line2D(*zip(start, end, strict=True), transform=self.points, **options))

    def polylines(self, lines: Sequence[np.ndarray], **options: Any) -> None:
        """Many lines of one look, each [points, 2]."""
        self.figure.add_artist(LineCollection(lines, transform=self.points, **options))

    def extent(self, text: Text) -> tuple[float, float]:
        """Width and height of a text."""
        box = text.get_window_extent(self.renderer)
        return box.width, box.height

    def width(self, words: str, size: float = SMALL) -> float:
        """How wide a text would be."""
        text = self.text(0, 0, words, size=size)
        width = self.extent(text)[0]
        text.remove()
        return width

    def fit(self, text: Text, room: float) -> None:
        """Makes a text smaller if it is wider than `room`."""
        while (width := self.extent(text)[0]) > room:  # letters are hinted, so widths are not quite proportional
            text.set_fontsize(0.97 * float(text.get_fontsize()) * room / width)

    def families(self, names: Iterable[str], top: float, right: float) -> float:
        """A legend of families in as many lines as it needs up to `right`; returns where the next line would be."""
        wanted = set(names)
        left, line = LEFT, top
        for name in [*(name for name in style.FAMILIES if name in wanted), *sorted(wanted - set(style.FAMILIES))]:
            colour, marker, words = style.family(name)
            text = self.text(0, 0, words)
            width = 12 + self.extent(text)[0] + 10
            if left + width > right:
                left, line = LEFT, line - 11
            self.dot(left + 5, line, 4.5, color=colour, alpha=0.6)
            self.dot(left + 5, line, 2.2, marker=marker, color=style.INK)
            text.set_position((left + 12, line - 2.5))
            left += width
        return line - 11


def wrap(words: str) -> list[str]:
    """Lines of small text as wide as the page."""
    return textwrap.wrap(words, width=int((WIDTH - LEFT - RIGHT) / (0.52 * SMALL)), break_long_words=True)


def png(figure: Figure) -> bytes:
    """300 dots per inch."""
    return _save(figure, format="png", dpi=300, metadata={"Software": None})


def svg(figure: Figure) -> bytes:
    """Byte for byte the same for the same figure; letters are outlines, so that it needs no font."""
    return _save(figure, format="svg", metadata={"Date": None, "Creator": None})


def _save(figure: Figure, **options: Any) -> bytes:
    file = io.BytesIO()
    with matplotlib.rc_context(STABLE):
        figure.savefig(file, **options)
    return file.getvalue()
