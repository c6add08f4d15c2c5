"""`python -m lra.profile model=transformer,local preset=mini`: speed and memory of several variants, side by side.

Measures what is not measured yet (see `lra.cells`), then prints every variant beside the Transformer, and beside the
ratios of the LRA paper's Table 2 where it has the length. `protocol=layer` times one mixer by itself. Options:
`threads=1` keeps everything to so many cores; `overhead=true` holds training against its bare step (`lra.overhead`).
"""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from lra import child, record
from lra.bench import plan_runs
from lra.cells import SpeedFile, measure_speed, measuring_place
from lra.config import Request, dump, parse
from lra.console import console, table
from lra.errors import BadInput
from lra.hardware import use_cores
from lra.lease import Lease
from lra.options import take
from lra.runs import Run, prepare, say
from lra.supervise import Supervisor
from lra.variants import ROOT
from tasks.errors import DataError

PAPER = ROOT / "results" / "reference" / "lra_speed_memory.csv"

Cells = Mapping[int, dict[str, Any]]  # by length, all of one mode, batch size and precision


def main(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    try:
        options, others = take(arguments, {"threads": int, "overhead": bool})
        request = parse(others)
        if options["threads"]:
            use_cores(options["threads"])
        runs = plan_runs(Request(request.variants, request.tasks[:1], request.presets, [0], request.overrides))
    except (BadInput, DataError) as problem:
        print(f"lra.profile: {problem}", file=sys.stderr)
        return 2
    supervisor = Supervisor()
    if options["overhead"]:
        statuses, tables = measure_overhead(runs, supervisor)
    else:
        statuses, tables = measure_speed(runs, supervisor), []
    if supervisor.interrupted:
        print("lra.profile: interrupted; the same command goes on from here", file=sys.stderr)
        return 75
    for each in tables or [comparison(runs, mode.value) for mode in runs[0].config.speed.modes]:
        console().print(each)
    return 0 if all(status == "complete" for status in statuses) else 3


def measure_overhead(runs: Sequence[Run], supervisor: Supervisor) -> tuple[list[str], list[Table]]:
    """Throughput of the runner's training loop over that of its bare step; the statuses, and a table."""
    title = "Training held against its bare step: the runner's loop, evaluation and checkpoints excluded"
    figures = ("batch", "ms a step, loop", "ms a step, bare", "throughput over bare")
    found, statuses = table(title, ("variant", "task"), figures), []
    place = measuring_place(runs[0])
    with Lease(place, say, supervisor.abandon, stopped=lambda: supervisor.interrupted) as lease:
        for run in runs:
            folder = prepare(place / "overhead", {"config": dump(run.config)})
            minutes = run.config.limits.train_minutes
            outcome = supervisor.run_child("lra.overhead", folder, minutes=minutes, started=lease.include)
            statuses.append(outcome.status)
            if outcome.status != "complete":
                say(f"{run.title}: {outcome.status}: {outcome.error}")
                continue
            took = record.read_json(folder / child.RESULT_FILE) or {}
            milliseconds = (f"{1000 * took[key]:.1f}" for key in ("loop_seconds", "bare_seconds"))
            ratio = f"{took['throughput_over_bare']:.3f}"
            found.add_row(run.label, run.task_name, str(took["batch_size"]), *milliseconds, ratio)
    return statuses, [found]


def comparison(runs: Sequence[Run], mode: str) -> Table:
    """Every variant at every length, with ratios to the Transformer where that is among them."""
    speed, protocol = runs[0].config.speed, runs[0].config.protocol
    figures = ("length", "ms a step", "drift", "speed x", "paper x", "MiB", "memory x", "GFLOP", "growth")
    what = "one layer by itself, " if protocol == "layer" else ""
    comparisons = table(f"{what}{mode}, batch {speed.batch_size}, {speed.precision.value}", ("variant",), figures)
    files = {run.label: (run, SpeedFile(run)) for run in runs}
    measured: dict[str, Cells] = {
        label: {length: file.at(mode, length) for length in speed.lengths} for label, (_, file) in files.items()
    }
    paper = paper_ratios() if (mode, protocol) == ("train", "text") else {}
    for label, (run, _) in files.items():
        for length, cell in measured[label].items():
            if cell["status"] != "complete":
                comparisons.add_row(label, f"{length:,}", cell["status"])
                continue
            reference = measured.get("transformer", {}).get(length, {"status": None})
            multiples = [""] * 2 if reference["status"] != "complete" else ratios(cell, reference)
            published = paper.get((run.variant, length))
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
                "" if length != max(speed.lengths) else growth(measured[label]),
            )
    return comparisons


def ratios(cell: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """Speed and temporary memory as multiples of the reference's."""
    speed = reference["step_seconds"]["median"] / cell["step_seconds"]["median"]
    memory = cell["temp_bytes"] / reference["temp_bytes"] if cell["temp_bytes"] and reference["temp_bytes"] else None
    return [f"{speed:.2f}", "" if memory is None else f"{memory:.2f}"]


def growth(cells: Cells) -> str:
    """The exponent of the step time between the two longest lengths."""
    longest = sorted(length for length, cell in cells.items() if cell["status"] == "complete")[-2:]
    if len(longest) < 2:
        return ""
    times = [cells[length]["step_seconds"]["median"] for length in longest]
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
