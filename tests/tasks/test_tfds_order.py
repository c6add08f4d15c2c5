"""The order of prepared sets, rebuilt from raw files."""

from hashlib import md5

import pytest

from tasks.tfds_order import percent, tfds_order


def test_the_order_is_that_of_the_md5_of_split_and_key():
    """As measured on CIFAR-10: keys are positions, salted with the split's name, compared as whole numbers."""
    expected = sorted(range(50_000), key=lambda i: int(md5(b"train" + str(i).encode()).hexdigest(), 16))
    order = tfds_order("train", [str(i) for i in range(50_000)])
    assert order.tolist() == expected
    assert order[:5].tolist() == [16399, 1680, 47917, 17307, 27051]


def test_the_split_s_name_is_part_of_the_order():
    keys = [str(i) for i in range(100)]
    assert sorted(tfds_order("test", keys)) == list(range(100))
    assert tfds_order("test", keys).tolist() != tfds_order("train", keys).tolist()


def test_windows_paths_count_as_others():
    keys = [f"aclImdb/train/pos/{i}_7.txt" for i in range(20)]
    order = tfds_order("train", keys)
    assert order.tolist() == tfds_order("train", [key.replace("/", "\\") for key in keys]).tolist()
    expected = sorted(keys, key=lambda key: md5(b"train" + key.encode()).digest())
    assert [keys[i] for i in order] == expected


@pytest.mark.parametrize(
    ("share", "count", "end"),
    [(90, 50_000, 45_000), (80, 200_000, 160_000), (90, 47, 42), (50, 5, 2), (50, 7, 4), (0, 9, 0)],
)
def test_percent_slices_round_to_the_closest(share, count, end):
    assert percent(share, count) == end
