"""Exact accuracy: every example counts once, whatever the batch size."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lra.record import wilson_interval
from tasks.task import Batch, Split


@dataclass(frozen=True)
class Evaluation:
    """Predictions of one split, in its order.

    Attributes:
        predictions: int32 [N].
        labels: int32 [N].
        losses: float32 [N], cross-entropies.
    """

    predictions: np.ndarray
    labels: np.ndarray
    losses: np.ndarray

    @property
    def correct(self) -> int:
        """Number of right predictions."""
        return int((self.predictions == self.labels).sum())

    @property
    def accuracy(self) -> float:
        """Share of right predictions."""
        return self.correct / max(len(self.labels), 1)

    @property
    def loss(self) -> float:
        """Mean cross-entropy."""
        return float(self.losses.mean(dtype=np.float64)) if len(self.losses) else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The accuracy's 95 % interval."""
        return wilson_interval(self.correct, len(self.labels))

    @property
    def constant(self) -> bool:
        """Whether one and the same class was predicted for everything."""
        return len(np.unique(self.predictions)) <= 1


def evaluate(
    predict: Callable[[Batch], Any],
    split: Split,
    *,
    batch_size: int,
    max_length: int,
    report: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """Predicts a whole split in batches of one shape; the last one is filled up and the filling is cut off again.

    `report` is told how many examples are done; the device has at most one batch in hand beyond them.
    """
    count = len(split)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    waiting: Any = None
    for start in range(0, count, batch_size):
        examples = np.minimum(np.arange(start, start + batch_size), count - 1)
        batch, waiting = waiting, predict(split.batch(examples, max_length))
        if batch is not None:
            parts.append((np.asarray(batch[0]), np.asarray(batch[1])))
            report(start)
    if waiting is not None:
        parts.append((np.asarray(waiting[0]), np.asarray(waiting[1])))
        report(count)
    predictions, losses = (
        np.concatenate([part[i] for part in parts])[:count] if parts else np.empty(0) for i in (0, 1)
    )
    return Evaluation(predictions, np.asarray(split.labels, np.int32), losses)
