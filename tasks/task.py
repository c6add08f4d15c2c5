"""The contract every task keeps: three splits of token sequences, and what is needed to read a score.

Shape key: N examples, B batch, L length. Retrieval has two documents an example and therefore one more axis of size 2.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

Source = Literal["official", "generated", "packaged", "surrogate"]


class Batch(NamedTuple):
    """One gathered batch; the mask of real tokens follows from `lengths` and from nothing else.

    The arrays are numpy's on the host, jax's on a device, or mere shapes when a program is only compiled.
    """

    tokens: Any  # int32 [B, L], or [B, 2, L] for a paired task; 0 beyond each length
    lengths: Any  # int32 [B], or [B, 2]
    labels: Any  # int32 [B]


class Shape(NamedTuple):
    """What a model must know of a task, known without its data: every task module states it as `SHAPE`."""

    vocab_size: int  # token ids lie in [0, vocab_size); id 0 is padding where a task has padding at all
    num_classes: int  # labels lie in [0, num_classes)
    paired: bool = False  # each example is two documents


@dataclass(frozen=True)
class Split:
    """Random access to the examples of one split, stored without padding.

    Attributes:
        tokens: every sequence, one after the other, [total tokens], any unsigned integer type (memory-mapped).
        offsets: int64 [sequences + 1]; sequence s is `tokens[offsets[s]:offsets[s + 1]]`.
        labels: integer [N]; N is the number of sequences, or half of it when `paired`.
        paired: example i is made of the sequences 2i and 2i + 1.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    paired: bool = False

    def __post_init__(self) -> None:
        sequences, examples = len(self.offsets) - 1, len(self.labels)
        if sequences != examples * (2 if self.paired else 1):
            raise ValueError(f"{sequences} sequences do not make {examples} examples (paired: {self.paired})")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """Real length of every sequence, int64 [sequences]."""
        return np.diff(self.offsets)

    def sequence(self, index: int) -> np.ndarray:
        """The tokens of one sequence, unpadded."""
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def batch(self, examples: np.ndarray, max_length: int) -> Batch:
        """Gathers `examples` (int [B]), cut at and padded with 0 to `max_length` tokens."""
        examples = np.asarray(examples)
        sequences = 2 * examples[:, None] + np.arange(2) if self.paired else examples
        start = self.offsets[sequences]
        lengths = np.minimum(self.offsets[sequences + 1] - start, max_length)
        position = np.arange(max_length)
        real = position < lengths[..., None]
        tokens = np.where(real, self.tokens[np.where(real, start[..., None] + position, 0)], 0)
        return Batch(tokens.astype(np.int32), lengths.astype(np.int32), self.labels[examples].astype(np.int32))


@dataclass(frozen=True)
class Task:
    """A task, ready to train on.

    Attributes:
        name, version: the version rises whenever the same source would be encoded differently.
        source: `official`, `generated`, `packaged` or `surrogate` (see the README's section on data).
        train, validation, test: the splits; selection uses `validation`, `test` is read once, at the end.
        vocab_size, num_classes, paired: the task's shape.
        max_length: longest sequence the encoding keeps.
        fingerprint: hash of what was encoded and how; part of a run's identity.
        baselines: accuracy on the test split of `majority`, of the best shallow rule and of `bag_of_tokens`.
        truncated_fraction: share of the sequences that were cut at `max_length`.
        skipped_files: files of the source that could not be read, by name.
    """

    name: str
    version: int
    source: Source
    train: Split
    validation: Split
    test: Split
    vocab_size: int
    num_classes: int
    max_length: int
    fingerprint: str
    baselines: dict[str, float]
    paired: bool = False
    truncated_fraction: float = 0.0
    skipped_files: tuple[str, ...] = field(default=())

    @property
    def shape(self) -> Shape:
        """What a model must know of the task."""
        return Shape(self.vocab_size, self.num_classes, self.paired)


def as_image(tokens: np.ndarray, side: int) -> np.ndarray:
    """Grey values of pixels that were read row by row, float [side, side] from 0 to 255; NaN for what was cut off."""
    pixels = np.full(side * side, np.nan, np.float32)
    pixels[: len(tokens)] = tokens
    return pixels.reshape(side, side)
