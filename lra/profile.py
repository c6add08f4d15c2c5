"""`python -m lra.profile model=transformer,local preset=mini`: speed and memory of several variants, side by side.

Measures what is not measured yet (see `lra.cells`), then prints every variant beside the Transformer, and beside the
ratios of the LRA paper's Table 2 where it has the length.
"""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from lra.bench import plan_runs
from lra.cells import SpeedFile, measure_speed
from lra.config import Request, parse
from lra.console import console, table
from lra.errors import BadInput
from lra.runs import Run
from lra.supervise import Supervisor
from lra.variants import ROOT
from tasks.errors import DataError

PAPER = ROOT / "results" / "reference" / "lra_speed_memory.csv"

Cells = Mapping[tuple[str, int], dict[str, Any]]


def main(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    try:
        request = parse(arguments)
        runs = plan_runs(Request(request.variants, request.tasks[:1], request.presets, [0], request.overrides))
    except (BadInput, DataError) as problem:
        print(f"lra.profile: {problem}", file=sys.stderr)
        return 2
    supervisor = Supervisor()
    statuses = measure_speed(runs, supervisor)
    if supervisor.interrupted:
        print("lra.profile: interrupted; the same command goes on from here", file=sys.stderr)
        return 75
    for mode in runs[0].config.speed.modes:
        console().print(comparison(runs, mode.value))
    return 0 if all(status == "complete" for status in statuses) else 3


def comparison(runs: Sequence[Run], mode: str) -> Table:
    """Every variant at every length, with ratios to the Transformer where that is among them."""
    speed = runs[0].config.speed
    figures = ("length", "ms a step", "drift", "speed x", "paper x", "MiB", "memory x", "GFLOP", "growth")
    comparisons = table(f"{mode}, batch {speed.batch_size}, {speed.precision.value}", ("variant",), figures)
    files = {run.label: (run, SpeedFile(run).cells) for run in runs}
    base: Cells = files["transformer"][1] if "transformer" in files else {}
    paper = paper_ratios()
    for label, (run, cells) in files.items():
        for length in speed.lengths:
            cell = cells[mode, length]
            if cell["status"] != "complete":
                comparisons.add_row(label, f"{length:,}", cell["status"])
                continue
            reference = base.get((mode, length), {"status": None})
            multiples = [""] * 2 if reference["status"] != "complete" else ratios(cell, reference)
            published = paper.get((run.variant, length)) if mode == "train" else None
            comparisons.add_row(
                label,
                f"{length:,}",
                f"{1000 * cell['step_seconds']['median']:.1f}",
                "" if cell["drift"] is None else f"{100 * cell['drift']:+.0f} %",
                multiples[0],
                "" if published is None else f"{published:.1f}",
                "" if cell["temp_bytes"] is None else f"{cell['temp_bytes'] / 2**20:.0f}",
                multiples[1],
                f"{cell['flops_per_step'] / 1e9:.2f}",
                "" if length != max(speed.lengths) else growth(cells, mode, speed.lengths),
            )
    return comparisons


def ratios(cell: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """Speed and temporary memory as multiples of the reference's."""
    speed = reference["step_seconds"]["median"] / cell["step_seconds"]["median"]
    memory = cell["temp_bytes"] / reference["temp_bytes"] if cell["temp_bytes"] and reference["temp_bytes"] else None
    return [f"{speed:.2f}", "" if memory is None else f"{memory:.2f}"]


def growth(cells: Cells, mode: str, lengths: Sequence[int]) -> str:
    """The exponent of the step time between the two longest lengths."""
    longest = sorted(length for length in lengths if cells[mode, length]["status"] == "complete")[-2:]
    if len(longest) < 2:
        return ""
    times = [cells[mode, length]["step_seconds"]["median"] for length in longest]
    return f"{math.log(times[1] / times[0]) / math.log(longest[1] / longest[0]):.2f}"


def paper_ratios() -> dict[tuple[str, int], float]:
    """Speed as multiples of the Transformer's in the paper's Table 2, by our name of the variant and length."""
    names = {"Local Attention": "local", "Sinkhorn Transformer": "sinkhorn", "Linear Transformer": "linear_transformer"}
    with open(PAPER, newline="") as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    found = {}
    for model, row in rows.items():
        for thousands in (1, 2, 3, 4):
            key = f"steps_per_second_{thousands}k"
            if row[key]:
                name = names.get(model, model.lower())
                found[name, 1024 * thousands] = float(row[key]) / float(rows["Transformer"][key])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
