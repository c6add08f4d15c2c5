"""A table as text for a terminal, as Markdown and as LaTeX; records as CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

DASH = "\N{EN DASH}"
EXPENDABLE = ("Parameters", "Mean of 6", "Memory", "Retrieval", "Image", "Pathfinder")  # on a narrow terminal


@dataclass(frozen=True)
class Table:
    """Cells as they are printed; the first column is text, the others are aligned to the right."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)


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
