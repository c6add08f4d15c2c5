"""The figures under the chart, as text for a terminal, Markdown and CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from lra.report import style
from lra.report.rows import FIVE, PATH_X, Comparison, Row, ranked, title

DASH = "\N{EN DASH}"
EXPENDABLE = (
    "Parameters",
    "Mean of 6",
    "Memory",
    "Retrieval",
    "Image",
    "Pathfinder",
)  # on a narrow terminal, in this order


@dataclass(frozen=True)
class Table:
    """Cells as they are printed; the first column is text, the others are aligned to the right."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)


def scores(rows: Sequence[Row], comparison: Comparison, notes: Sequence[str] = ()) -> Table:
    """Accuracy in percent per task, both averages of the literature, parameters, and the chart's speed and memory."""
    columns = ["Variant", *(title(task) for task in (*FIVE, PATH_X)), "Mean of 5", "Mean of 6"]
    columns += ["Parameters", "Seq/s", "Memory"]
    points = {point.row.key: point for point in comparison.points}
    body = []
    for row in ranked(rows, comparison.tasks):
        point = points.get(row.key)
        body.append(
            [
                row.label,
                *(_accuracy(row, task) for task in (*FIVE, PATH_X)),
                style.percent(row.mean(FIVE)) + (row.marks(FIVE) if row.mean(FIVE) is not None else ""),
                style.percent(row.mean((*FIVE, PATH_X))),
                _parameters(row),
                style.number(point.speed if point else None),
                style.memory(point.memory if point else None),
            ]
        )
    body += [[f"({name.replace('_', ' ')})", *cells, *[""] * 5] for name, cells in _baselines(rows).items()]
    return Table(f"Accuracy in percent, preset {comparison.preset}", columns, body, list(notes))


def _accuracy(row: Row, task: str) -> str:
    score = row.tasks.get(task)
    if score is None:
        return DASH
    if score.mean is None:
        return score.trouble
    text = "FAIL" if score.failed_path_x else style.percent(score.mean)
    if score.deviation is not None and not score.failed_path_x:
        text += f" \N{PLUS-MINUS SIGN} {style.percent(score.deviation)}"
    return text + score.mark + (f" ({score.trouble})" if score.trouble else "")


def _parameters(row: Row) -> str:
    low, high = row.parameters
    if low is None or high is None:
        return DASH
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _baselines(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Accuracy of each baseline on each task; two figures where the data of two runs differ."""
    found: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for task, score in row.tasks.items():
            for run in score.runs:
                for name, accuracy in run.baselines.items():
                    found.setdefault(name, {}).setdefault(task, set()).add(style.percent(accuracy))
    return {
        name: [" or ".join(sorted(by_task.get(task, ()))) or DASH for task in (*FIVE, PATH_X)]
        for name, by_task in sorted(found.items())
    }


def records(rows: Sequence[Row], comparison: Comparison) -> list[dict[str, Any]]:
    """One flat record a row, numbers unrounded, None where something is missing. Accuracies in percent."""
    return [_record(row, comparison) for row in ranked(rows, comparison.tasks)]


def _record(row: Row, comparison: Comparison) -> dict[str, Any]:
    record: dict[str, Any] = {"variant": row.key, "family": row.family, "preset": comparison.preset}
    for task in (*FIVE, PATH_X):
        score = row.tasks.get(task)
        interval = score.interval if score else None
        record |= {
            f"{task}_mean": _percent(score.mean if score else None),
            f"{task}_deviation": _percent(score.deviation if score else None),
            f"{task}_low": _percent(interval[0] if interval else None),
            f"{task}_high": _percent(interval[1] if interval else None),
            f"{task}_seeds": len(score.complete) if score else 0,
            f"{task}_failed_runs": len(score.runs) - len(score.complete) if score else 0,
            f"{task}_source": " ".join(sorted({run.source for run in score.runs if run.source})) if score else None,
            f"{task}_config": score.config_hash if score else None,
        }
    path_x = row.tasks.get(PATH_X)
    point = next((point for point in comparison.points if point.row.key == row.key), None)
    condition = comparison.condition if point else None
    low, high = row.parameters
    return record | {
        "pathx_at_chance": path_x.failed_path_x if path_x and path_x.mean is not None else None,
        "mean_of_5": _percent(row.mean(FIVE)),
        "mean_of_5_deviation": _percent(row.deviation(FIVE)),
        "mean_of_6": _percent(row.mean((*FIVE, PATH_X))),
        "parameters_low": low,
        "parameters_high": high,
        "hardware": condition.hardware if condition else None,
        "mode": condition.mode if condition else None,
        "length": condition.length if condition else None,
        "batch_size": condition.batch_size if condition else None,
        "precision": condition.precision if condition else None,
        "sequences_per_second": point.speed if point else None,
        "peak_bytes": point.memory if point else None,
        "peak_bytes_source": comparison.memory_source if point and point.memory else None,
    }


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 6)


def markdown(table: Table) -> str:
    """A GitHub table, padded so that it also reads as plain text."""
    cells = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(3, *(len(row[index]) for row in cells)) for index in range(len(table.columns))]
    lines = [_line(row, widths) for row in cells]
    rule = ["-" * width if index == 0 else "-" * (width - 1) + ":" for index, width in enumerate(widths)]
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return "\n".join([f"## {table.title}", "", *lines, *("\n" + note for note in table.notes)]) + "\n"


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"


def comma_separated(records: Sequence[dict[str, Any]]) -> str:
    """CSV with a header; a missing value is an empty field."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def terminal(table: Table, width: int | None = None) -> RichTable:
    """The same table for a terminal `width` characters wide, without empty columns and those that do not fit."""
    kept = [index for index in range(len(table.columns)) if any(row[index] not in ("", DASH) for row in table.rows)]
    sizes = [2 + max(len(row[index]) for row in (table.columns, *table.rows)) for index in range(len(table.columns))]
    for name in EXPENDABLE:
        if width is not None and sum(sizes[index] for index in kept) > width:
            kept = [index for index in kept if table.columns[index] != name]
    drawn = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    drawn.caption, drawn.caption_justify = Text("\n".join(table.notes)), "left"
    for index in kept:
        drawn.add_column(table.columns[index], justify="left" if index == 0 else "right", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*(Text(row[index]) for index in kept))
    return drawn
