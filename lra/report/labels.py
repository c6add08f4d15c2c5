"""Places labels beside circles so that no two collide.

Why not adjustText: importing it takes longer than drawing the chart (it pulls in pyplot and scipy), and it moves labels
until they nearly fit, without a promise that they do.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ANGLES = np.linspace(0, 2 * np.pi, 24, endpoint=False)
GAPS = np.array([1.5, 4, 8, 13, 19, 27, 38, 52, 70, 95, 130, 180, 250])
FORBIDDEN = 1e6  # off the axes, or on another label
MARGIN = 1.0  # points between two labels
SIGN, NEAR = 3.5, 6.0  # points: half a sign in the middle of a circle; a label this near belongs to its circle


def place(centres: Array, radii: Array, sizes: Array, bounds: Array, lines: Array | None = None) -> Array:
    """Lower left corners [N, 2] of N labels, in the unit of everything else here (points).

    Each label (`sizes` [N, 2]) lies inside `bounds` [x0, y0, x1, y1], on no other label and, where there is room,
    on no circle (`centres` [N, 2], `radii` [N]) and on no box of `lines` [M, 4]. The crowded ones choose first; then
    each may choose again, knowing the others.
    """
    count = len(centres)
    lines = np.zeros((0, 4)) if lines is None else lines
    distances = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    order = np.argsort(-np.exp(-distances / 40).sum(1), kind="stable")
    boxes = np.full((count, 4), np.nan)
    for _ in range(4):
        before = boxes.copy()
        for index in order:
            others = np.delete(boxes, index, 0)
            taken = others[~np.isnan(others[:, 0])]
            boxes[index] = _best(index, centres, radii, sizes[index], bounds, taken, lines)
        if np.array_equal(before, boxes, equal_nan=True):
            break
    return boxes[:, :2]


def leader(index: int, centres: Array, radii: Array, box: Array) -> tuple[Array, Array] | None:
    """The line from a circle's sign to its label's box [x0, y0, x1, y1]; None where nobody needs it.

    It is needed where the label is far from its circle, or about as near to another one. It starts at the sign and not
    at the edge, which in a heap lies on other circles.
    """
    gaps = (_distance(box[None], centres) - radii)[0]
    others = np.delete(gaps, index)
    if gaps[index] <= NEAR and not (others < max(gaps[index], 0) + 1).any():
        return None
    end = np.clip(centres[index], box[:2], box[2:])
    distance = float(np.linalg.norm(end - centres[index]))
    if distance <= SIGN:
        return None
    return centres[index] + (end - centres[index]) * SIGN / distance, end


def _best(index: int, centres: Array, radii: Array, size: Array, bounds: Array, taken: Array, lines: Array) -> Array:
    """The cheapest of many boxes around one circle."""
    centre, radius = centres[index], radii[index]
    gaps, angles = (grid.ravel() for grid in np.meshgrid(GAPS, ANGLES, indexing="ij"))
    direction = np.stack([np.cos(angles), np.sin(angles)], -1)
    middle = centre + (radius + gaps)[:, None] * direction + size / 2 * np.clip(1.5 * direction, -1, 1)
    boxes = np.concatenate([middle - size / 2, middle + size / 2], -1)

    cost = 1.2 * gaps + 1.5 * (1 - direction[:, 0]) + 0.5 * (1 - direction[:, 1])  # near, and to the right
    outside = np.maximum(bounds[:2] - boxes[:, :2], 0).sum(-1) + np.maximum(boxes[:, 2:] - bounds[2:], 0).sum(-1)
    cost += FORBIDDEN * (outside > 0) + 100 * outside
    cost += FORBIDDEN * _overlap(boxes, taken, MARGIN).sum(-1)
    depth = radii - _distance(boxes, centres)  # how far each circle reaches into the box, [candidates, N]
    cost += 4 * np.maximum(depth, 0).sum(-1) + 200 * (depth > radii - 4).sum(-1)  # worst: on a circle's middle
    cost += 2 * np.maximum(np.delete(depth, index, -1) + 5, 0).sum(
        -1
    )  # nor so near another that it seems to belong to it
    cost += 12 * _overlap(boxes, lines, 0.5).sum(-1)
    hopeful = np.argsort(cost, kind="stable")[:24]  # the last cost takes longest to find
    ends = np.clip(centre, boxes[hopeful, :2], boxes[hopeful, 2:])
    return boxes[hopeful[int(np.argmin(cost[hopeful] + 80 * _crossings(centre, ends, taken)))]]


def _overlap(boxes: Array, taken: Array, margin: float) -> NDArray[np.bool_]:
    """Whether each box [C, 4] and each taken one [M, 4] come closer than `margin`, [C, M]."""
    a, b = boxes[:, None], taken[None]
    return np.all((a[..., :2] < b[..., 2:] + margin) & (b[..., :2] < a[..., 2:] + margin), -1)


def _distance(boxes: Array, points: Array) -> Array:
    """Distance of each point [N, 2] from each box [C, 4], 0 inside, [C, N]."""
    nearest = np.clip(points[None], boxes[:, None, :2], boxes[:, None, 2:])
    return np.linalg.norm(nearest - points[None], axis=-1)


def _crossings(start: Array, ends: Array, taken: Array) -> Array:
    """How many taken boxes the line from `start` to each end passes through, [C]."""
    steps = np.linspace(0, 1, 12)[:, None, None]
    points = start + steps * (ends - start)  # [S, C, 2]
    inside = (points[:, :, None] > taken[None, None, :, :2]) & (points[:, :, None] < taken[None, None, :, 2:])
    return inside.all(-1).any(0).sum(-1).astype(np.float64)
