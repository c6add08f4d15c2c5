"""Curves and heat map: nothing collides, nothing missing is invented."""

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from lra.report import canvas, curves, pictures
from lra.report.curves import spread
from lra.report.load import load
from lra.report.rows import Comparison, Row, compare_rows, join


def read(make) -> tuple[list[Row], Comparison]:
    rows = join(load(make.root), "mini")
    return rows, compare_rows(rows, "mini")


def drawn(monkeypatch, make) -> dict[str, Any]:
    """The figures that are drawn, by file name."""
    figures: dict[str, Any] = {}
    monkeypatch.setattr(canvas, "svg", lambda figure: figure)
    figures.update(pictures.curves_and_map(*read(make)))
    return figures


def texts_collide(figure: Any) -> list[tuple[str, str]]:
    renderer = figure.canvas.get_renderer()
    texts = [text for text in figure.texts if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in texts]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
    return [
        (texts[i].get_text(), texts[j].get_text())
        for i in range(len(boxes))
        for j in range(i)
        if boxes[i].overlaps(boxes[j])
    ]


def test_spread_keeps_the_gap_and_moves_no_further_than_it_must():
    assert spread(np.array([10.0, 50.0]), 8, 0, 100) == pytest.approx([10, 50])
    assert spread(np.array([50.0, 50.0, 50.0]), 8, 0, 100) == pytest.approx([42, 50, 58])
    assert spread(np.array([1.0, 2.0]), 8, 0, 100) == pytest.approx([0, 8])
    crowded = spread(np.sort(np.random.default_rng(0).uniform(0, 100, 32)), 8, 0, 100)
    assert np.diff(crowded).min() >= 100 / 31 - 1e-9
    assert (crowded.min(), crowded.max()) == (pytest.approx(0), pytest.approx(100))


@pytest.mark.parametrize("count", [4, 32])
def test_names_beside_the_curves_do_not_collide(make, monkeypatch, count):
    rng = np.random.default_rng(0)
    for index in range(count):
        name = (
            "transformer" if index == 0 else f"package.Variant{index}" + "WithANameTooLong" * (3 if index == 2 else 0)
        )
        make.score(name, accuracy=0.4)
        make.speed(name, [make.cell(rng.uniform(1, 1.1) * length / 1e4, length) for length in (256, 512, 1024)])
    figures = drawn(monkeypatch, make)
    assert set(figures) == {"step_time.svg", "memory.svg", "heat_map.svg", "training.svg"}
    for name in ("step_time.svg", "memory.svg", "training.svg"):
        assert texts_collide(figures[name]) == []
    figure = figures["step_time.svg"]
    figure.draw_without_rendering()
    axes = figure.axes[0]
    curves = [line for line in axes.lines if len(line.get_xdata()) == 3]
    ends = [axes.transData.transform((line.get_xdata()[-1], line.get_ydata()[-1])) for line in curves]
    lines = [item for item in figure.artists if isinstance(item, Line2D) and item.get_marker() == "None"]
    starts = [np.array(line.get_data())[:, 0] - [3, 0] for line in lines]
    assert np.sort(starts, 0) == pytest.approx(np.sort(ends, 0))
    assert sum("L^" in text.get_text() for text in figures["step_time.svg"].texts) >= count


def test_curves_show_what_was_measured_and_ring_the_crossover(make, monkeypatch):
    make.score("transformer")
    make.score("local")
    make.speed("transformer", [make.cell(n * n / 1e6, n) for n in (256, 1024, 4096)])
    make.speed("local", [make.cell(n / 1e3, n) for n in (256, 1024, 4096)])
    axes = drawn(monkeypatch, make)["step_time.svg"].axes[0]
    values = sorted(tuple(line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 3)
    assert values == [pytest.approx((0.065536, 1.048576, 16.777216)), pytest.approx((0.256, 1.024, 4.096))]
    (ring,) = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert ring.get_xdata()[0] == pytest.approx(1000, rel=0.01)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_heat_map_has_scores_baselines_and_reasons_for_gaps(make, monkeypatch):
    make.score("local", accuracy=0.4)
    make.score("local", "text", accuracy=0.7, data__source="surrogate")
    make.score("fnet", accuracy=0.3)
    make.score("s5", status="out_of_memory")
    axes = drawn(monkeypatch, make)["heat_map.svg"].axes[0]
    found = {tuple(text.get_position()): text.get_text() for text in axes.texts}
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == ["local", "fnet", "s5", "(bag of tokens)", "(majority)"]
    assert [found[0, row] for row in range(5)] == ["40.0", "30.0", "1 out of memory", "25.0", "20.0"]
    assert [found[1, row] for row in range(3)] == ["70.0\N{DAGGER}", "\N{EN DASH}", "\N{EN DASH}"]


def test_training_curves_come_from_the_history(make, monkeypatch):
    make.score("local", accuracy=0.45)
    make.score("local", seed=1, accuracy=0.9, history=[{"step": 5, "train_loss": 1.0}, {"step": "x"}, None])
    figure = drawn(monkeypatch, make)["training.svg"]
    grid, frame, curve = (item.get_segments() for item in figure.artists if isinstance(item, LineCollection))
    (top_left, bottom_left, bottom_right), (points,) = frame[0], [line for line in curve if len(line)]
    share = (points - bottom_left) / [bottom_right[0] - bottom_left[0], top_left[1] - bottom_left[1]]
    assert share[:, 0] == pytest.approx([1 / 3, 2 / 3, 1])  # of the training
    assert share[:, 1] == pytest.approx([1.5 / 33, 16.5 / 33, 31.5 / 33])  # 15, 30, 45 % and a margin of 1.5
    assert len(grid) > 2


def test_no_history_no_picture(make, monkeypatch):
    make.score("local", history=[])
    assert curves.training(read(make)[0], "", []) is None
    assert "training.svg" not in drawn(monkeypatch, make)
