"""`python -m lra.status`: how far everything is that a bench or a sweep has planned; only reads files.

`model`, `task`, `preset`, `seed` (comma lists), `results` pick runs; `watch=true` stays and renews the table every
`every` seconds; `work_dir` is where the runs were told to work.
"""

import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from lra import record
from lra.console import console, table
from lra.errors import BadInput, unknown
from lra.lease import holder_of
from lra.runs import Run

JOB_FILE = "job.json"  # in a work folder, while a cluster has a job for it
STYLES = {
    "complete": "green",
    "running": "cyan",
    "queued": "",
    "interrupted": "yellow",
    "failed": "bold red",
    "out_of_memory": "bold red",
    "timed_out": "bold red",
    "diverged": "bold red",
    "missing": "dim",
}
COUNTED_ONLY = ("complete", "queued", "missing")  # the others have a line each
PICKED_BY = {"model": "variant", "task": "task", "preset": "preset", "seed": "seed"}
OPTIONS = {"work_dir": "", "watch": "false", "every": "5", "results": ""}


def note_plan(runs: Sequence[Run]) -> None:
    """Writes down what a command is about to do, for `lra.status`; the same command again overwrites it."""
    entries = []
    for run in runs:
        speed = run.config.speed
        entries.append(
            {
                "variant": run.variant,
                "label": run.label,
                "task": run.task_name,
                "preset": run.config.preset,
                "seed": run.config.seed,
                "steps": run.config.train.steps,
                "results": str(Path(run.config.results).absolute()),
                "score_file": str(run.score_file.absolute()),
                "work_folder": str(run.work_folder),
                "speed": {
                    "modes": [mode.value for mode in speed.modes],
                    "lengths": list(speed.lengths),
                    "batch_size": speed.batch_size,
                    "precision": speed.precision.value,
                },
            }
        )
    name = record.config_hash({"runs": [entry["score_file"] for entry in entries]})
    record.write_json(_plans(Path(runs[0].config.work_dir)) / f"{name}.json", {"runs": entries})


def planned(work_dir: Path) -> list[dict[str, Any]]:
    """Every run that a command has planned, once."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(_plans(work_dir).glob("*.json")):
        found |= {entry["score_file"]: entry for entry in (record.read_json(path) or {"runs": []})["runs"]}
    return list(found.values())


def _plans(work_dir: Path) -> Path:
    return work_dir.absolute() / "plans"


@dataclass(frozen=True)
class State:
    """How far one run is.

    Attributes:
        planned: the run, as in the plan.
        status: one of STYLES.
        detail: where it runs, or why it is not complete.
        share: of its steps, done.
        seconds: what it took, if it is complete.
    """

    planned: dict[str, Any]
    status: str
    detail: str = ""
    share: float = 0.0
    seconds: float | None = None


def state_of(run: dict[str, Any]) -> State:
    """How far one planned run is, from its files."""
    folder = Path(run["work_folder"])
    step = _last_step(folder)
    share, at = step / run["steps"], f"step {step:,} of {run['steps']:,}"
    if holder := holder_of(folder):
        where = f"on {holder['host']}, process {holder['processes'][0]['pid']}, {at}"
        return State(run, "running", where, share)
    try:
        score, job = record.read_json(Path(run["score_file"])) or {}, record.read_json(folder / JOB_FILE)
    except BadInput as problem:
        return State(run, "failed", str(problem), share)
    status = score.get("status")
    if status in record.FINISHED:
        return State(run, status, score["error"] or "", 1.0, score["wall_seconds"])
    if job is not None:
        return State(run, "queued", f"{job['launcher']} job {job['id']}", share)
    if status is not None:
        return State(run, status, score["error"] or "", share)
    return State(run, "interrupted", f"ended without a word after {at}", share) if step else State(run, "missing")


def _last_step(folder: Path) -> int:
    """The last step that a run has written about."""
    try:
        rows = (folder / record.HISTORY_FILE).read_text().splitlines()
        return json.loads(rows[-1])["step"] if rows else 0
    except (OSError, ValueError):
        return 0


def time_left(states: Sequence[State]) -> tuple[float, int]:
    """Seconds of training left at the pace of finished runs, and the number of runs whose pace nothing tells.

    A run is expected to take what its variant took on its task, or else what others took there. As many go on at a time
    as do now.
    """
    took: dict[tuple[str, ...], list[float]] = {}
    for state in states:
        if state.seconds is not None:
            for key in _paces(state):
                took.setdefault(key, []).append(state.seconds)
    left, unknown_pace = 0.0, 0
    for state in states:
        if state.status in record.FINISHED:
            continue
        pace = next((statistics.median(took[key]) for key in _paces(state) if key in took), None)
        unknown_pace += pace is None
        left += (pace or 0.0) * (1 - state.share)
    return left / max(1, sum(state.status == "running" for state in states)), unknown_pace


def _paces(state: State) -> list[tuple[str, ...]]:
    run = state.planned
    return [(run["preset"], run["task"], run["label"]), (run["preset"], run["task"])]


def report(runs: Sequence[dict[str, Any]]) -> tuple[Group, bool]:
    """What to print about these runs, and whether all of them are complete or diverged."""
    states = [state_of(run) for run in runs]
    count = Counter(state.status for state in states)
    totals = [f"{count[status]} {status.replace('_', ' ')}" for status in STYLES if count[status]]
    done = count["complete"] + count["diverged"] == len(states)
    parts: list[Any] = [_overview(states)]
    if any(state.status not in COUNTED_ONLY for state in states):
        parts.append(_details(states))
    parts.append(f"{len(states)} runs: {', '.join(totals)}.{'' if done else ' ' + _time_left(states)}")
    return Group(*parts), done


def _time_left(states: Sequence[State]) -> str:
    seconds, unknown_pace = time_left(states)
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    known = f"About {f'{hours} h ' if hours else ''}{minutes} min of training left"
    if not unknown_pace:
        return f"{known}."
    reason = f"nothing has finished yet that tells how long {unknown_pace} of them take"
    return f"{known}, and {reason}." if seconds else f"Time left: {reason}."


def _overview(states: Sequence[State]) -> Table:
    tasks = list(dict.fromkeys(state.planned["task"] for state in states))
    rows: dict[tuple[str, str, str], list[State]] = {}
    for state in states:
        run = state.planned
        rows.setdefault((run["results"], run["preset"], run["label"]), []).append(state)
    overview = table("Runs complete, task by task; cells measured", ("preset", "variant", *tasks, "speed"), ())
    for (results, preset, label), row in rows.items():
        cells = [_cell([state for state in row if state.planned["task"] == task]) for task in tasks]
        overview.add_row(preset, label, *cells, _measured(Path(results), preset, label, row[0].planned["speed"]))
    return overview


def _cell(states: Sequence[State]) -> str:
    count = Counter(state.status for state in states)
    if not states:
        return ""
    lines = [f"[{'green' if count['complete'] == len(states) else 'dim'}]{count['complete']} of {len(states)}[/]"]
    for status, style in STYLES.items():
        if count[status] and status not in ("complete", "missing"):
            text = f"{count[status]} {status.replace('_', ' ')}"
            lines.append(f"[{style}]{text}[/]" if style else text)
    return ", ".join(lines)


def _measured(results: Path, preset: str, label: str, speed: dict[str, Any]) -> str:
    """How many of a variant's speed cells are measured, on the hardware that has most of them."""
    wanted = len(speed["modes"]) * len(speed["lengths"])
    best = 0
    for path in results.glob(f"speed/*/{preset}/{label}.json"):
        cells = (record.read_json(path) or {"cells": []})["cells"]
        best = max(best, sum(_wanted(cell, speed) for cell in cells))
    return f"[{'green' if best == wanted else 'dim'}]{best} of {wanted}[/]"


def _wanted(cell: dict[str, Any], speed: dict[str, Any]) -> bool:
    same = all(cell[key] == speed[key] for key in ("batch_size", "precision"))
    return (
        same and cell["status"] == "complete" and cell["mode"] in speed["modes"] and cell["length"] in speed["lengths"]
    )


def _details(states: Iterable[State]) -> Table:
    details = table("Running, or not complete", ("variant", "task", "seed", "status", "where, or why"), ())
    for status, style in STYLES.items():
        for state in states:
            if state.status == status and status not in COUNTED_ONLY:
                run = state.planned
                name = f"[{style}]{status.replace('_', ' ')}[/]"
                details.add_row(run["label"], run["task"], str(run["seed"]), name, escape(state.detail))
    return details


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The options of a command line, and what picks runs; raises BadInput."""
    options, picked = dict(OPTIONS), {}
    options["work_dir"] = os.environ.get("LRA_WORK", ".work")
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key in PICKED_BY:
            picked[key] = value.split(",")
        elif key in options:
            options[key] = value
        else:
            raise unknown("key", key, [*PICKED_BY, *OPTIONS])
    if options["watch"] not in ("true", "false"):
        raise BadInput(f"watch={options['watch']}: give true or false")
    if not options["every"].isdecimal() or int(options["every"]) < 1:
        raise BadInput(f"every={options['every']}: give a whole number of seconds from 1 on")
    return options, {key: names for key, names in picked.items() if names != ["all"]}


def pick(runs: Iterable[dict[str, Any]], results: str, picked: dict[str, list[str]]) -> list[dict[str, Any]]:
    """The planned runs that were asked for."""
    return [
        run
        for run in runs
        if (not results or run["results"] == str(Path(results).absolute()))
        and all(str(run[PICKED_BY[key]]) in names for key, names in picked.items())
    ]


def main(arguments: Sequence[str]) -> int:
    """Prints the table, once or again and again; returns the exit code."""
    try:
        options, picked = parse(arguments)
        runs = pick(planned(Path(options["work_dir"])), options["results"], picked)
        if not runs:
            raise BadInput(f"no such run is planned in {options['work_dir']}; begin with make sweep or make bench")
        out = console()
        shown, done = report(runs)
        if options["watch"] == "false":
            out.print(shown)
            return 0
        with Live(shown, console=out, auto_refresh=False) as live:
            while not done:
                time.sleep(int(options["every"]))
                shown, done = report(runs)
                live.update(shown, refresh=True)
    except BadInput as problem:
        print(f"lra.status: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
