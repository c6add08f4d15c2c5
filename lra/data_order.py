"""The order in which training sees the examples: a function of the seed and of one integer."""

import functools

import numpy as np


@functools.lru_cache(maxsize=2)
def _permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(count)


def examples_at(step: int, *, batch_size: int, count: int, seed: int) -> np.ndarray:
    """The examples of the batch of step `step` (from 0), int64 [batch_size]; every epoch is a fresh permutation."""
    positions = np.arange(step * batch_size, (step + 1) * batch_size)
    epochs, offsets = positions // count, positions % count
    return np.concatenate([_permutation(count, seed, int(e))[offsets[epochs == e]] for e in np.unique(epochs)])
