"""What Pathfinder images are drawn with: paddles and markers, drawn large and scaled down with a Lanczos filter.

A *paddle* is one dash of a contour. Its stamps depend on nothing but its angle, so they are drawn once and kept in
tables. Coordinates are (y, x) pixels; an angle of 0 points to the right and a positive one downwards. An `offset` is
flat, `dy * stride + dx`, to be added to a position in a flattened canvas that is `stride` pixels wide.

Shape key: C candidates for the end of the next paddle; O orientations, the 360 whole degrees of a first paddle and then
the C candidates; W the most candidates that a contour can turn to; P pixels of a stamp (short rows repeat their last).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from tasks.errors import DataError

DEGREES = np.arange(-180, 180)
FULL = 255  # occupancy is uint8
CLASH = 459  # two paddles collide where their occupancies add up to this; 1.8 in the original, which divides by 255


@dataclass(frozen=True)
class PaddleShape:
    """Everything that decides how paddles look and how a contour of them may bend; lengths in pixels.

    Attributes:
        length, thickness: of the dash.
        margin: clearance kept around it.
        continuity: how stiff a contour is: the next paddle turns by at most pi / (2 continuity).
        antialias: how many times larger it is drawn before it is scaled down.
    """

    length: int
    thickness: float
    margin: int
    continuity: float
    antialias: int = 2

    def __post_init__(self) -> None:
        width = self.thickness * self.antialias
        if width != round(width):
            raise DataError(
                f"a line {self.thickness} pixels thick is {width} thick {self.antialias} times enlarged: not whole"
            )

    @property
    def reach(self) -> int:
        """Half the side of a stamp, without its centre."""
        return self.length + math.ceil(self.thickness) + self.margin

    @property
    def guard(self) -> int:
        """Pixels around a window that no stamp and no candidate of a contour inside it leaves."""
        return self.length + 3 * self.margin + 3


@dataclass(frozen=True)
class PaddleTable:
    """Stamps and moves of one paddle shape in a canvas of one width (see the module's shape key).

    Attributes:
        forward, backward: [360, 2] real (y, x) steps from a first paddle's tail to its head, and from there to its
            pivot.
        body: for each whole degree the steps [P, 2] to the pixels that a first paddle needs free.
        seedable: [S] the whole degrees at which a first paddle may start.
        low, high: [S, 2] for those, the smallest and the largest (y, x) in `body`.
        advance: [O, 2] real step from a contour's pivot to its next one.
        clearance: offsets to the pixels within `margin` of another.
        candidate: [O, W] the candidates that an orientation can turn to, in the original's order.
        turn, weight: [O, W] their offsets from the pivot and their probability, unnormalised; weight 0 pads a row.
        move: [C] offset from the pivot to a candidate.
        core, limit: [C, P] offsets from a new paddle's head to the pixels that can collide, and the occupancy at which
            they do.
        mask, occupancy: [O, P] offsets from a paddle's start to the pixels that it occupies, and how much.
        line, ink: [O, P] the same for what is drawn.
    """

    forward: np.ndarray
    backward: np.ndarray
    body: list[np.ndarray]
    seedable: np.ndarray
    low: np.ndarray
    high: np.ndarray
    advance: np.ndarray
    clearance: np.ndarray
    candidate: np.ndarray
    turn: np.ndarray
    weight: np.ndarray
    move: np.ndarray
    core: np.ndarray
    limit: np.ndarray
    mask: np.ndarray
    occupancy: np.ndarray
    line: np.ndarray
    ink: np.ndarray


def direction(angles: Iterable[float]) -> np.ndarray:
    """Unit vectors (y, x) [N, 2] at N angles (radians), by the C library: numpy's depend on the processor."""
    return np.array([[math.sin(angle), math.cos(angle)] for angle in angles])


def translate(point: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The pixels (y, x) [..., 2] that a real-valued `step` leads to from `point`; both coordinates are rounded up.

    The sum is what gets rounded: near the upper and the left border sin(pi) counts as more than 0, and contours drift.
    The original does so, and a step can therefore not be tabulated without its starting point.
    """
    return np.ceil(point + step).astype(int)


def disc(radius: float) -> np.ndarray:
    """Bool [2r + 1, 2r + 1]: the pixels not farther than `radius` from the middle one."""
    extent = math.floor(radius)
    y, x = np.ogrid[-extent : extent + 1, -extent : extent + 1]
    return x * x + y * y <= radius * radius


def shrink(image: np.ndarray, size: int) -> np.ndarray:
    """Scales an image to [size, size] with Pillow's Lanczos filter: uint8 is clipped, float32 overshoots."""
    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.LANCZOS))


def paddle(shape: PaddleShape, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The dash from the centre at `angle` (radians), float32, and what it occupies, uint8; both 2 reach + 1 square."""
    centre = shape.reach * shape.antialias
    y, x = translate(np.array([centre, centre]), shape.length * shape.antialias * direction([angle])[0]).tolist()
    large = Image.new("F", (2 * centre + 1, 2 * centre + 1))
    ImageDraw.Draw(large).line([(centre, centre), (x, y)], fill=1.0, width=round(shape.thickness * shape.antialias))
    line = np.asarray(large)
    area = np.zeros(line.shape, np.uint8)
    around = disc(shape.margin * shape.antialias)
    extent = len(around) // 2
    for y, x in np.argwhere(line > 0):
        area[y - extent : y + extent + 1, x - extent : x + extent + 1][around] = FULL
    size = 2 * shape.reach + 1
    return shrink(line, size), shrink(area, size)


def marker(size: int, centre: np.ndarray, radius: float, antialias: int) -> np.ndarray:
    """A disc of `radius` around the pixel `centre` (y, x), float32 [size, size]."""
    y, x = np.ogrid[: size * antialias, : size * antialias]
    dy, dx = y - centre[0] * antialias, x - centre[1] * antialias
    return shrink((dx * dx + dy * dy <= (radius * antialias) ** 2).astype(np.float32), size)


def candidates(shape: PaddleShape) -> np.ndarray:
    """Steps from a pivot to where the next paddle can end: the distinct pixels [C, 2] of a circle, by y, then x."""
    radius = shape.length + shape.margin
    angle = np.arange(0, 360, 360 / (2 * math.pi * radius)) * math.pi / 180
    return np.unique(np.floor(radius * direction(angle)).astype(int), axis=0)


def turning_weights(continuity: float, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How much a contour at each angle `before` [N] favours each angle `after` [M], [N, M] (radians)."""
    difference = np.abs(after - before[:, None])
    turn = np.minimum(difference, 2 * math.pi - difference)
    return np.where(turn * continuity < math.pi / 2, np.cos(turn * continuity) ** 2, 0)


def _seed_body(shape: PaddleShape, occupied: np.ndarray) -> np.ndarray:
    """Steps [P, 2] from a first paddle's tail to what it fully occupies, as released a pixel too far down and right."""
    extent = shape.length + shape.margin
    steps = np.argwhere(occupied == FULL) - shape.reach + 1
    return steps[(np.abs(steps) <= extent).all(axis=1)]


def _seedable(body: np.ndarray) -> bool:
    """Whether a paddle can start a contour.

    The original looks for free places by dilating the image with the paddle's body. Where that lies wholly outside the
    image, OpenCV's dilation yields a huge negative number, which the original takes for a sign that nothing is free. So
    a body must reach into the image from all four corners; at 32 pixels, with their short paddles, 30 of 360 do.
    """
    return all((body * side >= 0).all(axis=1).any() for side in ((1, 1), (1, -1), (-1, 1), (-1, -1)))


def _aligned(rows: list[np.ndarray]) -> np.ndarray:
    """Stacks rows of different lengths; short ones repeat their last entry."""
    width = max(map(len, rows))
    return np.stack([np.pad(row, (0, width - len(row)), mode="edge") for row in rows])


def _pixels(stamps: list[np.ndarray], least: float, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets from the centre, and values, of the pixels that are `least` or more in square stamps."""
    reach = len(stamps[0]) // 2
    offsets = [(np.argwhere(stamp >= least) - reach) @ (stride, 1) for stamp in stamps]
    return _aligned(offsets), _aligned([stamp[stamp >= least] for stamp in stamps])


@lru_cache(maxsize=8)
def paddle_table(shape: PaddleShape, stride: int, every_direction: bool = False) -> PaddleTable:
    """Draws every stamp of `shape` and lays them out for a canvas `stride` pixels wide.

    With `every_direction` a first paddle may start at each degree, else only where the original lets it.
    """
    seeds = DEGREES * math.pi / 180
    ends = candidates(shape)
    ahead = np.array([math.atan2(y, x) for y, x in ends])
    back = np.where(ahead < 0, ahead + math.pi, ahead - math.pi)
    lines, areas = zip(*(paddle(shape, angle) for angle in [*seeds, *back]), strict=True)
    core, collider = _pixels(areas[len(seeds) :], CLASH - FULL, stride)
    mask, occupancy = _pixels(areas, 1, stride)
    line, ink = _pixels(lines, float(np.finfo(np.float32).tiny), stride)

    orientation = np.concatenate([seeds, ahead])
    weight = turning_weights(shape.continuity, orientation, ahead)
    choices = [np.flatnonzero(row) for row in weight]
    candidate = _aligned(choices)
    real = np.arange(candidate.shape[1]) < np.array([len(row) for row in choices])[:, None]
    move = ends @ (stride, 1)
    body = [_seed_body(shape, area) for area in areas[: len(seeds)]]
    seedable = np.flatnonzero([every_direction or _seedable(steps) for steps in body])
    return PaddleTable(
        forward=shape.length * direction(seeds),
        backward=(shape.length + shape.margin) * direction(np.where(seeds < 0, seeds + math.pi, seeds - math.pi)),
        body=body,
        seedable=seedable,
        low=np.array([body[degree].min(axis=0) for degree in seedable]),
        high=np.array([body[degree].max(axis=0) for degree in seedable]),
        advance=(shape.length + 2 * shape.margin) * direction(orientation),
        clearance=(np.argwhere(disc(shape.margin)) - shape.margin) @ (stride, 1),
        candidate=candidate,
        turn=move[candidate],
        weight=np.where(real, np.take_along_axis(weight, candidate, axis=1), 0).astype(np.float32),
        move=move,
        core=core,
        limit=(CLASH - collider.astype(int)).astype(np.uint8),
        mask=mask,
        occupancy=occupancy,
        line=line,
        ink=ink,
    )
