"""Pathfinder and Path-X, one pixel a token, row by row, ids 0 to 255: does one dashed contour join the two markers?

Pathfinder has 32 x 32 pixels and Path-X 128 x 128, both with contours of 14 paddles (difficulty `hard`). Black is a
colour here, not padding.

Source `generated` makes the images by the released generator's rules (`tasks.pathfinder_generator`). Source `official`
reads the released folder `pathfinder<size>/curv_contour_length_14` in the official splits: 80, 10 and 10 % in the order
of the prepared set. Files that hold no whole image (the release has one, empty, among its easy ones) are left out
afterwards, so they shift neither labels nor splits.

Linsley et al. 2018, https://arxiv.org/abs/1805.08315; Tay et al. 2020, https://arxiv.org/abs/2011.04006.
"""

import io
import itertools
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from tasks import pathfinder_generator as generator
from tasks.archives import Found, Search
from tasks.cache import SPLITS, Report, cached
from tasks.errors import DataError
from tasks.pathfinder_generator import DIFFICULTY, SHARD, PathfinderParameters, pathfinder_parameters, write_shards
from tasks.retrieval import RELEASE
from tasks.splits import require, sizes_of, task_of
from tasks.task import Shape, Split, Task, as_image
from tasks.tfds_order import percent, tfds_order

VERSION = 1
SHAPE = Shape(vocab_size=256, num_classes=2)
LABELS = ("apart", "joined")
FULL_SIZES = {"train": 160_000, "validation": 20_000, "test": 20_000}
SIZES = (32, 64, 128, 256)  # pixels, of the released sets

_FOLDERS = {6: "curv_baseline", 9: "curv_contour_length_9", 14: "curv_contour_length_14"}
_COLUMNS = 11  # folder, file, number, label, continuity, contour length and five more
_LABELS = {"0": 0, "1": 1}
_GENERATED_ORDER = ("test", "validation", "train")
_MARKER_EXAMPLES = 50_000  # a bound of what the rule on marker positions is fitted on
_READERS, _READ_AT_ONCE = 8, 1024


class Row(NamedTuple):
    """One line of the release's metadata.

    Attributes:
        file: the image, relative to the set's folder.
        label: 1 where one contour joins the markers.
        key: of the example in the prepared set.
    """

    file: str
    label: int
    key: str


def load(
    *,
    source: Literal["generated", "official"],
    cache_dir: str | Path,
    data_dir: str | Path,
    size: int,
    contour_length: int,
    parameters: Literal["documented", "matched", "short"],
    max_length: int,
    examples: Mapping[str, int | None],
    seed: int,
) -> Task:
    """Pathfinder images with their baselines, from the cache where they have been built before.

    Args:
        source: `generated` or `official`.
        cache_dir: where encoded data is kept, and generated images from the first one on: an interrupted call resumes.
        data_dir: where the released folders are looked for; read by `official` only.
        size: side of the images, 32, 64, 128 (Path-X) or 256 pixels.
        contour_length: paddles in a contour, 6 (easy), 9 (intermediate) or 14 (hard, what the arena's scores are of).
        parameters: how generated images look; see `pathfinder_parameters`, also for the size and length of `short`.
        max_length: images are cut after this many pixels, of `size` squared.
        examples: size of each split, `train`, `validation` and `test`; null for all, else the first of each.
        seed: of generated images. They are cut in the order test, validation, train: a larger training split leaves
            the other two as they are.

    Raises:
        DataError: missing, ambiguous, incomplete or malformed data, or a cache that cannot be written.
    """
    if not 1 <= max_length <= size**2:
        raise DataError(f"pathfinder: max_length={max_length}; an image of size={size} has {size**2:,} pixels")
    found = locate(source, data_dir=data_dir, cache_dir=cache_dir, size=size, contour_length=contour_length)
    sizes = sizes_of("pathfinder", examples, FULL_SIZES)
    identity = {"size": size, "contour_length": contour_length, "max_length": max_length}
    if found is None:
        law = pathfinder_parameters(size, contour_length, parameters)
        name = f"images{generator.VERSION}-{size}-{contour_length}-{parameters}-seed{seed}"
        folder = Path(cache_dir).expanduser().absolute() / "pathfinder" / name
        return cached(
            lambda report: _generated(folder, law, seed, sizes, max_length, report),
            cache_dir=cache_dir,
            name="pathfinder",
            version=VERSION,
            source=source,
            parameters=identity | {"generator": generator.VERSION, "law": asdict(law), "seed": seed, "examples": sizes},
        )
    wanted = {split: None if examples.get(split) is None else sizes[split] for split in SPLITS}
    return cached(
        lambda report: _official(found.path, size, contour_length, wanted, max_length, report),
        cache_dir=cache_dir,
        name="pathfinder",
        version=VERSION,
        source=source,
        parameters=identity | {"examples": wanted},
        files=[*found.path.glob("metadata/*.npy"), *found.path.glob("imgs/*")],  # not 200,000 images: it takes minutes
    )


def show(tokens: np.ndarray, *, size: int) -> np.ndarray:
    """Grey values of token ids [L]."""
    return as_image(tokens, size)


def locate(
    source: str, *, data_dir: str | Path, cache_dir: str | Path, size: int = 32, contour_length: int = 14
) -> Found | None:
    """The released folder of a size and difficulty, None for what is generated.

    Raises:
        NotFound: lists every path tried and says how to get the data.
        DataError: there is no such set, or two copies in different places, which may differ.
    """
    if source == "generated":
        return None
    if source != "official":
        raise DataError(f"pathfinder: unknown source {source!r}; it is generated or official")
    if size not in SIZES or contour_length not in _FOLDERS:
        raise DataError(
            f"pathfinder: size={size}, contour_length={contour_length}; "
            f"sizes are {', '.join(map(str, SIZES))}, lengths {', '.join(map(str, _FOLDERS))}"
        )
    search = Search(data_dir, cache_dir)
    name = f"pathfinder{size}/{_FOLDERS[contour_length]}"
    search.first(f"{name}/imgs/", f"{name}/metadata/")  # so that the error below names what was looked for
    there = [root / name for root in search.roots if (root / name).is_dir()]
    whole = {path.resolve(): path for path in there if (path / "imgs").is_dir() and (path / "metadata").is_dir()}
    if len(whole) > 1:
        copies = " and ".join(map(str, whole.values()))
        raise DataError(f"pathfinder: {copies} may differ; remove one, or point DATA_DIR elsewhere")
    if whole:
        return Found(next(iter(whole.values())), "folder")
    others = sorted({other for root in search.roots for other in root.glob("pathfinder*/curv_*")} - set(there))
    raise search.not_found(
        f"{name} with its imgs and metadata (source=official, {_difficulty(contour_length)})",
        "pathfinder",
        [],
        *(f"{path} is incomplete." for path in there),
        *(f"{path} is of another size or difficulty." for path in others),
        f"It is part of {RELEASE}; its address is reported closed. "
        f"Unpack it with `tar xzf {RELEASE.name} --wildcards '*/{name}/*'`.",
        "Or use source=generated, which follows the same law.",
    )


def _difficulty(contour_length: int) -> str:
    return next(name for name, length in DIFFICULTY.items() if length == contour_length)


# Generated


def _generated(
    folder: Path, law: PathfinderParameters, seed: int, sizes: Mapping[str, int], max_length: int, report: Report
) -> Task:
    try:
        paths = write_shards(folder, law, sum(sizes.values()), seed, report=report)
    except OSError as error:
        raise DataError(
            f"cannot keep the images in {folder}: {error.strerror or error}. "
            "Make room or choose another folder with LRA_CACHE."
        ) from error
    splits, markers, first = {}, {}, 0
    for name in _GENERATED_ORDER:
        splits[name], markers[name] = _cut(paths, first, sizes[name], law.size, max_length)
        first += sizes[name]
    task = _task(splits, "generated", law.size, max_length)
    positions = marker_position(markers["train"], task.train.labels, markers["test"], task.test.labels)
    majority, bag = (task.baselines[name] for name in ("majority", "bag_of_tokens"))
    return replace(task, baselines={"majority": majority, "marker_position": positions, "bag_of_tokens": bag})


def _cut(paths: Sequence[Path], first: int, count: int, size: int, max_length: int) -> tuple[Split, np.ndarray]:
    """Examples [first, first + count) of the shards, and where their markers are, int16 [count, 2, 2]."""
    pixels, labels = np.empty((count, max_length), np.uint8), np.empty(count, np.uint8)
    markers = np.empty((count, 2, 2), np.int16)
    for index in range(first // SHARD, -(-(first + count) // SHARD)):
        start = index * SHARD
        try:
            shard = np.load(paths[index])
        except (ValueError, EOFError) as error:
            raise DataError(f"{paths[index]} is damaged ({error}); delete it, and it is made again") from None
        rows = shard[max(0, first - start) : first + count - start]
        at = slice(max(start, first) - first, max(start, first) - first + len(rows))
        pixels[at] = rows["image"].reshape(len(rows), size**2)[:, :max_length]
        labels[at] = rows["label"]
        markers[at] = np.stack([rows["origin"], rows["terminal"]], axis=1)
    return _split(pixels, labels), markers


def marker_position(
    train_markers: np.ndarray, train_labels: np.ndarray, test_markers: np.ndarray, test_labels: np.ndarray
) -> float:
    """Accuracy on the test split of trees that see where the two markers are (integer [N, 2, 2]), and no contour.

    The trees are fitted on the first 50,000 training examples at most.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # takes a second to import, and only a build needs it
    from threadpoolctl import threadpool_limits

    train_labels = train_labels[:_MARKER_EXAMPLES]
    if len(np.unique(train_labels)) == 1:
        return float((test_labels == train_labels[0]).mean())
    trees = HistGradientBoostingClassifier(max_depth=4, max_iter=100, early_stopping=False, random_state=0)
    with threadpool_limits(1):  # its threads wait for each other thousands of times: minutes where cores are busy
        trees.fit(_unordered(train_markers[:_MARKER_EXAMPLES]), train_labels)
        return float(trees.score(_unordered(test_markers), test_labels))


def _unordered(markers: np.ndarray) -> np.ndarray:
    """Positions [N, 4], the upper marker first: an image does not say which one lies at a contour's start."""
    order = np.lexsort((markers[..., 1], markers[..., 0]), axis=1)
    return np.take_along_axis(markers, order[..., None], axis=1).reshape(len(markers), 4)


# Released


def read_metadata(path: Path, contour_length: int) -> list[Row]:
    """The rows of a metadata file, which is text for all its name `<shard>.npy`; real arrays of strings are read too.

    Raises:
        DataError: names the file and the line that is no such row, or that is of another contour length.
    """
    rows = []
    for number, columns in enumerate(_lines(path), 1):
        where = f"{path}, line {number}"
        if len(columns) != _COLUMNS:
            raise DataError(f"{where}: {len(columns)} columns; a row has {_COLUMNS}, from folder and file to label on")
        folder, file, _, label, _, length, *_ = columns
        if not (re.fullmatch(r"imgs/\d+", folder) and re.fullmatch(r"\w+\.png", file)):
            raise DataError(f"{where}: {folder[:40]!r}, {file[:40]!r} is no imgs/<shard> and no sample_<number>.png")
        if label not in _LABELS:
            raise DataError(f"{where}: the label {label[:20]!r} is neither 0 nor 1")
        if length != str(contour_length):
            raise DataError(f"{where}: contours of {length[:20]} paddles in a folder of those of {contour_length}")
        rows.append(Row(f"{folder}/{file}", _LABELS[label], f"{folder}_{file}_{number}"))
    return rows


def _lines(path: Path) -> list[list[str]]:
    """The columns of every line, as text."""
    content = path.read_bytes()
    if not content.startswith(b"\x93NUMPY"):
        return [line.split() for line in content.decode("utf-8", "replace").splitlines()]
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged, or made of pickles, which are never loaded: {error}") from None
    if array.ndim == 0 or array.dtype.kind not in "SU":
        raise DataError(f"{path} holds {array.dtype} of shape {array.shape}, not rows of strings")
    return [" ".join(row).split() for row in array.astype(str).reshape(len(array), -1)] if array.size else []


def _rows(folder: Path, contour_length: int) -> list[Row]:
    """All rows, shard by shard: shard 2 before shard 10."""
    shards = [path for path in folder.glob("metadata/*.npy") if re.fullmatch(r"[0-9]+", path.stem)]
    shards.sort(key=lambda path: int(path.stem))
    rows = [row for path in shards for row in read_metadata(path, contour_length)]
    seen: set[str] = set()
    for row in rows:
        if row.file in seen:
            raise DataError(f"{folder}: metadata names {row.file} twice")
        seen.add(row.file)
    return rows


def official_splits(rows: Sequence[Row], contour_length: int) -> dict[str, list[Row]]:
    """The official splits of a set: its first 80, next 10 and last 10 % in the order of the prepared set."""
    order = tfds_order(_difficulty(contour_length), [row.key for row in rows])
    bounds = (0, percent(80, len(rows)), percent(90, len(rows)), len(rows))
    return {
        name: [rows[i] for i in order[start:end]]
        for name, (start, end) in zip(SPLITS, itertools.pairwise(bounds), strict=True)
    }


def _official(
    folder: Path,
    size: int,
    contour_length: int,
    wanted: Mapping[str, int | None],
    max_length: int,
    report: Report,
) -> Task:
    rows = _rows(folder, contour_length)
    if None in wanted.values():
        require(len(rows), sum(FULL_SIZES.values()), f"{folder}: images in all splits")
    official = official_splits(rows, contour_length)
    splits: dict[str, Split] = {}
    skipped: list[str] = []
    total, before = sum(wanted[name] or len(official[name]) for name in SPLITS), 0
    for name in SPLITS:
        count = wanted[name] or len(official[name])
        done = _reporting(report, before, total)
        splits[name] = _read(folder, official[name], min(count, len(official[name])), size, max_length, skipped, done)
        require(len(splits[name]), wanted[name] or 1, f"{folder}: {name} images")
        before += count
    return _task(splits, "official", size, max_length, skipped)


def _reporting(report: Report, before: int, total: int) -> Callable[[int], None]:
    return lambda done: report(before + done, total)


def _read(
    folder: Path,
    rows: Sequence[Row],
    count: int,
    size: int,
    max_length: int,
    skipped: list[str],
    report: Callable[[int], None],
) -> Split:
    """The first `count` images that can be read; the names of those that cannot are added to `skipped`."""
    pixels, labels, taken = np.empty((count, max_length), np.uint8), np.empty(count, np.uint8), 0
    for row, image in _images(folder, rows, size):
        if image is None:
            skipped.append(row.file)
            continue
        pixels[taken], labels[taken] = image.reshape(-1)[:max_length], row.label
        taken += 1
        report(taken)
        if taken == count:
            break
    return _split(pixels[:taken], labels[:taken])


def _images(folder: Path, rows: Sequence[Row], size: int) -> Iterator[tuple[Row, np.ndarray | None]]:
    """Each row's image, in their order; several are read at a time, because disks and networks keep one waiting."""
    with ThreadPoolExecutor(_READERS) as pool:
        for start in range(0, len(rows), _READ_AT_ONCE):
            some = rows[start : start + _READ_AT_ONCE]
            yield from zip(some, pool.map(lambda row: read_image(folder / row.file, size), some), strict=True)


def read_image(path: Path, size: int) -> np.ndarray | None:
    """The pixels of a PNG file, uint8 [size, size], or None where it is empty, cut short, damaged or no PNG.

    Raises:
        DataError: it is not there, or a picture of another kind.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path} is missing, though metadata names it; unpack the release again") from None
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            picture.verify()  # the checksums, which reading pixels ignores; the picture is of no use after it
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            pixels, mode = np.array(picture), picture.mode
    except (OSError, SyntaxError, ValueError, EOFError, zlib.error, struct.error, Image.DecompressionBombError):
        return None
    if mode != "L" or pixels.shape != (size, size):
        sides = " x ".join(map(str, pixels.shape[1::-1]))
        raise DataError(f"{path} has {sides} pixels of mode {mode}, not {size} x {size} of 8-bit grey")
    return pixels


# Both


def _split(pixels: np.ndarray, labels: np.ndarray) -> Split:
    return Split(pixels.reshape(-1), np.arange(len(labels) + 1) * pixels.shape[1], labels)


def _task(
    splits: Mapping[str, Split],
    source: Literal["generated", "official"],
    size: int,
    max_length: int,
    skipped: Sequence[str] = (),
) -> Task:
    return task_of(
        splits,
        name="pathfinder",
        version=VERSION,
        source=source,
        shape=SHAPE,
        max_length=max_length,
        truncated=sum(map(len, splits.values())) * (max_length < size**2),
        skipped_files=skipped,
    )
