"""How Pathfinder contours ("snakes" of paddles) grow: many at once, each image on a canvas of its own.

Follows the generator behind Linsley et al., "Learning long-range spatial dependencies with horizontal gated recurrent
units" (https://arxiv.org/abs/1805.08315), quirks included, because a pair of contours that cannot be finished is thrown
away whole: what is rejected shapes what remains. The quirks are named where they occur.

A *canvas* holds how much each pixel of one image is occupied, from 0 to 255. Around the window lies a guard, all of it
occupied, so that positions can be flat integers into the stack of all canvases and nothing needs clipping. The original
clips instead; it comes to the same, since the window's own border is occupied and no new paddle can jump it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tasks.errors import DataError
from tasks.pathfinder_stamps import FULL, PaddleTable, direction, translate

TAKEN = 76  # a first paddle touches nothing that is occupied more than this (0.3)
CROWDED = 0.01  # no further distractor where less of the window is free
DEAD_END = 1e-4 * FULL  # the least total weight of the candidates
DRAWS = 3  # of one paddle before its snake is given up
DISTRACTOR_ATTEMPTS = 5  # before one distractor is left out
CIRCLE = direction(np.arange(360) * np.pi / 180)
EVEN = 1.0  # pixels by which distances between starts and ends may differ where markers must not tell the label
BATCH = 256  # pairs growing at once: enough to hide numpy's cost per call, few enough for the processor's cache


@dataclass(frozen=True)
class Window:
    """An image of `size` x `size` pixels in a canvas with `guard` more on each side; paddles keep off its `padding`."""

    size: int
    padding: int
    guard: int

    @property
    def stride(self) -> int:
        """Side of the canvas."""
        return self.size + 2 * self.guard

    @property
    def area(self) -> int:
        """Pixels of the canvas."""
        return self.stride**2

    def crop(self, canvas: np.ndarray) -> np.ndarray:
        """The view [..., size, size] of the image in canvases [..., stride, stride]."""
        inner = slice(self.guard, self.guard + self.size)
        return canvas[..., inner, inner]

    def blank(self) -> np.ndarray:
        """Occupancy, uint8 [stride, stride], of an image without any paddle."""
        canvas = np.full((self.stride, self.stride), FULL, np.uint8)
        self.crop(canvas)[self.padding : -self.padding, self.padding : -self.padding] = 0
        return canvas

    def flat(self, point: np.ndarray) -> np.ndarray:
        """Positions in one flattened canvas of the pixels (y, x) [..., 2]."""
        return (point + self.guard) @ (self.stride, 1)

    def point(self, flat: np.ndarray) -> np.ndarray:
        """The pixels (y, x) [..., 2] at positions in flattened canvases, whichever canvas they are in."""
        return np.stack(np.divmod(flat % self.area, self.stride), axis=-1) - self.guard

    def holds(self, point: np.ndarray) -> np.ndarray:
        """Whether the pixels (y, x) [..., 2] lie in the image."""
        return np.all((point >= 0) & (point < self.size), axis=-1)


class Snakes(NamedTuple):
    """The growing ends of some snakes, on canvases of their own; integer arrays [N].

    The paddle at `anchor` is the last one drawn. It occupies nothing yet, so that the next one may touch it.
    """

    start: np.ndarray  # where each snake's canvas starts in the stack of canvases
    pivot: np.ndarray  # position in the canvas from which the next pivot is aimed
    orientation: np.ndarray  # row of the paddle table
    anchor: np.ndarray  # position in the canvas where the last paddle starts: a first one's tail, any other's head

    def take(self, index: np.ndarray) -> "Snakes":
        """The snakes at `index`."""
        return Snakes(*(part[index] for part in self))


def occupy(canvas: np.ndarray, snakes: Snakes, table: PaddleTable) -> None:
    """Marks the last paddle of each snake as occupied in `canvas` [canvases, stride, stride]."""
    pixels = canvas.reshape(-1)
    at = (snakes.start + snakes.anchor)[:, None] + table.mask[snakes.orientation]
    pixels[at] = np.maximum(pixels.take(at), table.occupancy[snakes.orientation])


def extend(
    canvas: np.ndarray, snakes: Snakes, window: Window, table: PaddleTable, rng: np.random.Generator
) -> tuple[np.ndarray, Snakes]:
    """Adds one paddle to each of N snakes: which succeeded (bool [N]), and the new ends.

    A snake that grew has occupied its canvas with the paddle before. The ends of those that did not mean nothing.
    """
    pixels = canvas.reshape(-1)
    pivot = window.flat(translate(window.point(snakes.pivot), table.advance[snakes.orientation]))
    aim = snakes.start + pivot
    at = aim[:, None] + table.turn[snakes.orientation]
    occupied = pixels.take(at + table.clearance[0])
    for offset in table.clearance[1:]:
        np.maximum(occupied, pixels.take(at + offset), out=occupied)
    cumulative = (table.weight[snakes.orientation] * (FULL - occupied)).cumsum(axis=1)

    candidate = np.full(len(pivot), -1)
    undecided = np.flatnonzero(cumulative[:, -1] >= DEAD_END)
    for _ in range(DRAWS):
        level = rng.random(len(undecided)) * cumulative[undecided, -1]
        choice = (cumulative[undecided] > level[:, None]).argmax(axis=1)
        drawn = table.candidate[snakes.orientation[undecided], choice]
        body = (aim[undecided] + table.move[drawn])[:, None] + table.core[drawn]
        clear = (pixels.take(body) < table.limit[drawn]).all(axis=1)
        candidate[undecided[clear]] = drawn[clear]
        undecided = undecided[~clear]

    grown = candidate >= 0
    occupy(canvas, snakes.take(grown), table)
    return grown, Snakes(snakes.start, pivot, len(table.body) + candidate, pivot + table.move[candidate])


def _whole(rng: np.random.Generator, below: int, count: int) -> np.ndarray:
    """Uniform integers in [0, below), from `random`, whose stream numpy keeps from version to version."""
    return (rng.random(count) * below).astype(int)


class Pairs(NamedTuple):
    """N finished pairs of target snakes of T paddles, and the canvases they leave behind."""

    canvas: np.ndarray  # uint8 [N, stride, stride]
    anchor: np.ndarray  # [N, 2, T] where paddles start, positions in the pair's canvas
    orientation: np.ndarray  # [N, 2, T] rows of the paddle table


def seed_pairs(
    count: int, seed_distance: int, window: Window, table: PaddleTable, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """First paddles of `count` pairs: tails, the pixels (y, x) [count, 2, 2], and orientations [count, 2].

    What the first occupies lies `2 seed_distance` from the border. The second starts on a circle around the first one's
    tail and may cross it.

    Raises:
        DataError: if no first paddle fits.
    """
    low = 2 * seed_distance - table.low
    room = window.size - 2 * seed_distance - table.high - low
    fits = np.flatnonzero((room > 0).all(axis=1))
    if not len(fits):
        raise DataError(
            f"no paddle fits {2 * seed_distance} pixels from the border of a window of {window.size} pixels"
        )
    first = fits[_whole(rng, len(fits), count)]
    tail = low[first] + (rng.random((count, 2)) * room[first]).astype(int)
    other = np.rint(tail + seed_distance * CIRCLE[_whole(rng, len(CIRCLE), count)]).astype(int)
    degrees = np.stack([table.seedable[first], _whole(rng, len(table.body), count)], axis=1)
    return np.stack([tail, other], axis=1), degrees


def seed_pivot(tail: np.ndarray, degree: np.ndarray, table: PaddleTable) -> tuple[np.ndarray, np.ndarray]:
    """Heads and pivots, (y, x) [..., 2], of first paddles from `tail` on; a pivot lies `margin` behind the tail."""
    head = translate(tail, table.forward[degree])
    return head, translate(head, table.backward[degree])


def grow_pairs(
    count: int, paddles: int, seed_distance: int, window: Window, table: PaddleTable, rng: np.random.Generator
) -> Pairs:
    """Grows pairs of snakes, `paddles` long, until `count` are complete; one that gets stuck starts again from nothing.

    The snakes of a pair take turns. `BATCH` pairs grow side by side, and a new one takes the place of each that ends.
    A complete pair has always taken the same number of turns, so the order of completion favours none.
    """
    blank = window.blank()
    canvas = np.empty((BATCH, *blank.shape), np.uint8)
    rows = np.arange(BATCH)
    start = rows * window.area
    pivot, orientation, anchor = np.zeros((3, BATCH, 2, paddles), int)
    turn = np.zeros(BATCH, int)
    complete: list[Pairs] = []
    vacant = rows
    while sum(len(pairs.canvas) for pairs in complete) < count:
        tail, degree = seed_pairs(len(vacant), seed_distance, window, table, rng)
        canvas[vacant] = blank
        turn[vacant] = 0
        pivot[vacant, :, 0] = window.flat(seed_pivot(tail, degree, table)[1])
        orientation[vacant, :, 0], anchor[vacant, :, 0] = degree, window.flat(tail)

        last, snake = np.divmod(turn, 2)
        end, following = (rows, snake, last), (rows, snake, last + 1)
        grown, new = extend(canvas, Snakes(start, pivot[end], orientation[end], anchor[end]), window, table, rng)
        pivot[following], orientation[following], anchor[following] = new.pivot, new.orientation, new.anchor
        turn += 1
        finished = grown & (turn == 2 * (paddles - 1))
        if finished.any():
            complete.append(Pairs(canvas[finished], anchor[finished], orientation[finished]))
        vacant = np.flatnonzero(finished | ~grown)
    pairs = Pairs(*(np.concatenate(parts)[:count] for parts in zip(*complete, strict=True)))
    # Only the second snake's last paddle is added: the original forgets the first one's.
    last = np.arange(count) * window.area
    occupy(pairs.canvas, Snakes(last, last, pairs.orientation[:, 1, -1], pairs.anchor[:, 1, -1]), table)
    return pairs


def grow_even_pairs(
    count: int, paddles: int, seed_distance: int, window: Window, table: PaddleTable, rng: np.random.Generator
) -> Pairs:
    """Like `grow_pairs`, of which those are kept whose two ends lie equally far from either start, to a pixel."""
    kept: list[Pairs] = []
    while sum(len(pairs.canvas) for pairs in kept) < count:
        pairs = grow_pairs(BATCH, paddles, seed_distance, window, table, rng)
        start, end = (window.point(pairs.anchor[:, :, paddle]) for paddle in (0, -1))
        distance = np.linalg.norm(start[:, :, None] - end[:, None], axis=-1)
        even = np.flatnonzero((abs(distance[:, :, 0] - distance[:, :, 1]) <= EVEN).all(axis=1))
        kept.append(Pairs(*(part[even] for part in pairs)))
    return Pairs(*(np.concatenate(parts)[:count] for parts in zip(*kept, strict=True)))


def free_tails(taken: np.ndarray, body: np.ndarray, window: Window) -> np.ndarray:
    """The pixels, `y * size + x`, from which a first paddle's `body` meets nothing `taken` (bool [stride, stride])."""
    blocked = np.zeros((window.size, window.size), bool)
    for dy, dx in body + window.guard:
        blocked |= taken[dy : dy + window.size, dx : dx + window.size]
    return np.flatnonzero(~blocked)


def seed_distractors(
    canvas: np.ndarray, window: Window, table: PaddleTable, rng: np.random.Generator
) -> tuple[np.ndarray, Snakes]:
    """The first paddle of one distractor on each of N canvases: which found a place (bool [N]), and the snakes."""
    count = len(canvas)
    taken = np.zeros(canvas.shape, bool)  # nothing outside the window counts
    window.crop(taken)[:] = window.crop(canvas) > TAKEN
    degree, tail, pivot = np.zeros(count, int), np.zeros((count, 2), int), np.zeros((count, 2), int)
    placed = np.zeros(count, bool)
    undecided = np.flatnonzero(1 - window.crop(taken).mean(axis=(1, 2)) >= CROWDED)
    for _ in range(DRAWS):
        degree[undecided] = _whole(rng, len(table.body), len(undecided))
        undecided = undecided[np.isin(degree[undecided], table.seedable)]
        missed = []
        for row, level in zip(undecided, rng.random(len(undecided)), strict=True):
            free = free_tails(taken[row], table.body[degree[row]], window)
            if len(free):
                tail[row] = np.divmod(free[int(level * len(free))], window.size)
                head, pivot[row] = seed_pivot(tail[row], degree[row], table)
                placed[row] = window.holds(np.stack([head, pivot[row]])).all()
                missed += [] if placed[row] else [row]
        undecided = np.array(missed, int)
    return placed, Snakes(np.arange(count) * window.area, window.flat(pivot), degree, window.flat(tail))


class Distractors(NamedTuple):
    """N distractors of T paddles, each on another canvas."""

    row: np.ndarray  # [N] which canvas
    anchor: np.ndarray  # [N, T] where paddles start, positions in that canvas
    orientation: np.ndarray  # [N, T] rows of the paddle table


def grow_distractors(
    canvas: np.ndarray, count: int, paddles: int, window: Window, table: PaddleTable, rng: np.random.Generator
) -> list[Distractors]:
    """Grows up to `count` distractors, `paddles` long, on each canvas [N, stride, stride], which they then occupy.

    One that failed `DISTRACTOR_ATTEMPTS` times is left out.
    """
    tried, failures = np.zeros((2, len(canvas)), int)
    grown: list[Distractors] = []
    while (tried < count).any():
        rows = np.flatnonzero(tried < count)
        trial = canvas[rows]
        placed, snakes = seed_distractors(trial, window, table, rng)
        growing = np.flatnonzero(placed)
        trail = [snakes.take(growing)]
        for _ in range(paddles - 1):
            success, ends = extend(trial, trail[-1], window, table, rng)
            growing = growing[success]
            trail = [part.take(success) for part in [*trail, ends]]
        occupy(trial, trail[-1], table)
        canvas[rows[growing]] = trial[growing]
        anchor, orientation = (
            np.stack([getattr(p, name) for p in trail], axis=1) for name in ("anchor", "orientation")
        )
        grown.append(Distractors(rows[growing], anchor, orientation))

        failures[rows] += 1
        failures[rows[growing]] = 0
        tried[rows[growing]] += 1
        tried[failures == DISTRACTOR_ATTEMPTS] += 1
        failures[failures == DISTRACTOR_ATTEMPTS] = 0
    return grown
