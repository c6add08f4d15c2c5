"""Tables of published figures beside ours."""

from collections.abc import Sequence
from dataclasses import replace

from lra.report import published, style
from lra.report.formats import DASH, Table
from lra.report.load import Cell
from lra.report.rows import FIVE, SIX, Comparison, Condition, Row, shared_memory_source, title
from lra.report.tables import average

CAUTION = "Printed by others, not measured here; see results/reference/README.md for the cautions that go with them."


def accuracy(rows: Sequence[Row], comparison: Comparison) -> Table:
    """Published accuracy in percent beside ours, with the confidence of each figure."""
    ours = {row.key: row for row in rows}
    columns = ["Model", "Setting", *map(title, SIX), "Mean", "of", "Ours, mean of 5", "Confidence", "Source"]
    body = []
    for line in published.scores():
        own = ours.get(line.variant or "")
        cells = [line.scores.get(task, DASH) for task in SIX]
        mean = average(own, FIVE) if own else DASH
        tail = [line.average, line.average_tasks, mean, line.confidence, line.source]
        body.append([line.model, line.setting, *cells, *tail])
    notes = [CAUTION, f"Ours: preset {comparison.preset}."]
    return Table("Published figures, percent", columns, body, notes)


def costs(rows: Sequence[Row], condition: Condition) -> Table | None:
    """Published speed and memory beside ours, each times its own Transformer's; None without our Transformer.

    Only lengths that both have; the paper's 1K to 4K are taken as 1,024 to 4,096 tokens.
    """
    reference = next((row for row in rows if row.is_reference), None)
    lengths = [length for length in published.LENGTHS if reference and _cell(reference, condition, length)]
    if reference is None or not lengths:
        return None
    columns = ["Model"]
    ours = {row.key: row for row in rows}
    for length in lengths:
        columns += [f"{what} {length:,}{whose}" for what in ("speed", "memory") for whose in ("", ", ours")]
    source = shared_memory_source(
        [cell for row in rows for length in lengths if (cell := _cell(row, condition, length))]
    )
    body = []
    for model, (by_length, note) in published.costs().items():
        own = ours.get(published.VARIANTS[model][0])
        cells = []
        for length in lengths:
            mine = _ratios(own, reference, condition, length, source) if own else (None, None)
            cells += [_times(value) for pair in zip(by_length[length], mine, strict=True) for value in pair]
        body.append([model, *cells, note])
    columns.append("Note")
    notes = [
        CAUTION,
        "Published: Tay et al. 2020, Table 2, training on 16 TPU v3 chips.",
        f"Ours: {style.mode(condition.mode)}, batch {condition.batch_size}, {condition.precision}, "
        f"{condition.hardware}{f'; peak memory {style.MEMORY[source]}' if source else ''}.",
    ]
    return Table("Published speed and memory, times the Transformer's", columns, body, notes)


def _cell(row: Row, condition: Condition, length: int) -> Cell | None:
    """The complete cell of a row under the condition but for the length."""
    cell = replace(condition, length=length).cell(row)
    return cell if cell and cell.sequences_per_second and not cell.simulated else None


def _ratios(
    own: Row, reference: Row, condition: Condition, length: int, source: str | None
) -> tuple[float | None, float | None]:
    """Speed and memory over the Transformer's."""
    cell, base = (_cell(row, condition, length) for row in (own, reference))
    if cell is None or base is None or not cell.sequences_per_second or not base.sequences_per_second:
        return None, None
    memory, base_memory = (each.peak_bytes.get(source or "") for each in (cell, base))
    return (
        cell.sequences_per_second / base.sequences_per_second,
        memory / base_memory if memory and base_memory else None,
    )


def _times(value: float | None) -> str:
    return f"{style.number(value)}x" if value else DASH
