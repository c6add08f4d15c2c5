"""CIFAR-10 in grey, one pixel a token: 1,024 pixels, row by row, ids 0 to 255. Black is a colour here, not padding.

Source `official` is the binary archive, its unpacked folder, or the prepared set of tensorflow-datasets. All three give
the official splits of LRA: 45,000 / 5,000 of the training images, cut in the order of the prepared set, and 10,000.
The Python version of the archive is never read, because it is made of pickles. Source `surrogate` is no photographs at
all but what `tasks.surrogates` draws.

Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html; Tay et al. 2020, https://arxiv.org/abs/2011.04006.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal

import numpy as np

from tasks.archives import Found, Search, read_members
from tasks.cache import Report, cached
from tasks.download import KnownFile
from tasks.errors import DataError
from tasks.prepared import find_prepared, read_prepared
from tasks.splits import require, sizes_of, task_of
from tasks.surrogates import surrogate
from tasks.task import Shape, Split, Task, as_image
from tasks.tfds_order import percent, tfds_order

VERSION = 1
PIXELS = 32 * 32
SHAPE = Shape(vocab_size=256, num_classes=10)
LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FULL_SIZES = {"train": 45_000, "validation": 5_000, "test": 10_000}
FILES = (
    KnownFile(
        "cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ("https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/cifar-10-binary.tar.gz",),
    ),
)

_TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_TEST_FILE = "test_batch.bin"
_MEMBER = re.compile(r"(?:^|/)((?:data_batch_[1-5]|test_batch)\.bin)$")
_RECORD = 1 + 3 * PIXELS  # label, then the red, green and blue plane

Images = tuple[np.ndarray, np.ndarray]  # grey uint8 [N, 1024], labels uint8 [N]


def load(
    *,
    source: Literal["official", "surrogate"],
    cache_dir: str | Path,
    data_dir: str | Path,
    max_length: int,
    grey: Literal["tf", "pil"],
    examples: Mapping[str, int | None],
) -> Task:
    """CIFAR-10 in grey with its baselines, from the cache where it has been built before.

    Args:
        source: `official` or `surrogate`.
        cache_dir: where encoded data is kept.
        data_dir: where raw data is looked for.
        max_length: images are cut after this many pixels, of 1,024; a surrogate is as large as this.
        grey: the formula, read by `official` only; `tf` is the one of LRA, `pil` that of Pillow and torchvision. See
            `to_grey`.
        examples: size of each split, `train`, `validation` and `test`; null for all, else the first of each.

    Raises:
        DataError: missing, incomplete or damaged data.
    """
    if grey not in ("tf", "pil"):
        raise DataError(f"image: unknown grey formula {grey!r}; it is tf or pil")
    if not 1 <= max_length <= PIXELS:
        raise DataError(f"image: max_length={max_length}; an image has {PIXELS:,} pixels")
    found = locate(source, data_dir=data_dir, cache_dir=cache_dir)
    if found is None:
        return surrogate("image", SHAPE, cache_dir=cache_dir, max_length=max_length, examples=examples)
    sizes = sizes_of("image", examples, FULL_SIZES)
    return cached(
        lambda report: _task(found, sizes, max_length, grey, report),
        cache_dir=cache_dir,
        name="image",
        version=VERSION,
        source=source,
        parameters={"max_length": max_length, "grey": grey, "examples": sizes},
        files=_files(found),
    )


def show(tokens: np.ndarray, *, source: str) -> np.ndarray:
    """Grey values of token ids [L]; 32 x 32 pixels, or what is left of them, of CIFAR-10, else the square they make."""
    return as_image(tokens, math.isqrt(PIXELS if source == "official" else len(tokens)))


def locate(source: str, *, data_dir: str | Path, cache_dir: str | Path) -> Found | None:
    """Where the raw data lies, None for a surrogate; raises NotFound with every path tried and how to get it."""
    if source == "surrogate":
        return None
    if source != "official":
        raise DataError(f"image: unknown source {source!r}; it is official or surrogate")
    search = Search(data_dir, cache_dir)
    by_tfds = "downloads/*cifar-10-binary*.tar.gz", "downloads/cifar10/*cifar-10-binary*.tar.gz"
    if archive := search.first("cifar-10-binary.tar.gz", "cifar-10-binary.tar", *by_tfds):
        return Found(archive, "archive")
    if folder := search.first("cifar-10-batches-bin/", "./", holding=[_TEST_FILE]):
        return Found(folder, "folder")
    if folder := find_prepared(search, "cifar10"):
        return Found(folder, "prepared")
    python_version = search.first("cifar-10-python.tar.gz", "cifar-10-batches-py/")
    note = [f"{python_version} is made of pickles, which are never loaded."] if python_version else []
    raise search.not_found("CIFAR-10 (source=official)", "image", FILES, *note)


def _files(found: Found) -> list[Path]:
    if found.kind == "folder":
        return [path for path in (found.path / name for name in (*_TRAIN_FILES, _TEST_FILE)) if path.is_file()]
    return sorted(found.path.iterdir()) if found.kind == "prepared" else [found.path]


def to_grey(rgb: np.ndarray, formula: str) -> np.ndarray:
    """Grey values of RGB images, uint8 [..., 3] to uint8 [...].

    `tf` is TensorFlow's rgb_to_grayscale: weights 0.2989, 0.5870 and 0.1140 in float32, then floor(255.5 y). `pil` is
    Pillow's mode L: integer weights 19595, 38470 and 7471 over 2^16, rounded. They differ by one on a quarter of all
    colours.
    """
    if formula == "pil":
        red, green, blue = (rgb[..., channel].astype(np.uint32) for channel in range(3))
        return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).astype(np.uint8)
    weighted = rgb.astype(np.float32) * np.float32(1 / 255) * np.array([0.2989, 0.587, 0.114], np.float32)
    y = weighted[..., 0] + weighted[..., 1] + weighted[..., 2]
    return (y * np.float32(255.5)).astype(np.uint8)


def official_splits(train: Images, test: Images) -> dict[str, Images]:
    """LRA's splits of images in the prepared set's order: 90 and 10 % of the training images, and all test images."""
    boundary = percent(90, len(train[1]))
    first, rest = ((train[0][part], train[1][part]) for part in (slice(boundary), slice(boundary, None)))
    return {"train": first, "validation": rest, "test": test}


def _read_files(found: Found, grey: str, report: Report) -> tuple[Images, Images]:
    """Training and test images of the archive or its unpacked folder, in the prepared set's order."""
    parts: dict[str, Images] = {}

    def read(name: str, content: IO[bytes]) -> None:
        file = _MEMBER.search(name)[1]  # type: ignore[index]
        parts[file] = _decode(f"{found.path}, {name}", content.read(), grey)
        report(len(parts), 6)

    read_members(found, _MEMBER, read, FILES)
    if missing := {*_TRAIN_FILES, _TEST_FILE} - set(parts):
        raise DataError(f"{found.path} lacks {', '.join(sorted(missing))}")
    train = tuple(np.concatenate(arrays) for arrays in zip(*(parts[file] for file in _TRAIN_FILES), strict=True))
    return _in_order("train", *train), _in_order("test", *parts[_TEST_FILE])


def _decode(where: str, content: bytes, grey: str) -> Images:
    if len(content) % _RECORD or not content:
        raise DataError(f"{where}: {len(content):,} bytes are no whole number of records of {_RECORD:,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    labels, planes = records[:, 0], records[:, 1:].reshape(-1, 3, PIXELS)
    if labels.max() >= SHAPE.num_classes:
        raise DataError(f"{where}: record {int(labels.argmax())} has the label {labels.max()}; labels are 0 to 9")
    return to_grey(np.moveaxis(planes, 1, 2), grey), labels


def _in_order(split: str, pixels: np.ndarray, labels: np.ndarray) -> Images:
    order = tfds_order(split, [str(i) for i in range(len(labels))])
    return pixels[order], labels[order]


def _read_prepared(folder: Path, split: str, grey: str, report: Report) -> Images:
    pixels, labels = [], []
    total = sum(FULL_SIZES.values())
    for row in read_prepared(folder, split):
        pixels.append(to_grey(np.asarray(row["image"]), grey).reshape(PIXELS))
        labels.append(int(row["label"]))
        report(len(labels) + (split == "test") * (total - FULL_SIZES["test"]), total)
    return np.stack(pixels), np.array(labels, np.uint8)


def _task(found: Found, sizes: Mapping[str, int], max_length: int, grey: Literal["tf", "pil"], report: Report) -> Task:
    if found.kind == "prepared":
        train, test = (_read_prepared(found.path, split, grey, report) for split in ("train", "test"))
    else:
        train, test = _read_files(found, grey, report)
    splits: dict[str, Split] = {}
    for name, (pixels, labels) in official_splits(train, test).items():
        size = sizes[name]
        require(len(labels), size, f"{found.path}: {name} images")
        tokens = np.ascontiguousarray(pixels[:size, :max_length]).reshape(-1)
        splits[name] = Split(tokens, np.arange(size + 1) * max_length, labels[:size])
    return task_of(
        splits,
        name="image",
        version=VERSION,
        source="official",
        shape=SHAPE,
        max_length=max_length,
        truncated=sum(sizes.values()) * (max_length < PIXELS),
    )
