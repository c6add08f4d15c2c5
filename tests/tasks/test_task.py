from itertools import chain

import numpy as np
import pytest

from tasks.task import Split


def ragged(*sequences: list[int], paired: bool = False) -> Split:
    """A split of the given sequences, labelled 0, 1, 2, ..."""
    offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
    labels = np.arange(len(sequences) // (2 if paired else 1), dtype=np.uint8)
    return Split(np.array([*chain(*sequences)], np.uint8), offsets, labels, paired)


def test_batch_pads_with_zero_and_tells_the_real_lengths():
    batch = ragged([7, 8, 9], [5], [], [1, 2]).batch(np.array([3, 0, 2, 1]), 4)
    assert batch.tokens.tolist() == [[1, 2, 0, 0], [7, 8, 9, 0], [0, 0, 0, 0], [5, 0, 0, 0]]
    assert batch.lengths.tolist() == [2, 3, 0, 1]
    assert batch.labels.tolist() == [3, 0, 2, 1]
    assert {array.dtype for array in batch} == {np.dtype(np.int32)}


def test_batch_cuts_on_the_right():
    batch = ragged([7, 8, 9], [5]).batch(np.array([0, 1]), 2)
    assert batch.tokens.tolist() == [[7, 8], [5, 0]]
    assert batch.lengths.tolist() == [2, 1]


def test_a_real_token_zero_counts_as_real():
    """Black is not padding: only the length says what is real."""
    batch = ragged([0, 0], [0, 3, 0]).batch(np.array([0, 1]), 3)
    assert batch.lengths.tolist() == [2, 3]


def test_batch_gathers_both_documents_of_a_pair():
    split = ragged([1], [2, 3], [4, 5, 6], [7], paired=True)
    assert len(split) == 2
    batch = split.batch(np.array([1, 0]), 3)
    assert batch.tokens.tolist() == [[[4, 5, 6], [7, 0, 0]], [[1, 0, 0], [2, 3, 0]]]
    assert batch.lengths.tolist() == [[3, 1], [1, 2]]
    assert batch.labels.tolist() == [1, 0]


def test_sequence_and_lengths_are_unpadded():
    split = ragged([7, 8, 9], [], [5])
    assert split.lengths.tolist() == [3, 0, 1]
    assert [split.sequence(i).tolist() for i in range(3)] == [[7, 8, 9], [], [5]]


@pytest.mark.parametrize("paired", [False, True])
def test_labels_that_do_not_fit_the_sequences_are_refused(paired):
    with pytest.raises(ValueError, match="3 sequences do not make 2 examples"):
        Split(np.zeros(3, np.uint8), np.arange(4), np.zeros(2, np.uint8), paired)
