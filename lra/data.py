"""`python -m lra.data task=text download=true`: finds, fetches if asked to, checks and encodes data, and describes it.

Options are those of lra.bench, and `download=true`, which fetches what is missing into the cache. Without a task: all
that the preset has; without a preset: `lra`, because the data of full-size tasks is what takes time.
Exit codes: 0 done; 2 bad input or data that could not be had; 75 interrupted, run again.
"""

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from lra.child import load_task
from lra.config import BenchConfig, compose_run, parse, tasks_of
from lra.data_order import examples_at
from lra.errors import BadInput
from tasks.archives import Found, NotFound
from tasks.cache import SPLITS
from tasks.download import KnownFile, difference, downloads, fetch
from tasks.errors import DataError
from tasks.task import Task

_GATHER_SECONDS = 0.3


@dataclass(frozen=True)
class Prepared:
    """A task's data, and how it was come by.

    Attributes:
        task: the data.
        found: the raw data, None where there is none, as for what is generated.
        check: how the raw file compares with the published one, or nothing.
        seconds: what loading took.
        built: whether it was encoded now; else it came from the cache.
    """

    task: Task
    found: Found | None
    check: str
    seconds: float
    built: bool


def main(arguments: Sequence[str]) -> int:
    """Prepares the data of every task that a command line names; returns the exit code."""
    problems: list[Exception] = []
    try:
        rest, download = _options(arguments)
        for overrides in parse(rest).runs():
            config = compose_run(overrides)
            try:
                show(prepare(config, download), config)
            except DataError as error:  # the other tasks' data is wanted all the same
                problems.append(error)
    except BadInput as error:
        problems.append(error)
    except KeyboardInterrupt:
        print("lra.data: interrupted; the same command goes on from here", file=sys.stderr)
        return 75
    for problem in problems:
        print(f"lra.data: {problem}", file=sys.stderr)
    return 2 if problems else 0


def _options(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments as lra.bench takes them, and whether missing files are fetched."""
    given = dict(text.partition("=")[::2] for text in arguments)
    download, preset = given.get("download", "false").lower(), given.get("preset", "lra")
    if download not in ("true", "false"):
        raise BadInput(f"download={download}: it is true or false")
    # Path-X takes hours to generate: it is prepared when it is named.
    tasks = ",".join(name for name in tasks_of(preset.split(",")[0]) if name != "pathx") or "listops"
    defaults = {"model": "transformer", "preset": preset, "task": tasks}
    rest = [text for text in arguments if not text.startswith("download=")]
    return rest + [f"{key}={value}" for key, value in defaults.items() if key not in given], download == "true"


def prepare(config: BenchConfig, download: bool = False) -> Prepared:
    """Loads a run's data, fetching what is missing if asked to; raises DataError."""
    module: Any = importlib.import_module(config.task["_target_"].rpartition(".")[0])
    files: Sequence[KnownFile] = getattr(module, "FILES", ())
    locate: Callable[..., Found | None] = getattr(module, "locate", lambda: None)
    where = {key: value for key, value in config.task.items() if key in inspect.signature(locate).parameters}
    try:
        found = locate(**where)
    except NotFound:
        if not (download and files):
            raise
        for file in files:
            fetch(file, downloads(config.cache_dir))
        found = locate(**where)
    entries = Path(config.cache_dir).expanduser() / module.__name__.rpartition(".")[2]
    before = set(entries.glob("*/task.json"))
    started = time.monotonic()
    task = load_task(config.task)
    seconds = time.monotonic() - started
    return Prepared(task, found, _check(found, files), seconds, set(entries.glob("*/task.json")) > before)


def _check(found: Found | None, files: Sequence[KnownFile]) -> str:
    known = [file for file in files if found is not None and file.name == found.path.name and file.sha256]
    if found is None or not known:
        return ""
    wrong = difference(known[0], found.path)
    return f"not the published file: {wrong}" if wrong else "the published file, by its sha256"


def show(prepared: Prepared, config: BenchConfig) -> None:
    """Prints what a task's data is."""
    task, console = prepared.task, Console()
    console.print(_table(task, config.preset))
    origin = f"from {prepared.found.kind} {prepared.found.path}" if prepared.found else f"{task.source} here"
    tokens = sum(len(getattr(task, name).tokens) for name in SPLITS)
    lines = [
        origin + (f" ({prepared.check})" if prepared.check else ""),
        f"{task.num_classes} classes; test accuracy of "
        + ", ".join(f"{name.replace('_', ' ')} {100 * value:.1f} %" for name, value in task.baselines.items()),
        f"{100 * task.truncated_fraction:.1f} % of the sequences are cut at {task.max_length:,} tokens",
        f"skipped files: {_some(task.skipped_files)}",
        f"encoded in {prepared.seconds:.1f} s, baselines included ({tokens / prepared.seconds / 1e6:.2f} M tokens/s)"
        if prepared.built
        else f"from the cache in {prepared.seconds:.2f} s",
        f"{batches_per_second(task, config.train.batch_size):,.0f} batches of {config.train.batch_size} a second",
        f"fingerprint {task.fingerprint}",
    ]
    for line in lines:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _table(task: Task, preset: str) -> Table:
    title = f"{task.name}, source {task.source}, preset {preset}"
    table = Table(title=title, title_justify="left")
    table.add_column("split")
    for name in ("examples", "shortest", "5 %", "median", "95 %", "longest"):
        table.add_column(name, justify="right")
    for name in SPLITS:
        split = getattr(task, name)
        quantiles = np.quantile(split.lengths, (0, 0.05, 0.5, 0.95, 1))
        table.add_row(name, f"{len(split):,}", *(f"{length:,.0f}" for length in quantiles))
    return table


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{len(names):,} ({', '.join(names[:most])}{more})" if names else "none"


def batches_per_second(task: Task, batch_size: int) -> float:
    """Batches that training could gather in a second if its steps took no time."""
    step, started = 0, time.monotonic()
    while (seconds := time.monotonic() - started) < _GATHER_SECONDS or not step:
        examples = examples_at(step, batch_size=batch_size, count=len(task.train), seed=0)
        task.train.batch(examples, task.max_length)
        step += 1
    return step / seconds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
