from functools import partial

import numpy as np
import pytest

from tasks.baselines import _counts, _features, bag_of_tokens, best_constant, majority, windows
from tasks.task import Split


def split_of(sequences: np.ndarray, labels: np.ndarray, paired: bool = False) -> Split:
    """Equally long sequences [N, L] as a split."""
    offsets = np.arange(len(sequences) + 1) * sequences.shape[1]
    return Split(sequences.reshape(-1).astype(np.uint8), offsets, labels.astype(np.uint8), paired)


def test_majority_is_the_share_of_the_most_frequent_label():
    assert majority(np.array([3, 1, 3, 0, 3], np.uint8)) == 0.6


def test_best_constant_is_fitted_on_train_and_measured_on_test():
    train = split_of(np.zeros((5, 1)), np.array([4, 4, 2, 7, 7]))
    test = split_of(np.zeros((4, 1)), np.array([4, 2, 7, 7]))
    # key 0 answers 4, key 1 answers 7, and key 2 is unknown to train
    accuracy = best_constant(np.array([0, 0, 0, 1, 1], np.uint8), train, np.array([0, 0, 1, 2], np.uint8), test)
    assert accuracy == 0.5


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_bag_of_tokens_sees_counts_but_not_order(random):
    ordered = random.integers(1, 9, (3000, 20))
    by_count = ((ordered == 3).sum(1) > (ordered == 5).sum(1)).astype(int)
    by_order = (ordered[:, 0] > ordered[:, 1]).astype(int)
    train, test = slice(0, 2000), slice(2000, None)
    seen = bag_of_tokens(split_of(ordered[train], by_count[train]), split_of(ordered[test], by_count[test]), 9)
    unseen = bag_of_tokens(split_of(ordered[train], by_order[train]), split_of(ordered[test], by_order[test]), 9)
    assert seen > 0.95
    assert unseen < majority(by_order[test]) + 0.05


def test_bag_of_tokens_compares_the_documents_of_a_pair(random):
    first = random.integers(0, 30, (3000, 40))
    labels = random.integers(0, 2, 3000)
    second = np.where(labels[:, None] == 1, random.permuted(first, axis=1), random.integers(0, 30, (3000, 40)))
    pairs = np.stack([first, second], 1).reshape(6000, 40)
    train = split_of(pairs[:4000], labels[:2000], paired=True)
    test = split_of(pairs[4000:], labels[2000:], paired=True)
    assert bag_of_tokens(train, test, 30) > 0.95


def test_features_of_a_pair_are_the_sum_and_the_difference_of_counts():
    split = split_of(np.array([[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 2, 2]]), np.array([0, 1]), paired=True)
    np.testing.assert_allclose(
        _features(split, np.array([1]), partial(_counts, vocab_size=3)) ** 2, [[1, 3, 2, 1, 1, 2]], rtol=1e-6
    )


def test_bag_of_tokens_repeats_itself_and_stands_one_label(random):
    sequences, labels = random.integers(0, 5, (400, 10)), random.integers(0, 3, 400)
    split = split_of(sequences, labels)
    assert bag_of_tokens(split, split, 5) == bag_of_tokens(split, split, 5)
    assert bag_of_tokens(split_of(sequences, np.full(400, 2)), split, 5) == (labels == 2).mean()


def test_windows_see_what_is_close_together_and_nothing_else(random):
    """Two marks in every sequence; the label is which comes first. Seven tokens apart a window sees both."""
    labels = random.integers(0, 2, 3000)
    accuracies = {}
    for distance in (7, 8):
        sequences = random.integers(3, 9, (3000, 60))
        place = random.integers(8, 40, 3000)
        for label in (0, 1):
            rows = np.flatnonzero(labels == label)
            sequences[rows, place[rows]], sequences[rows, place[rows] + distance] = 1 + label, 2 - label
        train, test = split_of(sequences[:2000], labels[:2000]), split_of(sequences[2000:], labels[2000:])
        accuracies[distance] = windows(train, test, 8)
    assert accuracies[7] > 0.95
    assert abs(accuracies[8] - 0.5) < 0.05
    pairs = split_of(sequences[:2000], labels[:1000], paired=True)
    assert 0 <= windows(pairs, pairs, 8) <= 1
