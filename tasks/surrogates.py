"""Stand-ins for text, retrieval and image, made here so that preset `mini` runs offline. They are no benchmark.

Each asks for a relation between places that lie far apart, as its real task does. Whoever only counts learns nothing:
in every class the tokens, and all windows of `WINDOW` tokens, come from one and the same distribution, because what
tells the classes apart is the order of things that no window holds together. (Who knows where a window lies can guess a
little in `text` and `image`, where one mark late or low makes some classes likelier, and nothing in `retrieval`.)

- `text`: verdicts, `+++` and `---`, stand in running letters, as many of one kind as of the other. The last one is the
  label, but for one text in 25, where the label is the other one: nothing scores more than 96 %, so that strong models
  do not all end at 100. A model has to know of every verdict whether another one follows, up to a whole text away.
- `retrieval`: each document has two passages of one length, one in the letters A and B, one in Y and Z. Two documents
  belong together if these come in the same order. One document alone says nothing; of each, a model has to compare two
  passages that lie up to a document apart, and in some documents are a letter or two.
- `image`: a white and a grey square on black. The class is where the grey one lies as seen from the white one: above or
  below, and in one of five bands from far left to far right. At least a whole row of black pixels lies between the two.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tasks import baselines
from tasks.cache import SPLITS, Report, cached
from tasks.errors import DataError
from tasks.splits import sizes_of, task_of
from tasks.task import Shape, Split, Task

VERSION = 2  # rises whenever the same seed would give other examples
WINDOW = 8  # tokens; marks keep so far from each other and from both ends that no such window tells anything
FULL_SIZES = {"train": 20_000, "validation": 2_000, "test": 2_000}
SHORTEST = {"text": 160, "retrieval": 112}  # least max_length
LETTERS = np.frombuffer(b"eeeeettttaaaooiinnsshrdlu      ", np.uint8)

VERDICTS = np.frombuffer(b"-+", np.uint8)  # by label
MOST_PAIRS = 3  # of verdicts in a text; there is one at least
STROKES = 3  # of which a verdict is made: `+++`
WRONG = 1 / 25  # of the texts, whose label is not their last verdict

SUBJECTS = np.frombuffer(b"ABYZ", np.uint8).reshape(2, 2)
SHARE = (0.25, 0.35)  # of a document, that each of its two passages has
BRIEF, BRIEF_SHARE = (1, 2), 0.4  # letters that they have instead, in a share of the documents

SIDE = 16  # of an image, in pixels, or a multiple of it
WHITE, GREY = 255, 128
RISE = (4, 9)  # least and most rows between the centres of two squares of 3 x 3 pixels
BANDS = np.array([(-9, -7), (-5, -3), (-1, 1), (3, 5), (7, 9)])  # columns between them


def draw_texts(count: int, max_length: int, rng: np.random.Generator) -> Split:
    """`count` texts of half to all of `max_length` bytes; ids are byte + 1."""
    labels = rng.permutation(np.arange(count) % 2)
    last = np.where(rng.permutation(count) < round(WRONG * count), 1 - labels, labels)
    letters, lengths = _letters(count, max_length // 2, max_length, rng)
    pairs = rng.integers(1, MOST_PAIRS + 1, count)
    for number in range(1, MOST_PAIRS + 1):
        rows, verdicts = np.flatnonzero(pairs == number), 2 * number
        kinds = rng.permuted(np.tile(np.arange(verdicts) % 2, (len(rows), 1)), axis=1)
        kinds = np.where((kinds[:, -1] == last[rows])[:, None], kinds, 1 - kinds)
        free = lengths[rows] - 2 * WINDOW - verdicts * (STROKES + WINDOW) + WINDOW
        places = np.sort((rng.random(kinds.shape) * (free + 1)[:, None]).astype(np.int64), axis=1)
        places += WINDOW + (STROKES + WINDOW) * np.arange(verdicts)
        for stroke in range(STROKES):
            letters[rows[:, None], places + stroke] = VERDICTS[kinds]
    return _split(letters, lengths, labels)


def draw_pairs(count: int, max_length: int, rng: np.random.Generator) -> Split:
    """`count` pairs of documents of three quarters to all of `max_length` bytes each; ids are byte + 1."""
    labels = rng.permutation(np.arange(count) % 2)
    first = rng.integers(0, 2, count)
    order = np.stack([first, np.where(labels == 1, first, 1 - first)], axis=1).reshape(-1)
    letters, lengths = _letters(2 * count, max_length * 3 // 4, max_length, rng)
    passage = (rng.uniform(*SHARE, 2 * count) * lengths).astype(np.int64)
    passage = np.where(rng.random(2 * count) < BRIEF_SHARE, rng.integers(*BRIEF, 2 * count, endpoint=True), passage)
    free = lengths - 2 * passage - 3 * WINDOW
    gaps = np.sort((rng.random((2 * count, 2)) * (free + 1)[:, None]).astype(np.int64), axis=1)
    position = np.arange(max_length)
    for number in (0, 1):
        start = WINDOW + gaps[:, number] + number * (passage + WINDOW)
        inside = (position >= start[:, None]) & (position < (start + passage)[:, None])
        subject = SUBJECTS[order ^ number]
        drawn = np.take_along_axis(subject, rng.integers(0, subject.shape[1], letters.shape), axis=1)
        letters = np.where(inside, drawn, letters)
    return _split(letters, lengths, labels, paired=True)


def draw_images(count: int, max_length: int, rng: np.random.Generator) -> Split:
    """`count` square images of `max_length` grey pixels, row by row."""
    labels = rng.permutation(np.arange(count) % (2 * len(BANDS)))
    low, high = BANDS[labels % len(BANDS)].T
    down = rng.integers(RISE[0], RISE[1] + 1, count) * np.where(labels < len(BANDS), -1, 1)
    offset = np.stack([down, rng.integers(low, high + 1)], axis=1)
    # Squares keep a row and a column off the border, so that no window is cut short at either end of the image.
    white = rng.integers(np.maximum(2, 2 - offset), np.minimum(SIDE - 3, SIDE - 3 - offset) + 1)
    pixels = np.zeros((count, SIDE, SIDE), np.uint8)
    for centre, grey in ((white, WHITE), (white + offset, GREY)):
        for step in np.ndindex(3, 3):
            y, x = (centre + step - 1).T
            pixels[np.arange(count), y, x] = grey
    scale = math.isqrt(max_length) // SIDE
    pixels = pixels.repeat(scale, axis=1).repeat(scale, axis=2)
    return Split(pixels.reshape(-1), np.arange(count + 1) * max_length, labels.astype(np.uint8))


DRAW: dict[str, Callable[[int, int, np.random.Generator], Split]] = {
    "text": draw_texts,
    "retrieval": draw_pairs,
    "image": draw_images,
}


def surrogate(
    name: str,
    shape: Shape,
    *,
    cache_dir: str | Path,
    max_length: int,
    examples: Mapping[str, int | None],
    seed: int = 0,
) -> Task:
    """The stand-in for task `name` with its baselines, from the cache where it has been built before.

    Args:
        name: `text`, `retrieval` or `image`.
        shape: of the task that it stands in for.
        cache_dir: where encoded data is kept.
        max_length: of the longest text, or of each of two documents, in bytes; of an image in pixels.
        examples: size of each split; null for 20,000, 2,000 and 2,000.
        seed: of the draw. A split does not depend on the size of another.

    Raises:
        DataError: `max_length` leaves no room for what has to be far apart.
    """
    side = math.isqrt(max_length)
    if name == "image" and (side < SIDE or side % SIDE or side**2 != max_length):
        raise DataError(f"image: max_length={max_length}; a surrogate has {SIDE} x {SIDE} pixels or a multiple of both")
    if max_length < SHORTEST.get(name, 0):
        raise DataError(f"{name}: max_length={max_length}; a surrogate has {SHORTEST[name]} bytes or more")
    sizes = sizes_of(name, examples, FULL_SIZES)
    return cached(
        lambda report: _task(name, shape, sizes, max_length, seed, report),
        cache_dir=cache_dir,
        name=name,
        version=VERSION,
        source="surrogate",
        parameters={"max_length": max_length, "seed": seed, "examples": sizes},
    )


def _task(name: str, shape: Shape, sizes: Mapping[str, int], max_length: int, seed: int, report: Report) -> Task:
    splits = {}
    for number, split in enumerate(SPLITS):
        report(number, len(SPLITS))
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))
        splits[split] = DRAW[name](sizes[split], max_length, rng)
    task = task_of(
        splits, name=name, version=VERSION, source="surrogate", shape=shape, max_length=max_length, truncated=0
    )
    windows = baselines.windows(task.train, task.test, WINDOW)
    return replace(task, baselines=task.baselines | {f"windows_of_{WINDOW}": windows})


def _letters(count: int, shortest: int, longest: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Running letters, bytes [count, longest], and the length of each text."""
    return rng.choice(LETTERS, (count, longest)), rng.integers(shortest, longest + 1, count)


def _split(letters: np.ndarray, lengths: np.ndarray, labels: np.ndarray, paired: bool = False) -> Split:
    real = np.arange(letters.shape[1]) < lengths[:, None]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Split(letters[real].astype(np.uint16) + 1, offsets, labels.astype(np.uint8), paired)
