"""The order in which tensorflow-datasets writes examples, rebuilt without it.

A set's examples are sorted by the md5 of the split's name followed by the example's key, whatever the number of files.
Splits cut in that order, such as the official 90 and 10 % of CIFAR-10's training images, follow from raw files alone.
"""

from collections.abc import Sequence
from hashlib import md5

import numpy as np


def tfds_order(split: str, keys: Sequence[str]) -> np.ndarray:
    """Positions in `keys` (the examples' keys in their set) in the order of the prepared set, int64 [N]."""
    salted = md5(split.encode())
    digests = []
    for key in keys:
        digest = salted.copy()
        digest.update(key.replace("\\", "/").encode())
        digests.append(digest.digest())
    return np.array(sorted(range(len(keys)), key=digests.__getitem__), np.int64)


def percent(share: int, count: int) -> int:
    """Where the slice `[:share%]` of `count` examples ends: the closest whole number, halves to the even one."""
    return round(share * count / 100)
