"""What a trained model says of raw expressions: `python -m tests.lra.restored train|load <root> <cache> variant...`.

`train` trains and saves, `load` restores; both leave the answers in `<root>/<train|load>-<variant>.npy`. A program, so
that each can run under its own PYTHONHASHSEED.
"""

import json
import sys
from pathlib import Path

import numpy as np

from lra import child
from lra.progress import TrainingProgress
from lra.train import Training, use_compile_cache
from tasks.listops import encode
from tasks.task import Split
from tests.lra import tiny
from tests.models.variants import VARIANTS

STEPS, CLASSES = 20, 10
RAW = [
    "( ( ( [MAX 4 ) 3 ) ] )",
    "( ( ( [MIN 2 ) 3 ) ] )",
    "[MAX 4 3 [MIN 2 3 ] 1 0 ]",
    "[MAX 1 [MIN 2 0 ] 9 ]",
    "[MAX 1 [MIN 2 0 9 ] ]",
    "[SM 9 9 9 [MED 1 5 7 ] [SM 2 8 ] 3 4 ]",
    "[MED 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 ]",
    "7",
]


def log_probabilities(training: Training) -> np.ndarray:
    """Minus the cross-entropy of every raw expression with every class, [expressions, classes]."""
    sequences = [encode(text) for text in RAW for _ in range(CLASSES)]
    offsets = np.concatenate([[0], np.cumsum([len(sequence) for sequence in sequences])])
    split = Split(np.concatenate(sequences), offsets, np.tile(np.arange(CLASSES), len(RAW)))
    batch = split.batch(np.arange(len(split)), training.task.max_length)
    _, losses = training.predict(training.state.params, training.state.rest, batch)
    return -np.asarray(losses).reshape(len(RAW), CLASSES)


def main(action: str, root: Path, cache: Path, names: list[str]) -> None:
    """Trains or restores every variant."""
    use_compile_cache(root / "compiled")
    for name in names:
        toy = [f"model.{key}={json.dumps(value)}".replace('"', "") for key, value in VARIANTS[name].toy.items()]
        run = tiny.run_of(*toy, f"train.steps={STEPS}", *tiny.places(root, cache), variant=name)
        task = child.load_task(run.config.task)
        run.work_folder.mkdir(parents=True, exist_ok=True)
        belongs_to = {"run": run.hash, "data": task.fingerprint}
        training = Training(run.config, task, run.work_folder, belongs_to, sys.exit)
        if action == "train":
            with TrainingProgress(name, STEPS) as progress:
                training.run(progress)
        elif training.resume() != STEPS:
            sys.exit(f"{name}: step {training.step} was restored")
        np.save(root / f"{action}-{name}.npy", log_probabilities(training))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
