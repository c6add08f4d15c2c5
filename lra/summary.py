"""The table at the end of a bench: scores beside their baselines, speeds and memory."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from lra import record
from lra.console import console, table
from lra.runs import Run


def print_summary(runs: Sequence[Run]) -> None:
    """Prints what the result files of these runs say."""
    out = console()
    found = [record.read_json(run.score_file) or {} for run in runs]
    complete = sum(score.get("status") == "complete" for score in found)
    out.print(_scores(runs))
    out.print(f"{complete} of {len(runs)} runs are complete.\n")
    out.print(_speeds(runs))
    out.print(f"Files are in {runs[0].config.results}; draw them with: make plot")


def _scores(runs: Sequence[Run]) -> Table:
    figures = ("accuracy", "95 % interval", "baselines", "parameters", "minutes")
    scores = table(f"Test accuracy in percent, preset {runs[0].config.preset}", ("variant", "task", "seed"), figures)
    for run in runs:
        found = record.read_json(run.score_file)
        if found:
            scores.add_row(run.label, run.task_name, str(run.config.seed), *_score_cells(found))
    return scores


def _score_cells(found: dict[str, Any]) -> list[str]:
    baselines = "\n".join(
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
    figures = ("length", "sequences/s", "ms a step", "GFLOP a step", "MiB compiled", "MiB process", "compile s")
    work = {"text": "bytes of text", "layer": "one layer by itself"}[runs[0].config.protocol]
    speeds = table(f"Speed and memory on {work}, batch {speed.batch_size}", ("variant", "mode"), figures)
    for path, run in {run.speed_file: run for run in runs}.items():
        for cell in (record.read_json(path) or {"cells": []})["cells"]:
            speeds.add_row(run.label, cell["mode"], f"{cell['length']:,}", *_speed_cells(cell))
    return speeds


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
