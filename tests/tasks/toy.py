"""A tiny task and its place in a cache; apart from the tests so that a child process starts without them."""

import numpy as np

from tasks.cache import cached
from tasks.task import Split, Task


def small_task(value: int = 3, paired: bool = False) -> Task:
    def split(n: int) -> Split:
        sequences = 2 * n if paired else n
        return Split(
            np.full(4 * sequences, value, np.uint8), np.arange(sequences + 1) * 4, np.arange(n, dtype=np.uint8), paired
        )

    return Task(
        name="toy",
        version=1,
        source="generated",
        train=split(5),
        validation=split(2),
        test=split(2),
        vocab_size=8,
        num_classes=5,
        max_length=4,
        fingerprint="",
        baselines={"majority": 0.5},
        paired=paired,
        truncated_fraction=0.25,
        skipped_files=("a.png",),
    )


def keep(cache_dir, build=lambda report: small_task(), version=1, files=(), **parameters) -> Task:
    return cached(
        build,
        cache_dir=cache_dir,
        name="toy",
        version=version,
        source="generated",
        parameters=parameters,
        files=files,
    )
