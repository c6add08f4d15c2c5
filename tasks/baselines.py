"""What can be scored without looking far: the figures a task's accuracy is read against."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from tasks.task import Split

_FIT_EXAMPLES, _FIT_TOKENS = 20_000, 100_000_000  # bounds of what the linear model is fitted on
_COUNT_TOKENS = 4_000_000  # tokens counted at once
_WINDOW_EXAMPLES, _HASHES = 5_000, 4096  # the same for windows, and the columns that their pairs are counted in

Count = Callable[[Split, np.ndarray], np.ndarray]  # what is counted in the sequences of an index [N], float32 [N, F]


def majority(labels: np.ndarray) -> float:
    """Accuracy of the most frequent label of a non-empty split, known in hindsight."""
    return float(np.bincount(labels).max() / len(labels))


def best_constant(train_keys: np.ndarray, train: Split, test_keys: np.ndarray, test: Split) -> float:
    """Accuracy on `test` of answering each key (integer [N]) with its most frequent label in `train`."""
    keys = max(train_keys.max(), test_keys.max()) + 1
    table = np.zeros((keys, train.labels.max() + 1), np.int64)
    np.add.at(table, (train_keys, train.labels), 1)
    return float((table.argmax(1)[test_keys] == test.labels).mean())


def bag_of_tokens(train: Split, test: Split, vocab_size: int) -> float:
    """Accuracy on `test` of a linear model that sees how often each token occurs, and nothing of their order.

    A paired example is seen as the sum and the absolute difference of its two documents' counts. The model is fitted
    on 20,000 examples at most, evenly spaced over `train`, and fewer where they are long.
    """
    size = min(len(train), _FIT_EXAMPLES, max(1, _FIT_TOKENS * len(train) // max(1, len(train.tokens))))
    return _linear(train, test, size, partial(_counts, vocab_size=vocab_size))


def windows(train: Split, test: Split, window: int) -> float:
    """Accuracy on `test` of a linear model that sees what each window of `window` tokens holds, and not their order.

    Counted are pairs of tokens that stand within a window, each distance apart for itself, under the hash of the three.
    A paired example is seen as by `bag_of_tokens`. The model is fitted on 5,000 examples at most.
    """
    return _linear(train, test, min(len(train), _WINDOW_EXAMPLES), partial(_pairs, window=window))


def _linear(train: Split, test: Split, size: int, count: Count) -> float:
    """Accuracy on `test` of a logistic regression on counts, fitted on `size` examples, evenly spaced over `train`."""
    from sklearn.exceptions import ConvergenceWarning  # takes a second to import, and only a build needs it
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    chosen = np.linspace(0, len(train) - 1, size).astype(np.int64)
    labels = np.asarray(train.labels[chosen])
    if len(np.unique(labels)) == 1:
        return float((test.labels == labels[0]).mean())
    scale = StandardScaler()
    model = LogisticRegression(C=0.1, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound on its work is wanted
        model.fit(scale.fit_transform(_features(train, chosen, count)), labels)
    everything = np.arange(len(test))
    correct = 0
    for part in np.array_split(everything, max(1, len(test) // _FIT_EXAMPLES)):
        predicted = model.predict(scale.transform(_features(test, part, count)))
        correct += int((predicted == test.labels[part]).sum())
    return correct / len(test)


def _features(split: Split, examples: np.ndarray, count: Count) -> np.ndarray:
    """Square roots of counts, float32 [examples, F], or [examples, 2 F] for a paired split."""
    if not split.paired:
        return np.sqrt(count(split, examples))
    first, second = (count(split, 2 * examples + i) for i in (0, 1))
    return np.sqrt(np.concatenate([first + second, np.abs(first - second)], axis=1))


def _counts(split: Split, sequences: np.ndarray, vocab_size: int) -> np.ndarray:
    counts = np.empty((len(sequences), vocab_size), np.float32)
    lengths = split.lengths[sequences]
    for rows in np.array_split(np.arange(len(sequences)), 1 + int(lengths.sum()) // _COUNT_TOKENS):
        tokens = np.concatenate([split.sequence(i) for i in sequences[rows]]) if len(rows) else np.empty(0, np.int64)
        cells = np.repeat(np.arange(len(rows)), lengths[rows]) * vocab_size + tokens
        counts[rows] = np.bincount(cells, minlength=len(rows) * vocab_size).reshape(len(rows), vocab_size)
    return counts


def _pairs(split: Split, sequences: np.ndarray, window: int) -> np.ndarray:
    counts = np.zeros((len(sequences), _HASHES), np.float32)
    for row, sequence in enumerate(sequences):
        tokens = split.sequence(sequence).astype(np.uint64)
        pairs = [
            (tokens[:-distance] << np.uint64(16) | tokens[distance:]) << np.uint64(8) | np.uint64(distance)
            for distance in range(1, min(window, len(tokens)))
        ]
        if pairs:
            # Fibonacci hashing: the upper 12 bits.
            spread = np.concatenate(pairs) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(52)
            counts[row] = np.bincount(spread.astype(np.int64), minlength=_HASHES)
    return counts
