"""`python -m lra.soak kills=100`: kills training again and again, and holds its end against that of a run in peace.

Every variant trains a tiny ListOps twice. One run is left alone; the other is killed, half the times while a checkpoint
is being written, and started again until it is complete. Predictions, metrics, history and every array of the last
checkpoint must then be equal bit for bit. Options: `kills` (100, over all variants), `model` (all), `seed` (0).
Exit codes: 0 equal everywhere; 2 bad input; 3 a difference.
"""

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from lra import child
from lra.config import compose_run
from lra.errors import BadInput, unknown
from lra.record import HISTORY_FILE, PREDICTIONS_FILE, read_json
from lra.runs import Run, prepare
from lra.variants import canonical, variant_names

# A run so small that a whole attempt at it takes a second or two.
TINY = (
    "task.max_length=24",
    "task.min_length=3",
    "task.max_depth=3",
    "task.max_args=3",
    "task.examples.train=60",
    "task.examples.validation=20",
    "task.examples.test=30",
    "encoder.dim=16",
    "encoder.qkv_dim=16",
    "encoder.heads=2",
    "encoder.mlp_dim=16",
    "encoder.layers=1",
    "encoder.dropout=0.1",
    "train.batch_size=8",
    "train.warmup_steps=2",
    "limits.cores=null",
)
STEPS_A_KILL = 16  # more than a killed attempt gets through on most machines
LONGEST_DELAY = 0.2  # seconds from the moment that is waited for to the kill

# Attempts are forked from a server that has imported jax and orbax and has started no backend: an import costs seconds,
# a fork does not, and nothing of jax runs before the fork.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["lra.train"])


def main(arguments: Sequence[str]) -> int:
    """Soaks every variant; returns the exit code."""
    try:
        names, kills, seed = parse(arguments)
    except BadInput as problem:
        print(f"lra.soak: {problem}", file=sys.stderr)
        return 2
    draw, done, different = random.Random(seed), 0, []
    with tempfile.TemporaryDirectory(prefix="lra-soak-") as place:
        for number, name in enumerate(names):
            share = kills * (number + 1) // len(names) - kills * number // len(names)
            report = soak(name, share, draw, Path(place))
            print(report, flush=True)
            done += report.kills
            different += [name] if report.differences else []
    print(f"{done} kills, {len(names)} variants, {len(different)} different: {', '.join(different) or 'all are equal'}")
    return 3 if different or done < kills else 0


def parse(arguments: Sequence[str]) -> tuple[list[str], int, int]:
    """The variants, the number of kills and the seed of a command line; raises BadInput."""
    options = {"kills": "100", "model": "all", "seed": "0"}
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in options:
            raise unknown("option", key, options)
        options[key] = value
    for key in ("kills", "seed"):
        if not options[key].isdecimal():
            raise BadInput(f"{key}={options[key]}: a whole number is wanted")
    names = variant_names() if options["model"] == "all" else [canonical(name) for name in options["model"].split(",")]
    return names, int(options["kills"]), int(options["seed"])


class Report:
    """What became of one variant: kills made, and what differs at the end (nothing, if all is well)."""

    def __init__(self, name: str) -> None:
        self.name, self.kills, self.in_a_save = name, 0, 0
        self.differences: list[str] = []
        self.began = time.monotonic()

    def __str__(self) -> str:
        verdict = "; ".join(self.differences) or "equal"
        seconds = time.monotonic() - self.began
        return f"{self.name}: {self.kills} kills, {self.in_a_save} of them inside a save, {seconds:.0f} s: {verdict}"


def soak(name: str, kills: int, draw: random.Random, place: Path) -> Report:
    """Kills a tiny run of one variant `kills` times and compares its end with that of a run in peace."""
    report = Report(name)
    more = ["train.evaluate_every=2", f"train.steps={STEPS_A_KILL * (kills + 1)}", f"cache_dir={place / 'cache'}"]
    quiet, killed = (tiny_run(name, place / name / which, *more) for which in ("quiet", "killed"))
    compiled = place / "compiled"
    ends = [attempt(quiet, compiled)]
    for number in range(kills):
        process = start_attempt(killed, compiled)
        if not kill_at_a_moment(process, killed, draw, inside=number % 2 == 0):
            break
        report.kills += 1
    report.in_a_save = (killed.work_folder / "attempts.log").read_text().count("was never finished")
    ends.append(attempt(killed, compiled))
    report.differences = [f"ended with {end}" for end in ends if end != (0, {"status": "complete", "error": None})]
    report.differences = report.differences or differences(killed, quiet)
    return report


def tiny_run(variant: str, root: Path, *more: str) -> Run:
    """A tiny run that keeps its files below `root`."""
    places = [f"results={root / 'results'}", f"work_dir={root / 'work'}"]
    overrides = [f"model={variant}", "task=listops", "preset=mini", "seed=0", *TINY, *places, *more]
    return Run.of(overrides, compose_run(overrides))


def start_attempt(run: Run, compiled: Path, *hooks: Callable[[], None]) -> BaseProcess:
    """Starts one attempt at a run as the supervisor would; each hook is called in it before it begins.

    `compiled` keeps every compiled program for the next attempt.
    """
    prepare(run.work_folder, run.specification())
    (run.work_folder / child.OUTCOME_FILE).unlink(missing_ok=True)
    process = processes.Process(target=_attempt, args=(run.work_folder, compiled, hooks))
    process.start()
    return process


def attempt(run: Run, compiled: Path, *hooks: Callable[[], None]) -> tuple[int | None, dict[str, Any] | None]:
    """Makes one attempt; returns its exit code and outcome, None when it was killed."""
    process = start_attempt(run, compiled, *hooks)
    process.join()
    return process.exitcode, read_json(run.work_folder / child.OUTCOME_FILE)


def kill_at_a_moment(process: BaseProcess, run: Run, draw: random.Random, *, inside: bool) -> bool:
    """Kills an attempt when it has got further than the one before; returns whether it was still alive.

    `inside`: while a checkpoint is being written, at a random moment otherwise.
    """
    before = max(committed(run), default=0)
    while process.is_alive() and max(committed(run), default=0) == before:
        time.sleep(0.001)
    while inside and process.is_alive() and not _being_written(run):
        time.sleep(0.0005)
    time.sleep(draw.uniform(0, LONGEST_DELAY / 20 if inside else LONGEST_DELAY))
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def committed(run: Run) -> list[int]:
    """The steps of a run that are on the disk."""
    folder = run.work_folder / "checkpoints"
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdecimal())


def _being_written(run: Run) -> bool:
    return any((run.work_folder / "checkpoints").glob("*.orbax-checkpoint-tmp"))


def _attempt(folder: Path, compiled: Path, hooks: Sequence[Callable[[], None]]) -> None:
    from lra import train

    with open(folder / "attempts.log", "a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    keep = train.use_compile_cache
    train.use_compile_cache = lambda folder: keep(compiled)
    for hook in hooks:
        hook()
    sys.argv = ["lra.train", str(folder), str(os.getppid())]
    child.run(train.work, begin=train.find_devices)


def differences(run: Run, other: Run) -> list[str]:
    """What two finished runs disagree on: predictions, metrics, history, arrays of the last checkpoint."""
    found = []
    predictions, right = (np.load(each.work_folder / PREDICTIONS_FILE) for each in (run, other))
    found += [f"predictions, {name}" for name in right if not np.array_equal(predictions[name], right[name])]
    for name in (child.RESULT_FILE, HISTORY_FILE):
        if (run.work_folder / name).read_bytes() != (other.work_folder / name).read_bytes():
            found.append(name)
    arrays, expected = last_arrays(run), last_arrays(other)
    if arrays.keys() != expected.keys():
        return [*found, "names of the arrays"]
    return found + [name for name in arrays if not np.array_equal(arrays[name], expected[name])]


def last_arrays(run: Run) -> dict[str, np.ndarray]:
    """Every array of the last checkpoint of a run, by name."""
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(run.work_folder / "checkpoints", item_names=("arrays",)) as manager:
        step = max(committed(run))
        kept = manager.restore(step, args=ocp.args.Composite(arrays=ocp.args.StandardRestore())).arrays
    return {name: np.asarray(array) for name, array in kept.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
