"""One HTML page with the chart, its switches and the table: no network, no other file, all figures inside."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lra.report import notes, style
from lra.report.load import MEMORY_SOURCES, MODES, Cell, Results
from lra.report.rows import FIVE, SIX, Comparison, Row, TaskScore, join, title


def build(results: Results, comparison: Comparison, *, log: bool = False) -> str:
    """The page for every preset of `results`; it opens on what `comparison` shows."""
    folder = Path(__file__).parent
    data = json.dumps(payload(results, comparison, log=log), allow_nan=False, separators=(",", ":"))
    html = (folder / "page.html").read_text(encoding="utf-8")
    script = (folder / "page.js").read_text(encoding="utf-8")
    # "</script>" in a variant's name must not end the element
    return html.replace("SCRIPT", script, 1).replace("DATA", data.replace("<", "\\u003c"), 1)


def payload(results: Results, comparison: Comparison, *, log: bool) -> dict[str, Any]:
    """Everything that the page's script needs."""
    presets = {preset: join(results, preset) for preset in results.presets}
    rows = [row for found in presets.values() for row in found]
    present = {task for row in rows for task in row.tasks}
    tasks = [*(task for task in SIX if task in present), *sorted(present - {*SIX})]
    shared = comparison.tasks if len(comparison.tasks) > 1 and comparison.tasks != FIVE else None
    choices = {"five": FIVE, "six": SIX} | ({"shared": shared} if shared else {})
    return {
        "titles": {task: title(task) for task in tasks},
        "tasks": tasks,
        "choices": choices,
        "modes": {mode: style.mode(mode) for mode in MODES},
        "memory": [[source, style.MEMORY[source]] for source in MEMORY_SOURCES],
        "families": _families(rows),
        "presets": [
            {"name": preset, "notes": notes.about_scores(found, preset), "rows": [_row(row) for row in found]}
            for preset, found in presets.items()
        ],
        "start": _start(comparison, log=log),
    }


def _start(comparison: Comparison, *, log: bool) -> dict[str, Any]:
    condition = comparison.condition
    one = comparison.tasks[0] if comparison.tasks else FIVE[0]
    return {
        "preset": comparison.preset,
        "task": one if len(comparison.tasks) < 2 else "five" if comparison.tasks == FIVE else "shared",
        "mode": condition.mode if condition else MODES[0],
        "hardware": condition.hardware if condition else "",
        "work": f"{condition.length}/{condition.batch_size}/{condition.precision}" if condition else "",
        "seed": "all",
        "log": log,
    }


def _families(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    names = {row.family for row in rows}
    ordered = [*(name for name in style.FAMILIES if name in names), *sorted(names - set(style.FAMILIES))]
    return {name: dict(zip(("colour", "marker", "words"), style.family(name), strict=True)) for name in ordered}


def _row(row: Row) -> dict[str, Any]:
    return {
        "key": row.key,
        "label": row.label,
        "family": row.family,
        "reference": row.is_reference,
        "parameters": row.parameters,
        "within_lra_rule": row.within_lra_rule,
        "tasks": {task: _task(score) for task, score in row.tasks.items()},
        "cells": {hardware: [_cell(cell) for cell in cells] for hardware, cells in row.cells.items()},
    }


def _task(score: TaskScore) -> dict[str, Any]:
    return {
        "seeds": {str(seed): accuracy for seed, accuracy in score.complete.items()},
        "interval": score.interval,
        "failed": score.failed_path_x,
        "mark": score.mark,
        "trouble": score.trouble,
        "config": score.config_hash,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "mode": cell.mode,
        "length": cell.length,
        "batch_size": cell.batch_size,
        "precision": cell.precision,
        "status": cell.status,
        "simulated": cell.simulated,
        "sequences_per_second": cell.sequences_per_second,
        "step_seconds": cell.step_seconds,
        "spread": cell.spread,
        "peak_bytes": cell.peak_bytes,
    }
