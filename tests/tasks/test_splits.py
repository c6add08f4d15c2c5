"""What is held out: exact in number, by content, apart from what must not be shared."""

import numpy as np
import pytest

from tasks.byte_text import VOCAB_SIZE, ByteTexts
from tasks.errors import DataError
from tasks.splits import content_hash, hold_out, require, sizes_of, task_of
from tasks.task import Shape, Split

FULL = {"train": 100, "validation": 20, "test": 30}


def hashes(*texts: str) -> list[bytes]:
    return [content_hash(text.encode()) for text in texts]


def test_held_out_examples_follow_their_content_and_not_their_place():
    texts = [f"text {i}" for i in range(100)]
    chosen = hold_out(hashes(*texts), 30)
    assert chosen.sum() == 30
    shuffled = np.random.default_rng(0).permutation(100)
    again = hold_out(hashes(*(texts[i] for i in shuffled)), 30)
    np.testing.assert_array_equal(again, chosen[shuffled])
    assert set(np.flatnonzero(hold_out(hashes(*texts), 20))) < set(np.flatnonzero(chosen)), "more add to fewer"


def test_the_same_examples_on_every_machine():
    """Written down once; `blake2b` and the order of its digests depend on no platform."""
    assert np.flatnonzero(hold_out(hashes(*(f"text {i}" for i in range(20))), 5)).tolist() == [0, 12, 13, 14, 19]


@pytest.mark.parametrize("count", range(1, 21))
def test_copies_stay_on_one_side_and_the_number_is_exact(count):
    texts = [f"text {i}" for i in range(20)] + ["copy a"] * 3 + ["copy b"] * 7
    chosen = hold_out(hashes(*texts), count)
    assert chosen.sum() == count
    for copies in (chosen[20:23], chosen[23:]):
        assert copies.all() or not copies.any()


def test_what_is_to_be_avoided_is_never_held_out():
    texts = [f"text {i}" for i in range(10)]
    chosen = hold_out(hashes(*texts), 4, avoid=hashes(*texts[:6]))
    assert np.flatnonzero(chosen).tolist() == [6, 7, 8, 9]
    with pytest.raises(DataError, match="5 examples cannot be held out of 10, 10 of them different, without sharing"):
        hold_out(hashes(*texts), 5, avoid=hashes(*texts[:6]))


def test_too_few_different_examples_are_an_error():
    with pytest.raises(DataError, match="2 examples cannot be held out of 3, 1 of them different"):
        hold_out(hashes("a", "a", "a"), 2)


def test_null_stands_for_all_that_there_is():
    assert sizes_of("toy", {"train": None, "validation": 5, "test": None}, FULL) == FULL | {"validation": 5}
    assert sizes_of("toy", {}, FULL) == FULL


@pytest.mark.parametrize("examples", [{"train": 0}, {"test": -1}, {"trian": 5}])
def test_impossible_sizes_are_refused(examples):
    with pytest.raises(DataError, match="toy: examples must give 1 or more, or null for all, of train, val"):
        sizes_of("toy", examples, FULL)


def test_an_incomplete_source_is_named():
    require(20, 20, "x.tsv")
    with pytest.raises(DataError, match=r"x\.tsv: 19,999 of 20,000 examples are there; it is incomplete"):
        require(19_999, 20_000, "x.tsv")


def test_bytes_are_cut_counted_and_shifted_by_one():
    texts = ByteTexts(3)
    for text in (b"abcd", b"abc", b"", b"\x00\xff"):
        texts.add(text)
    split = texts.split([1, 0, 1, 0])
    assert [split.sequence(i).tolist() for i in range(4)] == [[98, 99, 100], [98, 99, 100], [], [1, 256]]
    assert texts.truncated == 1
    assert (split.tokens.dtype, split.labels.tolist()) == (np.uint16, [1, 0, 1, 0])
    assert int(split.tokens.max()) < VOCAB_SIZE


def test_a_paired_split_counts_each_of_its_documents():
    """Cut sequences are a share of all sequences, of which a pair has two."""
    texts = ByteTexts(2)
    for text in (b"long", b"ab", b"a", b"b"):
        texts.add(text)
    split = texts.split([0, 1], paired=True)
    task = task_of(
        {"train": split, "validation": split, "test": split},
        name="toy",
        version=3,
        source="packaged",
        shape=Shape(257, 2, paired=True),
        max_length=2,
        truncated=3,
    )
    assert task.truncated_fraction == 3 / 12
    assert (task.version, task.source, task.paired, task.vocab_size) == (3, "packaged", True, 257)
    assert set(task.baselines) == {"majority", "bag_of_tokens"}
    assert task.baselines["majority"] == 0.5


def test_a_split_survives_the_next_texts():
    texts = ByteTexts(4)
    texts.add(b"ab")
    first = texts.split([0])
    texts.add(b"zz")
    assert isinstance(first, Split)
    assert first.sequence(0).tolist() == [98, 99]
    assert texts.split([1]).sequence(0).tolist() == [123, 123]
