"""A run so small that a whole attempt at it takes a second, and processes in which attempts are made and killed.

Apart from the tests so that a forked attempt starts without them.
"""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from lra import child
from lra.config import compose_run
from lra.record import HISTORY_FILE, read_json
from lra.runs import Run, prepare

STEPS, EVERY, TEST_EXAMPLES = 12, 3, 30

SMALL = [
    "task.max_length=24",
    "task.min_length=3",
    "task.max_depth=3",
    "task.max_args=3",
    "task.examples.train=60",
    "task.examples.validation=20",
    f"task.examples.test={TEST_EXAMPLES}",
    "encoder.dim=16",
    "encoder.qkv_dim=16",
    "encoder.heads=2",
    "encoder.mlp_dim=16",
    "encoder.layers=1",
    f"train.steps={STEPS}",
    "train.batch_size=8",
    "train.warmup_steps=2",
    f"train.evaluate_every={EVERY}",
]
SMALL_CELLS = ["speed.lengths=[16]", "speed.batch_size=2", "speed.seconds=0.01", "speed.encoder.layers=1"]


def overrides(*more: str, variant: str = "transformer", seed: int = 0) -> list[str]:
    """The overrides of one tiny run."""
    return [f"model={variant}", "task=listops", "preset=mini", f"seed={seed}", *SMALL, *SMALL_CELLS, *more]


def places(root: Path, cache: Path) -> list[str]:
    """Overrides that keep a run's files below `root`, with encoded data shared in `cache`."""
    return [f"results={root / 'results'}", f"work_dir={root / 'work'}", f"cache_dir={cache}"]


def run_of(*more: str, **keywords: Any) -> Run:
    """One tiny run."""
    chosen = overrides(*more, **keywords)
    return Run.of(chosen, compose_run(chosen))


def history(folder: Path) -> list[dict[str, Any]]:
    """The rows that a run has written."""
    return [json.loads(line) for line in (folder / HISTORY_FILE).read_text().splitlines()]


def result(folder: Path) -> dict[str, Any]:
    """What a training child left for its supervisor."""
    found = read_json(folder / child.RESULT_FILE)
    assert found is not None, f"no result in {folder}"
    return found


# Attempts are forked from a server that has imported jax and orbax and has started no backend: an import costs seconds,
# a fork does not, and nothing of jax runs before the fork.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["lra.train", "tests.lra.tiny"])


def start_attempt(run: Run, compiled: Path, *hooks: Callable[..., None]) -> BaseProcess:
    """Starts one attempt at a run, as the supervisor would; each hook is called in it before it begins."""
    prepare(run.work_folder, run.specification())
    (run.work_folder / child.OUTCOME_FILE).unlink(missing_ok=True)
    process = context.Process(target=_attempt, args=(run.work_folder, compiled, hooks))
    process.start()
    return process


def attempt(run: Run, compiled: Path, *hooks: Callable[..., None]) -> tuple[int, dict[str, Any] | None]:
    """Makes one attempt; returns its exit code and outcome, None when it was killed."""
    process = start_attempt(run, compiled, *hooks)
    process.join()
    assert process.exitcode is not None
    return process.exitcode, read_json(run.work_folder / child.OUTCOME_FILE)


def _attempt(folder: Path, compiled: Path, hooks: Sequence[Callable[..., None]]) -> None:
    from lra import train

    with open(folder / "attempts.log", "a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    train.use_compile_cache = lambda folder: keep_all_programs(compiled)
    for hook in hooks:
        hook()
    sys.argv = ["lra.train", str(folder), str(os.getppid())]
    child.run(train.work)


def keep_all_programs(folder: Path) -> None:
    """Keeps compiled programs, however small, for the next process."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def kill() -> None:
    """Ends this process as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
