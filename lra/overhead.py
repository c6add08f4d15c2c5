"""The child that holds training against its bare step: `python -m lra.overhead <work folder> <parent>`.

The runner's own loop, with batches from the task and losses read, takes turns with the same compiled step on one batch;
evaluation and checkpoints stay out. The batch is made so large that a step takes 200 ms.
"""

import contextlib
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jax

from lra import child
from lra.config import BenchConfig
from lra.progress import TrainingProgress
from lra.record import write_json
from lra.train import Training
from tasks.task import Task

LONG_STEP = 0.2  # seconds that a step takes at least
ROUNDS, ROUND_SECONDS = 5, 3.0  # of the loop and of the bare step, by turns
NEVER = 10**9  # a step that is not reached


class Enough(Exception):
    """As many steps as were wanted are done."""


class Stopwatch(TrainingProgress):
    """Notes when each step is done and ends the loop after `steps` and one more."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.times: list[float] = []

    def step(self, done: int) -> None:
        """Called by the loop after every step."""
        self.times.append(time.perf_counter())
        if len(self.times) > self.steps:
            raise Enough


class Subject:
    """A run in training whose step can also be run by itself."""

    def __init__(self, config: BenchConfig, task: Task, folder: Path, batch_size: int) -> None:
        train = replace(config.train, steps=NEVER, evaluate_every=NEVER, minutes=None, batch_size=batch_size)
        self.training = cast(Any, Training(replace(config, train=train), task, folder, {}, lambda text: None))
        self.step, self.batch = self.training.train_step, None
        self.training.train_step = self._remember

    def _remember(self, state: Any, batch: Any) -> Any:
        self.batch = batch
        return self.step(state, batch)

    def loop_seconds(self, steps: int) -> float:
        """Seconds a step in the runner's loop, which reads a step's loss while the next one runs."""
        watch = Stopwatch(steps)
        with contextlib.suppress(Enough):
            self.training.run(watch)
        jax.block_until_ready(self.training.state)
        return (watch.times[-1] - watch.times[0]) / steps

    def bare_seconds(self, steps: int) -> float:
        """Seconds a step of the compiled step alone, each waited for, on the loop's last batch."""
        state, batch = self.training.state, jax.device_put(self.batch)
        started = time.perf_counter()
        for _ in range(steps):
            state, _ = jax.block_until_ready(self.step(state, batch))
        self.training.state = state
        return (time.perf_counter() - started) / steps


def long_enough(config: BenchConfig, task: Task, folder: Path) -> tuple[Subject, int, float]:
    """A run with batches large enough for a step of `LONG_STEP`; its batch size, its seconds a step."""
    batch_size = config.train.batch_size
    while True:
        subject = Subject(config, task, folder, batch_size)
        subject.loop_seconds(1)  # compiles
        seconds = min(subject.bare_seconds(1) for _ in range(3))
        if seconds >= LONG_STEP:
            return subject, batch_size, seconds
        batch_size *= math.ceil(1.1 * LONG_STEP / seconds)


def overhead(config: BenchConfig, task: Task, folder: Path) -> dict[str, Any]:
    """Seconds a step in the loop and alone, and the loop's throughput over the bare step's (medians over rounds)."""
    subject, batch_size, seconds = long_enough(config, task, folder)
    steps = max(2, round(ROUND_SECONDS / seconds))
    rounds = [(subject.loop_seconds(steps), subject.bare_seconds(steps)) for _ in range(ROUNDS)]
    return {
        "batch_size": batch_size,
        "loop_seconds": statistics.median(loop for loop, _ in rounds),
        "bare_seconds": statistics.median(bare for _, bare in rounds),
        "throughput_over_bare": statistics.median(bare / loop for loop, bare in rounds),
    }


def work(folder: Path, specification: dict[str, Any]) -> tuple[str, None]:
    """Measures one run and leaves result.json."""
    config = child.load_config(specification["config"])
    write_json(folder / child.RESULT_FILE, overhead(config, child.load_task(config.task), folder))
    return "complete", None


if __name__ == "__main__":
    child.run(work)
