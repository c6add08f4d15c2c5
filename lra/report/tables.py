"""The figures under the chart: as text for a terminal, Markdown and LaTeX, as records for CSV and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from lra.report import growth, published, style
from lra.report.load import MEMORY_SOURCES
from lra.report.rows import FIVE, PATH_X, Comparison, Condition, Row, TaskScore, baselines, ranked, title

DASH = "\N{EN DASH}"
SIX = (*FIVE, PATH_X)
EXPENDABLE = ("Parameters", "Mean of 6", "Memory", "Retrieval", "Image", "Pathfinder")  # on a narrow terminal


@dataclass(frozen=True)
class Table:
    """Cells as they are printed; the first column is text, the others are aligned to the right."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)


def scores(rows: Sequence[Row], comparison: Comparison, notes: Sequence[str] = ()) -> Table:
    """Accuracy in percent per task, both averages of the literature, parameters, and the chart's speed and memory."""
    columns = ["Variant", *map(title, SIX), "Mean of 5", "Mean of 6", "Parameters", "Seq/s", "Memory"]
    points = {point.row.key: point for point in comparison.points}
    body = []
    for row in ranked(rows, comparison.tasks):
        point = points.get(row.key)
        body.append(
            [
                row.label,
                *(_accuracy(row.tasks.get(task)) for task in SIX),
                average(row, FIVE),
                average(row, SIX),
                _parameters(row),
                style.number(point.speed if point else None),
                style.memory(point.memory if point else None),
            ]
        )
    for name, by_task in baselines(rows).items():
        cells = [" or ".join(style.percent(accuracy) for accuracy in by_task.get(task, ())) or DASH for task in SIX]
        body.append([f"({name.replace('_', ' ')})", *cells, *[""] * 5])
    notes = [*notes]
    if any("!" in row[9] for row in body):
        notes.append("! parameters more than 10 % away from the Transformer's on some task, against the LRA rule.")
    if any("(" in cell for row in body for cell in row[1:7]):
        notes.append("In brackets: seeds without a score, which no mean contains.")
    if any("FAIL" in row[6] for row in body):
        notes.append("FAIL: not clear of chance on any seed; the mean of 6 counts it as 50.")
    return Table(f"Accuracy in percent, preset {comparison.preset}", columns, body, notes)


def intervals(rows: Sequence[Row], comparison: Comparison) -> Table:
    """95 % Wilson intervals, which hold the chance in the test split's choice of examples."""
    body = []
    for row in ranked(rows, comparison.tasks):
        seeds = {len(score.complete) for score in row.tasks.values() if score.complete}
        cells = [_interval(row.tasks[task].interval) if task in row.tasks else DASH for task in SIX]
        body.append([row.label, " or ".join(str(count) for count in sorted(seeds)) or DASH, *cells])
    note = "Wilson intervals of the mean over seeds, for the number of test examples. Deviations over seeds are above."
    return Table("95 % intervals, percent", ["Variant", "Seeds", *map(title, SIX)], body, [note])


def costs(rows: Sequence[Row], condition: Condition) -> Table | None:
    """Speed and memory per length as multiples of the Transformer's, with exponents and crossover; None without it."""
    times = {series.row.key: series for series in growth.step_time(rows, condition)}
    sizes, source = growth.peak_memory(rows, condition)
    memories = {series.row.key: series for series in sizes}
    reference = next((row for row in rows if row.is_reference), None)
    if reference is None or reference.key not in times:
        return None
    base, base_memory = times[reference.key], memories.get(reference.key, growth.Series(reference, (), ()))
    lengths = base.lengths
    columns = ["Variant", *(f"speed {length:,}" for length in lengths), "time exponent", "faster from"]
    columns += [*(f"memory {length:,}" for length in lengths), "memory exponent"]
    body = []
    for key in sorted(times, key=lambda key: -times[key].values[-1]):
        one, memory = times[key], memories.get(key, growth.Series(times[key].row, (), ()))
        crossing = growth.crossover(one, base) if one is not base else None
        body.append(
            [
                one.row.label,
                *(_ratio(base.at(length), one.at(length)) for length in lengths),
                style.fixed(one.exponent),
                str(crossing) if crossing else DASH,
                *(_ratio(memory.at(length), base_memory.at(length)) for length in lengths),
                style.fixed(memory.exponent),
            ]
        )
    notes = [
        f"On {condition.hardware}, batch {condition.batch_size}, {condition.precision}.",
        f"Exponents: slope of the log-log curve over the {growth.FITTED} longest lengths.",
        "Faster from: length from which a step is shorter than the Transformer's; ~ extrapolated with the exponents.",
    ]
    if source:
        notes.append(f"Memory: peak, {style.MEMORY[source]}.")
    return Table(f"Speed and memory in {style.mode(condition.mode)}, times the Transformer's", columns, body, notes)


def _accuracy(score: TaskScore | None) -> str:
    if score is None:
        return DASH
    if score.mean is None:
        return score.trouble
    text = "FAIL" if score.failed_path_x else style.percent(score.mean)
    if score.deviation is not None and not score.failed_path_x:
        text += f" \N{PLUS-MINUS SIGN} {style.percent(score.deviation)}"
    return text + score.mark + (f" ({score.trouble})" if score.trouble else "")


def average(row: Row, tasks: Sequence[str]) -> str:
    """Mean over `tasks` in percent, with its deviation and marks."""
    mean, deviation = row.mean(tasks), row.deviation(tasks)
    if mean is None:
        return DASH
    spread = f" \N{PLUS-MINUS SIGN} {style.percent(deviation)}" if deviation is not None else ""
    return style.percent(mean) + spread + row.marks(tasks)


def _interval(interval: tuple[float, float] | None) -> str:
    return f"{style.percent(interval[0])} to {style.percent(interval[1])}" if interval else DASH


def _parameters(row: Row) -> str:
    low, high = row.parameters
    if low is None or high is None:
        return DASH
    sign = "" if row.within_lra_rule in (True, None) else " !"
    return (f"{low:,}" if low == high else f"{low:,} to {high:,}") + sign


def _ratio(one: float | None, other: float | None) -> str:
    return f"{style.number(one / other)}x" if one and other else DASH


def records(rows: Sequence[Row], comparison: Comparison) -> list[dict[str, Any]]:
    """One flat record a row, numbers unrounded, None where something is missing. Accuracies in percent."""
    return [_record(row, comparison) for row in ranked(rows, comparison.tasks)]


def _record(row: Row, comparison: Comparison) -> dict[str, Any]:
    record: dict[str, Any] = {"variant": row.key, "family": row.family, "preset": comparison.preset}
    for task in SIX:
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
        "mean_of_6": _percent(row.mean(SIX)),
        "mean_of_6_deviation": _percent(row.deviation(SIX)),
        "parameters_low": low,
        "parameters_high": high,
        "within_lra_rule": row.within_lra_rule,
        "hardware": condition.hardware if condition else None,
        "mode": condition.mode if condition else None,
        "length": condition.length if condition else None,
        "batch_size": condition.batch_size if condition else None,
        "precision": condition.precision if condition else None,
        "sequences_per_second": point.speed if point else None,
        "peak_bytes": point.memory if point else None,
        "peak_bytes_source": comparison.memory_source if point and point.memory else None,
    }


def speed_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One flat record a measured cell, with its multiples of the Transformer's cell on the same hardware and work."""
    reference = next((row for row in rows if row.is_reference), None)
    found = []
    for row in rows:
        for hardware, cells in sorted(row.cells.items()):
            for cell in sorted(cells, key=lambda c: (c.mode, c.length, c.batch_size, c.precision)):
                like = Condition(hardware, cell.mode, cell.length, cell.batch_size, cell.precision)
                base = like.cell(reference) if reference else None
                speed, base_speed = cell.sequences_per_second, base.sequences_per_second if base else None
                record: dict[str, Any] = {
                    "variant": row.key,
                    "family": row.family,
                    "hardware": hardware,
                    "mode": cell.mode,
                    "length": cell.length,
                    "batch_size": cell.batch_size,
                    "precision": cell.precision,
                    "status": cell.status,
                    "simulated": cell.simulated,
                    "step_seconds": cell.step_seconds,
                    "step_seconds_p10": cell.spread[0] if cell.spread else None,
                    "step_seconds_p90": cell.spread[1] if cell.spread else None,
                    "sequences_per_second": speed,
                    "speed_of_transformer": speed / base_speed if speed and base_speed and not cell.simulated else None,
                    "flops_per_step": cell.flops_per_step,
                    "drift": cell.drift,
                }
                for source in MEMORY_SOURCES:
                    own, other = cell.peak_bytes.get(source), base.peak_bytes.get(source) if base else None
                    record[f"peak_bytes_{source}"] = own
                    record[f"{source}_memory_of_transformer"] = own / other if own and other else None
                found.append(record)
    return found


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 6)


def as_json(rows: Sequence[Row], comparison: Comparison) -> str:
    """Everything the tables show, unrounded, and why rows are missing from the chart."""
    content = {
        "preset": comparison.preset,
        "tasks_of_the_chart": comparison.tasks,
        "scores": records(rows, comparison),
        "baselines": {
            name: {task: [_percent(accuracy) for accuracy in found] for task, found in by_task.items()}
            for name, by_task in baselines(rows).items()
        },
        "speed": speed_records(rows),
        "growth": _growth(rows, comparison.condition) if comparison.condition else [],
        "published": [asdict(line) for line in published.scores()],
        "not_in_the_chart": {row.key: reason for row, reason in comparison.absent},
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _growth(rows: Sequence[Row], condition: Condition) -> list[dict[str, Any]]:
    """Exponents and crossovers of the rows that were measured like `condition`, at any length."""
    times = {one.row.key: one for one in growth.step_time(rows, condition)}
    memories = {one.row.key: one for one in growth.peak_memory(rows, condition)[0]}
    base = next((one for one in times.values() if one.row.is_reference), None)
    found = []
    for key, one in times.items():
        crossing = growth.crossover(one, base) if base and one is not base else None
        record: dict[str, Any] = {"variant": key, "hardware": condition.hardware, "mode": condition.mode}
        found.append(
            record
            | {
                "time_exponent": one.exponent,
                "memory_exponent": memories[key].exponent if key in memories else None,
                "faster_from": crossing.length if crossing else None,
                "faster_from_is": crossing.kind if crossing else None,
            }
        )
    return found


def comma_separated(records: Sequence[dict[str, Any]]) -> str:
    """CSV with a header; a missing value is an empty field."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


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


LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: "\\" + sign for sign in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\N{EN DASH}": "--",
        "\N{PLUS-MINUS SIGN}": r"$\pm$",
        "\N{DAGGER}": r"$^\dagger$",
        "*": r"$^*$",
        "\N{LESS-THAN OR EQUAL TO}": r"$\le$",
    }
)


def latex(table: Table) -> str:
    """A table for \\usepackage{booktabs}."""
    lines = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in (table.columns, *table.rows)]
    notes = " ".join(table.notes).translate(LATEX)
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{table.title.translate(LATEX)}. {notes}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


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
