"""Pathfinder and Path-X images, made by the released generator's rules, about a hundred times as fast.

Two contours and some distractors, all dashed; two round markers. The label says whether one contour joins the markers.
Linsley et al. 2018, https://arxiv.org/abs/1805.08315; in the arena: Tay et al. 2020, https://arxiv.org/abs/2011.04006.

Image i of a seed is the same whatever else is made, on however many cores: images come in shards of `SHARD`, and what
is in one is decided by the parameters, the seed and the shard's number alone.

A score on these images is to be read beside what the positions of the markers give away by themselves: measured on hard
images, 67 % of the labels at 32 pixels, 69 % at 64, 51 % at 128. That is the original's doing: at the smaller sizes the
first contour sets out to the upper left only (`_seedable` in `tasks.pathfinder_stamps`) and ends elsewhere than the
second. The short form, which is ours, has `even_markers`.
"""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tasks.cache import Report
from tasks.errors import DataError
from tasks.pathfinder_snakes import Pairs, Window, grow_distractors, grow_even_pairs, grow_pairs
from tasks.pathfinder_stamps import PaddleShape, PaddleTable, marker, paddle_table

VERSION = 2  # rises whenever the same parameters and seed would give other images, or parameters are added
SHARD = 100
DIFFICULTY = {"easy": 6, "intermediate": 9, "hard": 14}  # paddles a contour
SHORT = 5  # paddles a contour of the short form, which was never released


@dataclass(frozen=True)
class PathfinderParameters:
    """What decides how the images look; lengths in pixels (`pathfinder_parameters` knows the released values).

    Attributes:
        size: side of the image.
        contour_length: paddles in each of the two contours; a distractor has a third of that.
        padding: border that no paddle enters.
        seed_distance: between the starts of the two contours.
        paddle_length, paddle_thickness, continuity, antialias: see `PaddleShape`.
        paddle_margins: clearance around paddles; one of these is drawn for each image.
        marker_radius: of the two discs.
        distractor_paddles: in all distractors together, where every one finds a place.
        contrast, target_contrast: brightness of paddles, and by how much that of the two contours differs from it.
        even_markers: the markers' positions do not tell the label, as they do in the original. Contours set out in all
            directions, only pairs stay whose ends lie equally far from the starts, and images are turned and mirrored.
    """

    size: int
    contour_length: int
    padding: int
    seed_distance: int
    paddle_length: int
    paddle_thickness: float
    paddle_margins: tuple[int, ...]
    marker_radius: float
    continuity: float
    distractor_paddles: int
    contrast: float
    target_contrast: float = 1.0
    antialias: int = 2
    even_markers: bool = False

    def __post_init__(self) -> None:
        if self.contour_length < 3:
            raise DataError(
                f"contour_length is {self.contour_length}; a distractor has a third of it, so it must be 3 or more"
            )
        if self.padding < 1:
            raise DataError(f"padding is {self.padding}; contours turn back at the border only if it is 1 or more")
        reach = self.paddle_length + max(self.paddle_margins) + 1
        if self.seed_distance < reach:
            raise DataError(
                f"seed_distance is {self.seed_distance}; a first paddle reaches {reach} and would leave the image"
            )

    @property
    def distractor_length(self) -> int:
        """Paddles in a distractor."""
        return self.contour_length // 3

    @property
    def distractors(self) -> int:
        """Distractors to try to place in an image."""
        return self.distractor_paddles // self.distractor_length

    def shape(self, margin: int) -> PaddleShape:
        """The shape of paddles with this clearance."""
        return PaddleShape(self.paddle_length, self.paddle_thickness, margin, self.continuity, self.antialias)


# size: padding, seed_distance, paddle length, thickness and margins, marker_radius, continuity
_GEOMETRY = {
    20: (1, 4, 2, 0.5, (1,), 1.5, 1.0),  # the smallest that has room where contours start
    32: (1, 7, 2, 0.5, (1,), 1.5, 1.0),
    64: (1, 12, 5, 1.0, (1,), 2.5, 1.8),
    128: (1, 20, 5, 1.5, (2, 3), 3.0, 1.8),
    256: (22, 27, 5, 2.0, (3,), 5.0, 1.8),
}
# size: distractor_paddles, contrast, target_contrast
_INK = {
    "documented": {32: (20, 2.0, 0.75), 64: (22, 0.8, 1.0), 128: (35, 0.9, 1.0), 256: (30, 1.0, 1.0)},
    "short": {20: (2, 2.0, 0.75)},
    "matched": {32: (40, 2.0, 0.75), 64: (44, 0.93, 1.0), 128: (70, 0.82, 1.0), 256: (60, 1.0, 1.0)},
}


def pathfinder_parameters(size: int, contour_length: int, name: str = "matched") -> PathfinderParameters:
    """The released parameters for images of 32, 64, 128 or 256 pixels and contours of 6, 9 or 14 paddles.

    `documented` is what the docstrings of the released loader say. `matched` is what the released images show: twice
    the distractors, and the contrast measured on genuine images of 64 and 128 pixels. No genuine image of 32 or 256
    pixels could be had: there `matched` doubles the distractors likewise and keeps the documented contrast.

    `short` is no released set but the same law made small, for preset mini: 20 pixels, the paddles and markers of 32,
    contours of 5, and even markers.

    Raises:
        DataError: if the size, the length or the name is none of these.
    """
    if name not in _INK:
        raise DataError(f"{name!r} is none of the parameters {sorted(_INK)}")
    for value, known in ((size, _INK[name]), (contour_length, [SHORT] if name == "short" else DIFFICULTY.values())):
        if value not in known:
            raise DataError(f"{value!r} is none of the {name} parameters {sorted(known)}")
    return PathfinderParameters(size, contour_length, *_GEOMETRY[size], *_INK[name][size], even_markers=name == "short")


def example_type(size: int) -> np.dtype:
    """One example: what the task needs, and where things are (pixels y, x), for those who want to check it."""
    return np.dtype(
        [
            ("image", np.uint8, (size, size)),
            ("label", np.uint8),  # 1: one contour joins the markers
            ("origin", np.int16, 2),  # marker at the first paddle of a contour
            ("terminal", np.int16, 2),  # marker at the last paddle of the same contour, or of the other
            ("margin", np.uint8),
            ("distractors", np.uint8),  # placed
        ]
    )


def shard(parameters: PathfinderParameters, seed: int, index: int) -> np.ndarray:
    """Makes examples [SHARD * index, SHARD * (index + 1)) of a seed, an array [SHARD] of `example_type`."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))
    examples = np.zeros(SHARD, example_type(parameters.size))
    examples["label"] = rng.random(SHARD) < 0.5
    # Label and margin are drawn once, before the contours, and outlive restarts: a margin that often fails is no rarer.
    margins = np.array(parameters.paddle_margins)
    examples["margin"] = margins[(rng.random(SHARD) * len(margins)).astype(int)]
    for margin in parameters.paddle_margins:
        rows = np.flatnonzero(examples["margin"] == margin)
        if len(rows):
            examples[rows] = _draw(examples[rows], parameters, margin, rng)
    return examples


def _draw(examples: np.ndarray, parameters: PathfinderParameters, margin: int, rng: np.random.Generator) -> np.ndarray:
    """Fills in examples whose label and margin are set, all with one margin."""
    shape = parameters.shape(margin)
    window = Window(parameters.size, parameters.padding, shape.guard)
    table = paddle_table(shape, window.stride, every_direction=parameters.even_markers)
    grow = grow_even_pairs if parameters.even_markers else grow_pairs
    pairs = grow(len(examples), parameters.contour_length, parameters.seed_distance, window, table, rng)
    canvas = np.zeros(pairs.canvas.shape, np.float32)
    rows = np.arange(len(examples))[:, None, None]
    _ink(canvas, rows, pairs.anchor, pairs.orientation, parameters.contrast * parameters.target_contrast, table)

    length = parameters.distractor_length
    for distractors in grow_distractors(pairs.canvas, parameters.distractors, length, window, table, rng):
        row, anchor, orientation = distractors
        _ink(canvas, row[:, None], anchor, orientation, parameters.contrast, table)
        examples["distractors"][row] += 1

    _choose_markers(examples, pairs, window, rng)
    for example, drawing in zip(examples, window.crop(canvas), strict=True):
        example["image"] = _mark(drawing, example["origin"], example["terminal"], parameters)
    if parameters.even_markers:
        _turn(examples, rng)
    return examples


def _ink(
    canvas: np.ndarray,
    row: np.ndarray,
    anchor: np.ndarray,
    orientation: np.ndarray,
    contrast: float,
    table: PaddleTable,
) -> None:
    """Draws paddles onto float canvases [N, stride, stride]; the last axis of `anchor` holds paddles of one canvas."""
    pixels = canvas.reshape(-1)
    start = row * canvas[0].size + anchor
    for paddle in np.ndindex(*anchor.shape[1:]):
        at = start[:, *paddle, None] + table.line[orientation[:, *paddle]]
        pixels[at] = np.maximum(pixels.take(at), np.float32(contrast) * table.ink[orientation[:, *paddle]])


def _choose_markers(examples: np.ndarray, pairs: Pairs, window: Window, rng: np.random.Generator) -> None:
    """Draws which contour gets the first marker; the second lies on the same one or the other, as the label says."""
    row = np.arange(len(examples))
    first = (rng.random(len(examples)) < 0.5).astype(int)
    second = np.where(examples["label"] == 1, first, 1 - first)
    examples["origin"] = window.point(pairs.anchor[row, first, 0])
    examples["terminal"] = window.point(pairs.anchor[row, second, -1])


def _mark(
    drawing: np.ndarray, origin: np.ndarray, terminal: np.ndarray, parameters: PathfinderParameters
) -> np.ndarray:
    """Adds the markers and scales to 8 bits by the brightest pixel (a marker's, where the filter overshoots)."""
    discs = [
        marker(parameters.size, centre, parameters.marker_radius, parameters.antialias) for centre in (origin, terminal)
    ]
    image = np.maximum(drawing, np.maximum(*discs)).astype(np.float64)
    return np.floor(255 * image / image.max()).astype(np.uint8)


def _turn(examples: np.ndarray, rng: np.random.Generator) -> None:
    """Turns and mirrors each example into one of the eight ways that a square lies on itself."""
    upside_down, left_right, diagonal = rng.random((3, len(examples))) < 0.5
    for axis, chosen in enumerate((upside_down, left_right)):
        examples["image"][chosen] = np.flip(examples["image"][chosen], axis + 1)
        for end in ("origin", "terminal"):
            examples[end][chosen, axis] = examples["image"].shape[1] - 1 - examples[end][chosen, axis]
    examples["image"][diagonal] = examples["image"][diagonal].swapaxes(1, 2)
    for end in ("origin", "terminal"):
        examples[end][diagonal] = examples[end][diagonal][:, ::-1]


def generate(parameters: PathfinderParameters, count: int, seed: int, first: int = 0) -> np.ndarray:
    """Makes examples [first, first + count) of a seed in this process, an array [count] of `example_type`."""
    start, end = first // SHARD, -(-(first + count) // SHARD)
    shards = [shard(parameters, seed, index) for index in range(start, end)]
    empty = np.zeros(0, example_type(parameters.size))
    return np.concatenate([empty, *shards])[first - start * SHARD :][:count]


def write_shards(
    folder: Path,
    parameters: PathfinderParameters,
    count: int,
    seed: int,
    workers: int | None = None,
    report: Report | None = None,
) -> list[Path]:
    """Makes examples [0, count) of a seed, as `.npy` files of `SHARD` examples each (the last may hold more).

    Shards that are there already are kept: an interrupted call is simply repeated, and a larger `count` adds to them.

    Args:
        folder: made if missing; belongs to one seed and one set of parameters, which it names in `parameters.json`.
        parameters, count, seed: what to make.
        workers: processes; as many as there are cores to use unless given.
        report: called after every shard with the images there are and the images there will be.

    Returns:
        The files, in order; each can be memory-mapped.

    Raises:
        DataError: `folder` holds images of another seed, version or set of parameters, or a process was killed.
    """
    _claim(folder, parameters, seed)
    paths = [folder / f"shard-{index:05d}.npy" for index in range(-(-count // SHARD))]
    missing = [index for index, path in enumerate(paths) if not path.exists()]
    workers = min(workers or len(os.sched_getaffinity(0)), len(missing))
    made = len(paths) - len(missing)
    for _ in _write_missing(paths, missing, parameters, seed, workers):
        made += 1
        if report:
            report(min(made * SHARD, count), count)
    return paths


def _write_missing(
    paths: list[Path], missing: list[int], parameters: PathfinderParameters, seed: int, workers: int
) -> Iterator[None]:
    """Writes the missing shards, and yields after each."""
    if workers <= 1:
        for index in missing:
            _write(paths[index], parameters, seed, index)
            yield
        return
    # A fresh interpreter for each worker: forking a process that runs threads (jax does) can hang.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        jobs = [pool.submit(_write, paths[index], parameters, seed, index) for index in missing]
        for job in as_completed(jobs):
            job.result()
            yield
    except BrokenProcessPool as error:
        raise DataError(
            f"a process that made Pathfinder images for {paths[0].parent} was killed, perhaps for want of memory. "
            "What is finished is kept: run it again, on fewer cores if it happens again."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _claim(folder: Path, parameters: PathfinderParameters, seed: int) -> None:
    """Notes in `folder` what is made there, or checks that it is this."""
    wanted = json.dumps({"version": VERSION, "shard": SHARD, "seed": seed, **asdict(parameters)})
    note = folder / "parameters.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not note.exists():
        _replace(note, lambda file: file.write(wanted.encode()))
    if note.read_text() != wanted:
        raise DataError(f"{folder} holds images made with {note.read_text()}, not with {wanted}; choose another folder")


def _write(path: Path, parameters: PathfinderParameters, seed: int, index: int) -> None:
    """Makes and writes one shard."""
    examples = shard(parameters, seed, index)
    _replace(path, lambda file: np.save(file, examples))


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
