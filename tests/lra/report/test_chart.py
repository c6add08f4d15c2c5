"""The picture: what is drawn where, and that the same figures give the same bytes."""

import math
from typing import Any

import numpy as np
import pytest

from lra.report import chart, notes
from lra.report.load import load
from lra.report.rows import FIVE, Comparison, compare_rows, join


def four(make, **score) -> Comparison:
    for index, variant in enumerate(("transformer", "local", "bigbird", "linear_transformer")):
        make.score(variant, accuracy=0.3 + 0.02 * index, **score)
        make.speed(variant, [make.cell(0.4 / (index + 1), peak_bytes__compiled=4e8 / (index + 1))])
    return compare_rows(join(load(make.root), "mini"), "mini")


def circles(figure: Any) -> list[Any]:
    return [item for item in figure.axes[0].collections if item.get_sizes()[0] != 20 and item.get_facecolor().size]


def place(item: Any) -> tuple[float, float]:
    x, y = item.get_offsets()[0]
    return round(float(x), 6), round(float(y), 6)


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_position_is_speed_and_percent_and_area_is_memory(make):
    comparison = four(make)
    drawn = {place(item): item.get_sizes()[0] for item in circles(chart.draw(comparison))}
    assert set(drawn) == {(20.0, 30.0), (40.0, 32.0), (60.0, 34.0), (80.0, 36.0)}
    assert drawn[20, 30] / drawn[80, 36] == pytest.approx(4)


def test_family_is_colour_and_sign(make):
    figure = chart.draw(four(make))
    colours = {place(item): tuple(item.get_facecolor()[0]) for item in circles(figure)}
    assert len(set(colours.values())) == 3  # local and bigbird are both patterns
    assert {"dense", "patterns", "kernels"} <= set(words(figure))


@pytest.mark.parametrize("log", [False, True])
def test_circles_and_labels_stay_inside_the_axes(make, log):
    figure: Any = chart.draw(four(make), log=log)
    renderer = figure.canvas.get_renderer()
    frame = figure.axes[0].get_window_extent(renderer)
    for item in circles(figure):
        x, y = item.axes.transData.transform(item.get_offsets()[0])
        radius = math.sqrt(item.get_sizes()[0]) / 2
        assert frame.x0 < x - radius < x + radius < frame.x1
        assert frame.y0 < y - radius < y + radius < frame.y1
    for text in figure.texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("count", [1, 17, 32])
def test_no_two_texts_collide(make, count):
    rng = np.random.default_rng(count)
    for index in range(count):
        make.score(f"package.Variant{index}", accuracy=0.5 + 0.05 * rng.normal())
        cell = make.cell(rng.uniform(0.1, 0.4), peak_bytes__compiled=rng.uniform(1e8, 4e9))
        make.speed(f"package.Variant{index}", [cell])
    make.score("untimed")
    comparison = compare_rows(join(load(make.root), "mini"), "mini")
    figure: Any = chart.draw(comparison, notes.about_chart(comparison, []))
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.texts if text.get_text()]
    assert sum(text.get_text().startswith("Variant") for text in figure.texts) == count
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])


def test_the_title_says_which_tasks(make):
    assert "Accuracy on ListOps against speed" in words(chart.draw(four(make)))
    assert chart.score_name(FIVE) == "LRA score (mean accuracy of the five tasks)"
    assert chart.score_name(("listops", "text", "image")) == "Mean accuracy on ListOps, Text and Image"


def test_the_caption_says_what_a_reader_must_know(make):
    comparison = four(make, data__source="surrogate")
    make.score("longformer")
    make.speed("longformer", [make.cell(simulated=True)])
    comparison = compare_rows(join(load(make.root), "mini"), "mini")
    text = " ".join(words(chart.draw(comparison, notes.about_chart(comparison, []))))
    expected_words = (
        "preset mini|batch 8|length 1,024|toy-cpu|surrogate data: ListOps|not the LRA score|local\N{DAGGER}"
    )
    for expected in (expected_words + "|peak memory as planned by the compiler|longformer (simulated").split("|"):
        assert expected.lower() in text.lower()


def test_svg_is_byte_stable(make):
    comparison = four(make)
    first, second = (chart.svg(chart.draw(comparison)) for _ in range(2))
    assert first == second
    assert b"<dc:date>" not in first


def test_png_has_300_dots_per_inch(make):
    header = chart.png(chart.draw(four(make)))[:64]
    assert int.from_bytes(header[16:20], "big") == 2250  # 7.5 inches


def test_reference_lines_cross_at_the_transformer(make):
    figure: Any = chart.draw(four(make))
    ends = [line.get_xdata() if line.get_ydata()[0] == 0 else line.get_ydata() for line in figure.axes[0].lines]
    assert sorted(float(end[0]) for end in ends) == pytest.approx([20, 30])


def test_a_name_with_signs_is_drawn_as_it_is(make):
    make.score("a.$x_1$", accuracy=0.5)
    make.speed("a.$x_1$")
    figure = chart.draw(compare_rows(join(load(make.root), "mini"), "mini"))
    figure.draw_without_rendering()
    assert "$x_1$" in words(figure)
