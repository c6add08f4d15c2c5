"""Trains a tiny run on the devices that there are: `python -m tests.lra.spread <root> <cache> <until> <variant>`.

It begins, or goes on, and ends after step `until`; `<root>/<variant>.npz` then has the loss of every step it made and
what is said of the test split. XLA_FLAGS and JAX_COORDINATOR_ADDRESS decide on devices and processes.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lra import child, processes
from lra.devices import find_devices
from lra.progress import TrainingProgress
from lra.train import Interrupted, Training, use_compile_cache
from tests.lra import tiny

STEPS = 20
PLAIN = ["encoder.dropout=0", f"train.steps={STEPS}", "train.evaluate_every=7"]


def environment_of_users(**more: str) -> dict[str, str]:
    """The environment without the number of devices that tests set for speed, and with `more`."""
    return {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"} | more


class Recording(Training):
    """Training that keeps every loss."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.every_loss: list[float] = []

    def _read_loss(self, loss: Any, step: int) -> None:
        super()._read_loss(loss, step)
        self.every_loss += [] if loss is None else [float(loss)]


def train(root: Path, cache: Path, until: int, name: str, *more: str) -> dict[str, Any]:
    """Trains up to step `until`; returns losses, number of devices, and of the test split predictions and losses."""
    run = tiny.run_of(*PLAIN, *tiny.places(root, cache), *more, variant=name)
    task = child.load_task(run.config.task)
    folder = run.work_folder / str(processes.number())
    folder.mkdir(parents=True, exist_ok=True)
    training = Recording(run.config, task, folder, {"run": name}, print)
    training.resume()
    try:
        with TrainingProgress(name, STEPS) as progress:
            training.run(progress, lambda: STEPS > until <= training.step)
    except Interrupted:
        assert until < STEPS
    test = training._predict(training.state.params, training.state.rest, task.test)
    said = {"predictions": test.predictions, "test_losses": test.losses}
    return {"losses": np.array(training.every_loss), "devices": training.devices.count, **said}


if __name__ == "__main__":
    find_devices()
    root, cache = Path(sys.argv[1]), Path(sys.argv[2])
    use_compile_cache(root / "compiled")
    found = train(root, cache, int(sys.argv[3]), sys.argv[4])
    if processes.number() == 0:
        np.savez(root / f"{sys.argv[4]}.npz", **found)
