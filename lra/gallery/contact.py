"""A contact sheet of a task: examples with their labels, as pictures or text, marked by where the data comes from."""

import importlib
import inspect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lra.child import load_task
from lra.config import BenchConfig, compose_run
from lra.report import style
from lra.report.canvas import LEFT, LINE, RIGHT, WIDTH, Page
from tasks.task import Task

# So few that nothing takes long: what is generated begins with the same examples whatever their number.
FEW = {"train": 80, "validation": 10, "test": 10}
PICTURES, COLUMNS = 20, 5
TEXTS, TEXT_LINES = 10, 5
PAIRS, PAIR_LINES = 6, 7
SIZE, LETTER = 6.5, 0.602  # of the text, and the width of a letter as a share of it
HEADING, GAP = 28.0, 14.0  # above a text and between two, in points
CUT, WARNING = "#F2C9C9", "#AA2222"
SOURCES = {
    "official": "official: the published set",
    "generated": "generated: made here by the task's own published law",
    "packaged": "packaged: real data with a split of our own, not the official one",
    "surrogate": "surrogate: a stand-in made here, not the data of this name",
}


@dataclass(frozen=True)
class Examples:
    """Examples of a task's training split, chosen so that the labels take turns.

    Attributes:
        name: of the task, as the command line has it: Path-X is a Pathfinder of another size.
        task: the data.
        preset: the size of the work.
        chosen: their numbers.
        shown: of every sequence of every example, [examples][1 or 2]: text, or grey values [rows, columns].
        labels: of every example, for people.
    """

    name: str
    task: Task
    preset: str
    chosen: list[int]
    shown: list[list[Any]]
    labels: list[str]

    def lengths(self, number: int) -> list[int]:
        """Real length of every sequence of the example at `number`."""
        return [int(self.task.train.lengths[s]) for s in sequences(self.task, self.chosen[number])]


def load_examples(run: Sequence[str]) -> Examples:
    """Loads a few examples of a run's task; raises BadInput or DataError."""
    given = any(text.lstrip("+").startswith("task.examples") for text in run[4:])
    few = [] if given else [f"task.examples.{split}={count}" for split, count in FEW.items()]
    config = compose_run([*run, *few])
    return choose(run[1].partition("=")[2], load_task(config.task), config)


def choose(name: str, task: Task, config: BenchConfig) -> Examples:
    """Examples in which the labels take turns, each as the task's own `show` has it."""
    module: Any = importlib.import_module(config.task["_target_"].rpartition(".")[0])
    keywords = {key: config.task[key] for key in inspect.signature(module.show).parameters if key in config.task}
    by_label = [np.flatnonzero(task.train.labels == label).tolist() for label in range(task.num_classes)]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_label))
    chosen = [example for example in turns if example is not None]

    def show(example: int) -> list[Any]:
        return [module.show(task.train.sequence(s), **keywords) for s in sequences(task, example)]

    pictures = isinstance(show(chosen[0])[0], np.ndarray)
    chosen = chosen[: PICTURES if pictures else PAIRS if task.paired else TEXTS]
    names = getattr(module, "LABELS", None) if task.source != "surrogate" else None
    labels = [f"label {label}" + (f": {names[label]}" if names else "") for label in task.train.labels[chosen].tolist()]
    return Examples(name, task, config.preset, chosen, [show(example) for example in chosen], labels)


def sequences(task: Task, example: int) -> list[int]:
    """The numbers of an example's sequences."""
    return [2 * example, 2 * example + 1] if task.paired else [example]


def sheet(examples: Examples) -> Figure:
    """The contact sheet."""
    return _pictures(examples) if isinstance(examples.shown[0][0], np.ndarray) else _texts(examples)


def _page(height: float, examples: Examples) -> Page:
    task = examples.task
    page = Page(60 + height + 26)
    size = f"{task.max_length:,} tokens at most, {task.num_classes} classes"
    page.title(f"{examples.name}, preset {examples.preset}", f"training examples  |  {size}")
    real = task.source in ("official", "generated")
    page.text(LEFT, page.height - 48, SOURCES[task.source], size=8, weight="bold", color=style.INK if real else WARNING)
    page.text(LEFT, 10, f"{100 * task.truncated_fraction:.1f} % of all sequences are cut at {task.max_length:,} tokens")
    return page


def _pictures(examples: Examples) -> Figure:
    gap, below = 8.0, 14.0
    side = (WIDTH - LEFT - RIGHT - gap * (COLUMNS - 1)) / COLUMNS
    rows = -(-len(examples.shown) // COLUMNS)
    page = _page(rows * (side + below), examples)
    for number, ((picture, *_), label) in enumerate(zip(examples.shown, examples.labels, strict=True)):
        x = LEFT + number % COLUMNS * (side + gap)
        y = page.height - 58 - side - number // COLUMNS * (side + below)
        axes = page.axes(x, y, side, side)
        axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="none", aspect="auto")
        axes.set_facecolor(CUT)  # shows where pixels were cut off
        axes.grid(False)
        axes.set_xticks([])
        axes.set_yticks([])
        page.text(x, y - 8, f"{label}  (#{examples.chosen[number]})", size=6.5)
    return page.figure


def _texts(examples: Examples) -> Figure:
    paired = examples.task.paired
    width = (WIDTH - LEFT - RIGHT - (GAP if paired else 0)) / (2 if paired else 1)
    letters = int(width / (LETTER * SIZE))
    blocks = [
        [excerpt(text, letters, PAIR_LINES if paired else TEXT_LINES) for text in texts] for texts in examples.shown
    ]
    heights = [HEADING + LINE * max(map(len, block)) for block in blocks]
    page = _page(sum(heights), examples)
    top = page.height - 60
    for number, (block, height, label) in enumerate(zip(blocks, heights, examples.labels, strict=True)):
        page.text(LEFT, top - 8, f"#{examples.chosen[number]}  {label}", size=8, weight="bold")
        for side, (lines, length) in enumerate(zip(block, examples.lengths(number), strict=True)):
            _text(page, LEFT + side * (width + GAP), top - 11, width, lines, length, examples.task)
        top -= height
    return page.figure


def _text(page: Page, x: float, top: float, width: float, lines: Sequence[str], length: int, task: Task) -> None:
    """Lines of a text, and above them a bar of how much of the model's input it fills."""
    full = length >= task.max_length and task.truncated_fraction > 0
    said = f"{length:,} tokens" + (", cut there (or just as long)" if full else ", then padding")
    real = width * min(1.0, length / task.max_length)
    for end, colour in ((width, "#E6E6E6"), (real, WARNING if full else style.PALE)):
        page.line((x, top - 3), (x + end, top - 3), linewidth=3, color=colour, solid_capstyle="butt")
    page.text(x + width, top + 2, said, size=6, ha="right", color=style.PALE)
    for number, line in enumerate(lines, 1):
        page.text(x, top - 4 - LINE * number, line, size=SIZE, family="monospace")


def excerpt(text: str, width: int, lines: int) -> list[str]:
    """The first lines of a text and its last one, between them how much is left out; what is no letter is a dot."""
    plain = "".join(_printable(letter) for letter in text)
    rows = [plain[start : start + width] for start in range(0, len(plain), width)] or ["(empty)"]
    if len(rows) <= lines:
        return rows
    left_out = len(plain) - (lines - 2) * width - len(rows[-1])
    return [*rows[: lines - 2], f"... {left_out:,} more letters ...", rows[-1]]


def _printable(letter: str) -> str:
    if letter == "\n":
        return "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
    return letter if letter.isprintable() and ord(letter) < 0x2500 else "\N{MIDDLE DOT}"
