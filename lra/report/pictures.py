"""Which pictures there are, and what each is given. matplotlib is imported where something is drawn, not before."""

import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

from lra.errors import BadInput
from lra.report import growth, notes, published, style
from lra.report.rows import Comparison, Row, baselines, ranked

if typing.TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(rows: Sequence[Row], comparison: Comparison, *, paper: bool = False, log: bool = False) -> dict[str, bytes]:
    """Contents by file name of the pictures for which there are figures; raises BadInput if `paper` is impossible."""
    if paper and comparison.reference is None:
        raise BadInput("paper=true draws multiples of the Transformer's figures; there is no transformer in the chart")
    return bubbles(rows, comparison, paper=paper, log=log) | curves_and_map(rows, comparison)


def bubbles(rows: Sequence[Row], comparison: Comparison, *, paper: bool, log: bool) -> dict[str, bytes]:
    """The chart by file name, nothing without a point."""
    if not comparison.points:
        return {}
    from lra.report import canvas, chart

    about = notes.about_chart(comparison, rows)
    absent = [(row.label, reason) for row, reason in comparison.absent]
    if paper and comparison.condition:
        circles = published.bubbles(comparison.tasks, comparison.condition.length)
        about += notes.about_paper(circles, comparison)
        view = chart.relative(comparison, circles)
    else:
        view = chart.absolute(comparison)
    figure = chart.draw(view, about, absent, log=log)
    return {"chart.svg": canvas.svg(figure), "chart.png": canvas.png(figure)}


def curves_and_map(rows: Sequence[Row], comparison: Comparison) -> dict[str, bytes]:
    """All other pictures by file name, as far as there are figures for them."""
    from lra.report import canvas, curves

    figures = _against_length(rows, comparison)
    scored = [row for row in ranked(rows, comparison.tasks) if row.tasks]
    about = notes.about_scores(scored, comparison.preset)
    subtitle = f"preset {comparison.preset}"
    if scored:
        floor = {name: {task: max(found) for task, found in row.items()} for name, row in baselines(scored).items()}
        figures["heat_map"] = curves.heat_map(scored, floor, subtitle, about)
    if learning := curves.training(scored, subtitle, about):
        figures["training"] = learning
    return {f"{name}.svg": canvas.svg(figure) for name, figure in figures.items()}


def _against_length(rows: Sequence[Row], comparison: Comparison) -> dict[str, "Figure"]:
    """Step time and peak memory against length, under the chart's condition but for the length."""
    from lra.report import curves

    condition = comparison.condition
    if condition is None:
        return {}
    work = f"batch {condition.batch_size}, {condition.precision}  |  {condition.hardware}"
    subtitle = f"preset {comparison.preset}  |  {style.mode(condition.mode)}, {work}"
    about = [
        f"L^x: growth over the {growth.FITTED} longest lengths.",
        "Rings: where a variant overtakes the Transformer.",
    ]
    figures = {}
    if times := growth.step_time(rows, condition):
        heading = "Time of a step against length"
        figures["step_time"] = curves.against_length(times, heading, subtitle, style.seconds, about)
    memories, source = growth.peak_memory(rows, condition)
    if memories and source:
        about = [f"Memory {style.MEMORY[source]}.", *about]
        heading = "Peak memory against length"
        figures["memory"] = curves.against_length(memories, heading, subtitle, style.memory, about)
    return figures


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes each file in one go."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(folder / name)
