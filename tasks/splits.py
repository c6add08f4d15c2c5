"""From raw examples to a task: sizes of splits, parts held out by content, and the baselines of the whole."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from tasks import baselines
from tasks.cache import SPLITS
from tasks.errors import DataError
from tasks.task import Shape, Source, Split, Task


def sizes_of(task: str, examples: Mapping[str, int | None], full: Mapping[str, int]) -> dict[str, int]:
    """The size of each split; None in `examples` stands for all that the source has, which `full` says."""
    sizes = {name: full[name] if examples.get(name) is None else int(examples[name] or 0) for name in SPLITS}
    if set(examples) - set(SPLITS) or min(sizes.values()) < 1:
        raise DataError(
            f"{task}: examples must give 1 or more, or null for all, of {', '.join(SPLITS)}, not {dict(examples)}"
        )
    return sizes


def require(there: int, wanted: int, what: str) -> None:
    """Raises DataError when a source holds fewer examples than a split needs."""
    if there < wanted:
        raise DataError(
            f"{what}: {there:,} of {wanted:,} examples are there; it is incomplete, or ask for fewer with task.examples"
        )


def content_hash(content: bytes) -> bytes:
    """What tells equal examples apart from different ones, on every machine."""
    return blake2b(content, digest_size=16).digest()


def hold_out(hashes: Sequence[bytes], count: int, avoid: Collection[bytes] = ()) -> np.ndarray:
    """Exactly `count` examples, chosen by their content hashes: bool [N].

    Copies of one example are either all chosen or none is, and nothing whose hash is in `avoid` is chosen.

    Raises:
        DataError: there are not enough; held-out examples are never taken from those to avoid.
    """
    copies: dict[bytes, list[int]] = defaultdict(list)
    for example, digest in enumerate(hashes):
        copies[digest].append(example)
    chosen, left = np.zeros(len(hashes), bool), count
    for digest in sorted(copies.keys() - set(avoid)):
        if len(copies[digest]) <= left:  # a larger group would overshoot; the next one that fits is taken
            chosen[copies[digest]] = True
            left -= len(copies[digest])
    if left:
        raise DataError(
            f"{count:,} examples cannot be held out of {len(hashes):,}, {len(copies):,} of them different, "
            f"without sharing an example with another split; ask for fewer with task.examples"
        )
    return chosen


def task_of(
    splits: Mapping[str, Split],
    *,
    name: str,
    version: int,
    source: Source,
    shape: Shape,
    max_length: int,
    truncated: int,
    skipped_files: Sequence[str] = (),
) -> Task:
    """The task of three splits, with the baselines of a task that has no shallow rule of its own.

    `truncated` is the number of sequences that were cut at `max_length`.
    """
    train, validation, test = (splits[split] for split in SPLITS)
    return Task(
        name=name,
        version=version,
        source=source,
        train=train,
        validation=validation,
        test=test,
        **shape._asdict(),
        max_length=max_length,
        fingerprint="",
        baselines={
            "majority": baselines.majority(test.labels),
            "bag_of_tokens": baselines.bag_of_tokens(train, test, shape.vocab_size),
        },
        truncated_fraction=truncated / sum(len(split.lengths) for split in splits.values()),
        skipped_files=tuple(skipped_files),
    )
