"""The child that trains: `python -m lra.train <work folder>`. One run, from its configuration to its test accuracy."""

import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lra import child
from lra.build import build_classifier, parameter_facts
from lra.config import BenchConfig
from lra.data_order import examples_at
from lra.evaluate import Evaluation, evaluate
from lra.optimiser import build_optimiser
from lra.progress import TrainingProgress
from lra.record import HISTORY_FILE, PREDICTIONS_FILE, write_json, write_predictions
from lra.step import TrainState, make_predict, make_train_step, split_model
from tasks.task import Task


class Diverged(Exception):
    """The loss is no longer finite."""


class Training:
    """A model in training: its state, the best parameters so far, and its history."""

    def __init__(self, config: BenchConfig, task: Task) -> None:
        self.config, self.task = config, task
        self.sizes: dict[str, Any] = {
            "max_length": task.max_length,
            "vocab_size": task.vocab_size,
            "num_classes": task.num_classes,
            "paired": task.paired,
            "precision": config.train.precision,
        }
        model = build_classifier(config.model, config.encoder, seed=config.seed, **self.sizes)
        graph, params, rest = split_model(model)
        optimiser = build_optimiser(config.train)
        noise = jax.random.fold_in(jax.random.key(config.seed), 1)
        self.train_step = jax.jit(make_train_step(graph, optimiser, noise), donate_argnums=0)
        self.predict = jax.jit(make_predict(graph))
        self.state = TrainState(params, rest, optimiser.init(params), jnp.zeros((), jnp.int32))
        self.best: dict[str, Any] = {"accuracy": -1.0, "step": 0, "params": None, "rest": None}
        self.history: list[dict[str, Any]] = []

    def run(self, folder: Path, progress: TrainingProgress) -> None:
        """Trains to the last step or minute, evaluating on the way; raises Diverged."""
        train = self.config.train
        started, step, losses = time.monotonic(), 0, []
        pending = None
        while step < train.steps and not self._out_of_time(started):
            self.state, loss = self.train_step(self.state, self._batch(step))
            step += 1
            if pending is not None:  # read only now, when the device already works on the next step
                losses.append(float(pending))
                self._require_finite(losses[-1], step - 1)
            pending = loss
            progress.step(step)
            if step % train.evaluate_every == 0 or step == train.steps or self._out_of_time(started):
                losses.append(float(pending))
                self._require_finite(losses[-1], step)
                pending = None
                self._evaluate(step, float(np.mean(losses)), folder, progress)
                losses = []

    def test(self) -> Evaluation:
        """The best parameters' predictions on the test split: the only time that it is read."""
        return self._predict(self.best["params"], self.best["rest"], "test")

    def _batch(self, step: int) -> Any:
        split = self.task.train
        size = self.config.train.batch_size
        examples = examples_at(step, batch_size=size, count=len(split), seed=self.config.seed)
        return split.batch(examples, self.task.max_length)

    def _evaluate(self, step: int, train_loss: float, folder: Path, progress: TrainingProgress) -> None:
        result = self._predict(self.state.params, self.state.rest, "validation")
        if result.accuracy > self.best["accuracy"]:
            params, rest = jax.tree.map(np.asarray, (self.state.params, self.state.rest))
            self.best = {"accuracy": result.accuracy, "step": step, "params": params, "rest": rest}
        row = {"step": step, "train_loss": train_loss, "validation_accuracy": result.accuracy}
        row["validation_loss"] = result.loss
        self.history.append(row)
        with open(folder / HISTORY_FILE, "a") as file:
            file.write(json.dumps(row) + "\n")
        progress.evaluated(step, train_loss, result.accuracy)

    def _predict(self, params: Any, rest: Any, split: str) -> Evaluation:
        return evaluate(
            self.predict,
            params,
            rest,
            getattr(self.task, split),
            batch_size=self.config.train.batch_size,
            max_length=self.task.max_length,
        )

    def _out_of_time(self, started: float) -> bool:
        minutes = self.config.train.minutes
        return minutes is not None and time.monotonic() - started > 60 * minutes

    @staticmethod
    def _require_finite(loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise Diverged(f"the loss of step {step} is {loss}")


def metrics(training: Training, test: Evaluation) -> dict[str, Any]:
    """What the score file says of a finished run."""
    low, high = test.interval
    majority = training.task.baselines["majority"]
    return {
        "test_accuracy": test.accuracy,
        "interval": [low, high],
        "test_loss": test.loss,
        "validation_accuracy": training.best["accuracy"],
        "best_step": training.best["step"],
        "n_test": len(test.labels),
        "at_chance": low <= majority,
        "constant": test.constant,
    }


def work(folder: Path, specification: dict[str, Any]) -> tuple[str, str | None]:
    """Trains and tests one run and leaves result.json and predictions.npz in its work folder."""
    config = child.load_config(specification["config"])
    training = Training(config, child.load_task(config.task))
    result: dict[str, Any] = {
        "parameters": parameter_facts(config.model, config.encoder, **training.sizes),
        "device": jax.devices()[0].device_kind,
    }
    (folder / HISTORY_FILE).unlink(missing_ok=True)
    status, error = "complete", None
    with TrainingProgress(specification["title"], config.train.steps) as progress:
        try:
            training.run(folder, progress)
        except Diverged as problem:
            status, error = "diverged", str(problem)
    if status == "complete":
        test = training.test()
        result["metrics"] = metrics(training, test)
        write_predictions(folder / PREDICTIONS_FILE, test.labels, test.predictions)
    write_json(folder / child.RESULT_FILE, result | {"history": training.history})
    return status, error


if __name__ == "__main__":
    child.run(work)
