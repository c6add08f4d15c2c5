"""The picture: what is drawn where, and that the same figures give the same bytes."""

from typing import Any

import numpy as np
import pytest

from lra.report import canvas, chart, notes, published
from lra.report.load import load
from lra.report.rows import FIVE, Comparison, compare_rows, join


def four(make, **score) -> Comparison:
    for index, variant in enumerate(("transformer", "local", "bigbird", "linear_transformer")):
        make.score(variant, accuracy=0.3 + 0.02 * index, **score)
        make.speed(variant, [make.cell(0.4 / (index + 1), peak_bytes__compiled=4e8 / (index + 1))])
    return compare_rows(join(load(make.root), "mini"), "mini")


def listed(comparison: Comparison) -> list[tuple[str, str]]:
    return [(row.label, reason) for row, reason in comparison.absent]


def circles(figure: Any) -> list[Any]:
    return [line for line in figure.axes[0].lines if line.get_marker() == "o" and line.get_markersize() != 4.5]


def place(item: Any) -> tuple[float, float]:
    (x,), (y,) = item.get_data()
    return round(float(x), 6), round(float(y), 6)


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_position_is_speed_and_percent_and_area_is_memory(make):
    comparison = four(make)
    drawn = {place(item): item.get_markersize() ** 2 for item in circles(chart.draw(chart.absolute(comparison)))}
    assert set(drawn) == {(20.0, 30.0), (40.0, 32.0), (60.0, 34.0), (80.0, 36.0)}
    assert drawn[20, 30] / drawn[80, 36] == pytest.approx(4)


def test_family_is_colour_and_sign(make):
    figure = chart.draw(chart.absolute(four(make)))
    colours = {place(item): item.get_markerfacecolor() for item in circles(figure)}
    assert len(set(colours.values())) == 3  # local and bigbird are both patterns
    assert {"dense", "patterns", "kernels"} <= set(words(figure))


@pytest.mark.parametrize("log", [False, True])
def test_circles_and_labels_stay_inside_the_axes(make, log):
    figure: Any = chart.draw(chart.absolute(four(make)), log=log)
    renderer = figure.canvas.get_renderer()
    frame = figure.axes[0].get_window_extent(renderer)
    for item in circles(figure):
        x, y = item.axes.transData.transform(place(item))
        radius = item.get_markersize() / 2
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
    figure: Any = chart.draw(chart.absolute(comparison), notes.about_chart(comparison, []), listed(comparison))
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.texts if text.get_text()]
    assert sum(text.get_text().startswith("Variant") for text in figure.texts) == count
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])


def test_the_title_says_which_tasks(make):
    assert "Accuracy on ListOps against speed" in words(chart.draw(chart.absolute(four(make))))
    assert chart.score_name(FIVE) == "LRA score (mean accuracy of the five tasks)"
    assert chart.score_name(("listops", "text", "image")) == "Mean accuracy on ListOps, Text and Image"


def test_the_caption_says_what_a_reader_must_know(make):
    comparison = four(make, data__source="surrogate")
    make.score("longformer")
    make.speed("longformer", [make.cell(simulated=True)])
    comparison = compare_rows(join(load(make.root), "mini"), "mini")
    text = " ".join(
        words(chart.draw(chart.absolute(comparison), notes.about_chart(comparison, []), listed(comparison)))
    )
    expected_words = (
        "preset mini|batch 8|length 1,024|toy-cpu|surrogate data: ListOps|not the LRA score|local\N{DAGGER}"
    )
    for expected in (
        expected_words + "|majority 20.0 %|peak memory as planned by the compiler|longformer (simulated"
    ).split("|"):
        assert expected.lower() in text.lower()


def test_svg_is_byte_stable(make):
    comparison = four(make)
    first, second = (canvas.svg(chart.draw(chart.absolute(comparison))) for _ in range(2))
    assert first == second
    assert b"<dc:date>" not in first


def test_png_has_300_dots_per_inch(make):
    header = canvas.png(chart.draw(chart.absolute(four(make))))[:64]
    assert int.from_bytes(header[16:20], "big") == 2250  # 7.5 inches


def test_reference_lines_cross_at_the_transformer(make):
    figure: Any = chart.draw(chart.absolute(four(make)))
    down, across = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert (down.get_xdata()[0], across.get_ydata()[0]) == pytest.approx((20, 30))


def test_a_name_with_signs_is_drawn_as_it_is(make):
    make.score("a.$x_1$", accuracy=0.5)
    make.speed("a.$x_1$")
    figure = chart.draw(chart.absolute(compare_rows(join(load(make.root), "mini"), "mini")))
    figure.draw_without_rendering()
    assert "$x_1$" in words(figure)


def test_pareto_front():
    x = np.array([1.0, 2.0, 3.0, 2.5, 3.0])
    y = np.array([9.0, 7.0, 5.0, 6.0, 4.0])
    assert list(chart.pareto_front(x, y)) == [0, 1, 3, 2]
    assert list(chart.pareto_front(x[:1], y[:1])) == [0]


def test_the_front_is_drawn_in_steps_that_promise_nothing_between(make):
    make.score("fast", accuracy=0.3)
    make.speed("fast", [make.cell(0.1)])
    make.score("good", accuracy=0.5)
    make.speed("good", [make.cell(0.2)])
    make.score("neither", accuracy=0.2)
    make.speed("neither", [make.cell(0.2)])
    figure: Any = chart.draw(chart.absolute(compare_rows(join(load(make.root), "mini"), "mini")))
    (front,) = [line for line in figure.axes[0].lines if line.get_drawstyle() != "default"]
    assert [tuple(point) for point in front.get_xydata()] == [(40, 50), (80, 30)]
    assert front.get_drawstyle() == "steps-pre"
    assert "Pareto" in " ".join(notes.about_chart(compare_rows(join(load(make.root), "mini"), "mini"), []))


def test_bars_are_the_deviation_over_seeds(make):
    for seed, accuracy in enumerate((0.3, 0.4, 0.5)):
        make.score("local", seed=seed, accuracy=accuracy)
    make.speed("local")
    comparison = compare_rows(join(load(make.root), "mini"), "mini")
    figure: Any = chart.draw(chart.absolute(comparison))
    (bar,) = figure.axes[0].containers
    assert bar.lines[2][0].get_segments()[0][:, 1] == pytest.approx([30, 50])
    assert "Pareto" not in " ".join(notes.about_chart(comparison, []))
    assert "over 3 seeds" in " ".join(notes.about_chart(comparison, []))


def test_relative_chart_has_hollow_paper_circles_and_ours_as_multiples(make):
    view = chart.relative(four(make), published.bubbles(("listops",), 1024))
    found = {bubble.label: bubble for bubble in view.bubbles}
    assert (found["bigbird"].x, found["bigbird"].y) == pytest.approx((3, 34 / 30))
    assert (found["bigbird"].size, found["bigbird"].hollow) == (pytest.approx(1 / 3), False)
    assert "Transformer (paper)" not in found
    paper = found["BigBird (paper)"]
    assert (paper.x, paper.y, paper.size) == pytest.approx((7.4 / 8.1, 36.05 / 36.37, 0.77 / 0.85))
    assert paper.hollow
    assert view.reference == (1.0, 1.0)
    axes: Any = chart.draw(view).axes[0]
    hollow = {tuple(item.get_offsets()[0]): item.get_sizes()[0] for item in axes.collections}
    filled = {place(item): item.get_markersize() ** 2 for item in circles(axes.figure)}
    ours = next(area for (x, y), area in filled.items() if x == pytest.approx(3))
    assert hollow[paper.x, paper.y] / ours == pytest.approx(0.77 / 0.85 / (1 / 3))  # one scale for both
