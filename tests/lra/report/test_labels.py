"""No two labels collide, however crowded the chart."""

import numpy as np
import pytest

from lra.report import labels
from lra.report.labels import leader, place

BOUNDS = np.array([0.0, 0.0, 480.0, 330.0])


def overlaps(boxes: np.ndarray) -> int:
    a, b = boxes[:, None], boxes[None]
    hit = np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), -1)
    return int(np.triu(hit, 1).sum())


def boxes_for(centres: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sizes = np.stack([rng.uniform(20, 80, len(centres)), np.full(len(centres), 9.0)], -1)
    corners = place(centres, rng.uniform(3, 30, len(centres)), sizes, BOUNDS)
    return np.concatenate([corners, corners + sizes], -1)


@pytest.mark.parametrize("count", [1, 4, 17, 32])
@pytest.mark.parametrize("spread", [1.0, 0.3, 0.0])
def test_labels_never_collide_nor_leave_the_axes(count, spread):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        middle = BOUNDS[2:] * rng.uniform(0.1, 0.9, 2)
        centres = middle + spread * (rng.uniform(0, 1, (count, 2)) * BOUNDS[2:] - middle)
        boxes = boxes_for(centres, rng)
        assert overlaps(boxes) == 0
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, 2:] <= BOUNDS[2:]).all()


def test_a_lonely_label_lies_right_beside_its_circle():
    corner = place(np.array([[200.0, 100.0]]), np.array([10.0]), np.array([[40.0, 8.0]]), BOUNDS)[0]
    assert 210 < corner[0] < 215
    assert 92 < corner[1] < 102


def test_a_label_keeps_off_other_circles():
    centres, radii, sizes = (
        np.array([[200.0, 100.0], [228.0, 100.0]]),
        np.array([10.0, 12.0]),
        np.array([[30.0, 8.0]] * 2),
    )
    for corner in place(centres, radii, sizes, BOUNDS):
        nearest = np.clip(centres, corner, corner + np.array([30, 8]))
        assert (np.linalg.norm(nearest - centres, axis=-1) >= radii).all()


def test_a_label_keeps_off_lines():
    centre, radius, size = np.array([[200.0, 100.0]]), np.array([10.0]), np.array([[30.0, 8.0]])
    (x, y), *_ = place(centre, radius, size, BOUNDS)
    middle = y + 4
    ((_, moved),) = place(centre, radius, size, BOUNDS, np.array([[0.0, middle, 480.0, middle]]))
    assert not moved < middle < moved + 8
    assert x > 200


def test_a_leader_runs_from_the_sign_to_a_label_that_is_far_or_near_another_circle():
    label = np.array([20.0, -4.0, 60.0, 4.0])
    alone = np.array([[0.0, 0.0]])
    line = leader(0, alone, np.array([5.0]), label)
    assert line is not None
    assert np.concatenate(line) == pytest.approx([labels.SIGN, 0, 20, 0])
    assert leader(0, alone, np.array([16.0]), label) is None  # right beside it
    two = np.array([[0.0, 0.0], [40.0, 12.0]])
    assert leader(0, two, np.array([16.0, 5.0]), label) is not None  # and as near to the other
    assert leader(0, two, np.array([16.0, 2.0]), label) is None
    assert leader(0, alone, np.array([30.0]), label - [20, 0, 20, 0]) is None  # on the sign
