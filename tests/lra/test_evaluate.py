"""Every example counts once, at any batch size; training sees a fresh permutation an epoch."""

import numpy as np
import pytest
from scipy.stats import binomtest

from lra.data_order import examples_at
from lra.evaluate import Evaluation, evaluate
from tasks.task import Split

COUNT, CLASSES = 10_000, 7


@pytest.fixture(scope="module")
def split():
    """Sequences of 1 to 5 tokens, whose label the first token tells for about two thirds of them."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 6, COUNT)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = draw.integers(1, CLASSES + 1, offsets[-1]).astype(np.uint8)
    labels = np.where(draw.random(COUNT) < 2 / 3, tokens[offsets[:-1]] - 1, draw.integers(0, CLASSES, COUNT))
    return Split(tokens, offsets, labels.astype(np.uint8))


class FirstToken:
    """Predicts the first token, and says NaN and an impossible class of whatever fills up the last batch."""

    def __init__(self):
        self.shapes, self.rows = set(), 0

    def __call__(self, batch):
        self.shapes.add(batch.tokens.shape)
        filling = self.rows + np.arange(len(batch.labels)) >= COUNT
        self.rows += len(batch.labels)
        predictions = np.where(filling, -1, batch.tokens[:, 0] - 1).astype(np.int32)
        losses = np.where(filling, np.nan, batch.lengths / 16 + (predictions != batch.labels))
        return predictions, losses.astype(np.float32)


@pytest.mark.parametrize("batch_size", [1, 7, 256, 10_001])
def test_every_example_counts_once_at_any_batch_size(split, batch_size):
    predict, reports = FirstToken(), []
    found = evaluate(predict, split, batch_size=batch_size, max_length=4, report=reports.append)
    first = split.tokens[split.offsets[:-1]].astype(int) - 1
    np.testing.assert_array_equal(found.predictions, first)  # in the split's order
    np.testing.assert_array_equal(found.labels, split.labels)
    losses = np.minimum(split.lengths, 4) / 16 + (first != split.labels)
    np.testing.assert_array_equal(found.losses, losses.astype(np.float32))
    assert found.correct == (first == split.labels).sum()
    assert found.accuracy == found.correct / COUNT
    assert found.loss == pytest.approx(losses.mean(), rel=1e-12)
    assert found.interval == pytest.approx(tuple(binomtest(found.correct, COUNT).proportion_ci(method="wilson")))
    assert predict.shapes == {(batch_size, 4)}  # one shape, one compiled program
    assert predict.rows - COUNT < batch_size
    assert (reports[0], reports[-1]) == (min(batch_size, COUNT), COUNT)


def test_nothing_to_evaluate_has_no_loss():
    nothing = Split(np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.uint8))
    found = evaluate(FirstToken(), nothing, batch_size=4, max_length=4)
    assert (found.accuracy, found.interval) == (0, (0, 1))
    assert np.isnan(found.loss)


def test_a_constant_predictor_is_named():
    labels, losses = np.array([0, 1, 2, 2]), np.zeros(4)
    assert Evaluation(np.array([2, 2, 2, 2]), labels, losses).constant
    assert not Evaluation(np.array([2, 2, 1, 2]), labels, losses).constant


@pytest.mark.parametrize(("batch_size", "count"), [(8, 20), (5, 20), (1, 3), (50, 20), (20, 20)])
def test_every_epoch_is_a_permutation_of_its_own(batch_size, count):
    epochs = 6
    steps = [
        examples_at(step, batch_size=batch_size, count=count, seed=3)
        for step in range(-(-epochs * count // batch_size))
    ]
    assert {step.shape for step in steps} == {(batch_size,)}
    order = np.concatenate(steps)[: epochs * count].reshape(epochs, count)
    np.testing.assert_array_equal(np.sort(order, axis=1), np.tile(np.arange(count), (epochs, 1)))
    assert len({tuple(epoch) for epoch in order}) > epochs // 2  # three examples have only six orders


def test_the_order_is_a_function_of_seed_and_step_alone():
    def at(step, seed=3):
        return examples_at(step, batch_size=8, count=1000, seed=seed).tolist()

    forwards = [at(step) for step in range(300)]
    assert [at(step) for step in reversed(range(300))] == forwards[::-1]
    assert at(0) != at(0, seed=4)
    assert at(0) != at(125)  # the same place of the next epoch
