"""The child that trains: `python -m lra.train <work folder> <parent>`. One run, from configuration to test accuracy."""

import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lra import child
from lra.build import build_classifier, parameter_facts
from lra.checkpoint import Checkpoints
from lra.config import BenchConfig
from lra.data_order import examples_at
from lra.devices import Devices, find_devices
from lra.evaluate import Evaluation, evaluate
from lra.hardware import keep_freed_memory
from lra.optimiser import build_optimiser
from lra.progress import TrainingProgress
from lra.record import HISTORY_FILE, PREDICTIONS_FILE, write_json, write_predictions
from lra.step import TrainState, make_predict, make_train_step, split_model
from tasks.task import Batch, Split, Task


class Diverged(Exception):
    """The loss is no longer finite."""


class Interrupted(Exception):
    """Somebody asked to stop; everything is saved."""


class Training:
    """A model in training: its state, the best parameters so far, its history, and its checkpoints.

    Args:
        config: the run.
        task: its data.
        folder: the run's work folder.
        belongs_to: what a checkpoint must agree with to be this run's.
        say: takes one line for the person who watches.
    """

    def __init__(
        self, config: BenchConfig, task: Task, folder: Path, belongs_to: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        self.config, self.task, self.folder = config, task, folder
        self.sizes = {"max_length": task.max_length, "precision": config.train.precision, **task.shape._asdict()}
        train = config.train
        self.devices = Devices(train.batch_size, train.accumulate)
        model = build_classifier(
            config.model, config.encoder, seed=config.seed, rematerialise=train.rematerialise, **self.sizes
        )
        graph, params, rest = split_model(model)
        optimiser = build_optimiser(train)
        noise = jax.random.fold_in(jax.random.key(config.seed), 1)
        step = make_train_step(graph, optimiser, noise, train.accumulate)
        whole = self.devices.whole
        self.train_step = jax.jit(step, donate_argnums=0, out_shardings=whole)
        self.predict = jax.jit(make_predict(graph), out_shardings=whole)
        self.state = self.devices.repeat(TrainState(params, rest, optimiser.init(params), jnp.zeros((), jnp.int32)))
        self.best = Best(-1.0, 0, *_on_host((params, rest)))
        self.history: list[dict[str, Any]] = []
        self.losses: list[float] = []  # of the steps since the last evaluation
        self.seconds = 0.0  # spent in earlier attempts
        self.checkpoints = Checkpoints(folder / "checkpoints", belongs_to, say)

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self.state.step)

    def resume(self) -> int:
        """Goes back to the newest usable checkpoint; returns its step, 0 without one."""
        like = self._arrays()
        found = self.devices.share(self.checkpoints.restore_latest(like) if self.devices.first else None, like)
        if found is not None:
            arrays, facts = found
            self.state = self.devices.repeat(arrays["state"])
            self.best = Best(facts["best_accuracy"], facts["best_step"], *arrays["best"])
            self.history, self.losses, self.seconds = facts["history"], facts["losses"], facts["seconds"]
        text = "".join(json.dumps(row) + "\n" for row in self.history)
        (self.folder / HISTORY_FILE).write_text(text)
        return self.step

    def run(self, progress: TrainingProgress, stop: Callable[[], bool] = lambda: False) -> None:
        """Trains to the last step or minute, evaluating and saving on the way; raises Diverged or Interrupted."""
        train = self.config.train
        started, before = time.monotonic(), self.seconds
        step, pending = self.step, None

        def asked_to_stop() -> bool:
            return self.devices.any(stop())

        while True:
            finished = step >= train.steps or self._out_of_time()
            due = step > 0 and (finished or step % train.evaluate_every == 0)
            stopped = asked_to_stop()
            if due or stopped:
                self._read_loss(pending, step)
                pending = None
            if due and not self._evaluated(step):
                self._evaluate(step, progress, asked_to_stop)
                self.save(step)
            if finished:
                break
            if stopped:
                self._interrupt(step)
            self.state, loss = self.train_step(self.state, self.devices.spread(self._batch(step)))
            self._read_loss(pending, step)  # of the step before: the device already works on this one
            step, pending = step + 1, loss
            self.seconds = before + time.monotonic() - started
            progress.step(step)
        self.checkpoints.wait()

    def test(self) -> Evaluation:
        """The best parameters' predictions on the test split: the only time that it is read."""
        return self._predict(self.best.params, self.best.rest, self.task.test)

    def save(self, step: int) -> None:
        """Starts to save everything that the rest of the run depends on."""
        facts = {
            "step": step,
            "best_accuracy": self.best.accuracy,
            "best_step": self.best.step,
            "history": self.history,
            "losses": self.losses,
            "seconds": self.seconds,
        }
        if self.devices.first:
            self.checkpoints.save(step, self._arrays(), facts)

    def _arrays(self) -> dict[str, Any]:
        return {"state": self.state, "best": (self.best.params, self.best.rest)}

    def _batch(self, step: int) -> Batch:
        split, size = self.task.train, self.config.train.batch_size
        examples = examples_at(step, batch_size=size, count=len(split), seed=self.config.seed)
        return split.batch(examples, self.task.max_length)

    def _read_loss(self, loss: Any, step: int) -> None:
        if loss is None:
            return
        self.losses.append(float(loss))
        if not math.isfinite(self.losses[-1]):
            raise Diverged(f"the loss of step {step:,} is {self.losses[-1]}")

    def _evaluated(self, step: int) -> bool:
        return bool(self.history) and self.history[-1]["step"] == step

    def _interrupt(self, step: int) -> None:
        self.save(step)
        self.checkpoints.wait()
        raise Interrupted(f"stopped after step {step:,} of {self.config.train.steps:,}; run again to go on")

    def _evaluate(self, step: int, progress: TrainingProgress, stop: Callable[[], bool]) -> None:
        def stop_between_batches(done: int) -> None:
            if stop():
                self._interrupt(step)  # not evaluated yet: that is what the next attempt begins with

        result = self._predict(self.state.params, self.state.rest, self.task.validation, stop_between_batches)
        if result.accuracy > self.best.accuracy:
            self.best = Best(result.accuracy, step, *_on_host((self.state.params, self.state.rest)))
        row = {
            "step": step,
            "train_loss": float(np.mean(self.losses)),
            "validation_accuracy": result.accuracy,
            "validation_loss": result.loss,
        }
        self.losses = []
        self.history.append(row)
        with open(self.folder / HISTORY_FILE, "a") as file:
            file.write(json.dumps(row) + "\n")
        progress.evaluated(step, row["train_loss"], result.accuracy)

    def _predict(
        self, params: Any, rest: Any, split: Split, report: Callable[[int], None] = lambda done: None
    ) -> Evaluation:
        size, length = self.config.train.batch_size, self.task.max_length

        def predict(batch: Batch) -> Any:
            return self.predict(params, rest, self.devices.spread(batch))

        return evaluate(predict, split, batch_size=size, max_length=length, report=report)

    def _out_of_time(self) -> bool:
        minutes = self.config.train.minutes
        return minutes is not None and self.devices.any(self.seconds > 60 * minutes)


class Best(NamedTuple):
    """The parameters with the best validation accuracy so far, on the host."""

    accuracy: float
    step: int
    params: Any
    rest: Any


def _on_host(tree: Any) -> Any:
    """A copy of a pytree as numpy arrays: the step gives its own buffers away."""
    return jax.tree.map(np.array, tree)


def metrics(training: Training, test: Evaluation) -> dict[str, Any]:
    """What the score file says of a finished run."""
    low, high = test.interval
    majority = training.task.baselines["majority"]
    return {
        "test_accuracy": test.accuracy,
        "interval": [low, high],
        "test_loss": test.loss,
        "validation_accuracy": training.best.accuracy,
        "best_step": training.best.step,
        "n_test": len(test.labels),
        "at_chance": low <= majority,
        "constant": test.constant,
    }


def work(folder: Path, specification: dict[str, Any]) -> tuple[str, str | None]:
    """Trains and tests one run and leaves result.json and predictions.npz in its work folder."""
    stop = child.Stop()
    config = child.load_config(specification["config"])
    use_compile_cache(Path(config.cache_dir).expanduser() / "compiled")
    keep_freed_memory()
    task = child.load_task(config.task)
    with TrainingProgress(specification["title"], config.train.steps, bar=specification["alone"]) as progress:
        belongs_to = {"run": specification["hash"], "data": task.fingerprint}
        training = Training(config, task, folder, belongs_to, progress.say)
        status, error = "complete", None
        try:
            if step := training.resume():
                progress.resumed(step)
            training.run(progress, stop)
        except (Diverged, Interrupted) as problem:
            status, error = type(problem).__name__.lower(), str(problem)
        finally:
            training.checkpoints.wait()  # a process that ends takes a save under way with it
    result: dict[str, Any] = {
        "parameters": parameter_facts(config.model, config.encoder, **training.sizes),
        "device": jax.devices()[0].device_kind,
        "history": training.history,
    }
    if status == "complete":
        test = training.test()
        result["metrics"] = metrics(training, test)
        write_predictions(folder / PREDICTIONS_FILE, test.labels, test.predictions)
    write_json(folder / child.RESULT_FILE, result)
    return status, error


def use_compile_cache(folder: Path) -> None:
    """Keeps compiled programs for the next attempt or run; speed cells do without, since they time compilation.

    However small: parameters are drawn by some thirty programs that most runs of a sweep have in common.
    """
    # One that can't be read, as when another run is just writing it, is compiled here too.
    warnings.filterwarnings("ignore", "Error reading persistent compilation cache")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


if __name__ == "__main__":
    child.run(work, begin=find_devices)
