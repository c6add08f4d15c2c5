"""The table at the end of a bench: scores beside their baselines, speeds and memory."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from lra import record
from lra.runs import Run


def print_summary(runs: Sequence[Run]) -> None:
    """Prints what the result files of these runs say."""
    console = Console()
    found = [record.read_json(run.score_file) or {} for run in runs]
    complete = sum(score.get("status") == "complete" for score in found)
    console.print(_scores(runs))
    console.print(f"{complete} of {len(runs)} runs are complete.", highlight=False)
    console.print(_speeds(runs))
    folder = runs[0].config.results
    console.print(f"Files are in {folder}; draw them with: make plot", highlight=False)


def _scores(runs: Sequence[Run]) -> Table:
    table = Table(title=f"Test accuracy, preset {runs[0].config.preset} (percent)", title_justify="left")
    for name in ("variant", "task", "seed"):
        table.add_column(name)
    for name in ("accuracy", "95 % interval", "baselines", "parameters", "minutes"):
        table.add_column(name, justify="right")
    for run in runs:
        found = record.read_json(run.score_file)
        if found:
            table.add_row(run.label, run.task_name, str(run.config.seed), *_score_cells(found))
    return table


def _score_cells(found: dict[str, Any]) -> list[str]:
    baselines = ", ".join(
        f"{name.replace('_', ' ')} {100 * value:.1f}" for name, value in found["data"]["baselines"].items()
    )
    minutes = f"{found['wall_seconds'] / 60:.1f}"
    metrics, parameters = found["metrics"], found["parameters"]
    count = f"{parameters['count']:,}" if parameters else ""
    if not metrics:
        return [found["status"], "", baselines, count, minutes]
    chance = " at chance" if metrics["at_chance"] else ""
    low, high = metrics["interval"]
    return [
        f"{100 * metrics['test_accuracy']:.1f}{chance}",
        f"{100 * low:.1f} to {100 * high:.1f}",
        baselines,
        count,
        minutes,
    ]


def _speeds(runs: Sequence[Run]) -> Table:
    speed = runs[0].config.speed
    table = Table(title=f"Speed and memory, text of bytes, batch {speed.batch_size}", title_justify="left")
    for name in ("variant", "mode"):
        table.add_column(name)
    for name in ("length", "sequences/s", "ms a step", "GFLOP a step", "MiB compiled", "MiB process", "compile s"):
        table.add_column(name, justify="right")
    for path, run in {run.speed_file: run for run in runs}.items():
        for cell in (record.read_json(path) or {"cells": []})["cells"]:
            table.add_row(run.label, cell["mode"], f"{cell['length']:,}", *_speed_cells(cell))
    return table


def _speed_cells(cell: dict[str, Any]) -> list[str]:
    if cell["status"] != "complete":
        return [cell["status"], *[""] * 5]
    mebibytes = [cell["peak_bytes"][source] for source in ("compiled", "process")]
    return [
        f"{cell['sequences_per_second']:.1f}",
        f"{1000 * cell['step_seconds']['median']:.1f}",
        f"{cell['flops_per_step'] / 1e9:.2f}",
        *("" if size is None else f"{size / 2**20:.0f}" for size in mebibytes),
        f"{cell['compile_seconds']:.1f}",
    ]
