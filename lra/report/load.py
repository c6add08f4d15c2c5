"""Reads score and speed files. What is foreign or damaged is named with its reason and left out, never guessed at."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
STATUSES = ("complete", "diverged", "out_of_memory", "timed_out", "failed", "interrupted")
SOURCES = ("official", "generated", "packaged", "surrogate")
MODES = ("train", "inference")
MEMORY_SOURCES = ("device", "compiled", "process")  # most exact first


class Damaged(ValueError):
    """A file that does not keep the format; the text says what is wrong."""


@dataclass(frozen=True)
class Score:
    """One run: one variant, trained on one task with one seed. Accuracies are fractions."""

    path: Path
    folder: str  # bigbird, or bigbird@1a2b3c4d for a run with overrides
    variant: str
    family: str
    task: str
    preset: str
    seed: int
    status: str
    error: str | None
    config_hash: str
    source: str | None = None
    fingerprint: str | None = None
    baselines: dict[str, float] = field(default_factory=dict)
    accuracy: float | None = None  # None unless complete
    interval: tuple[float, float] | None = None
    n_test: int | None = None
    at_chance: bool = False
    parameters: int | None = None
    ratio_to_transformer: float | None = None
    within_lra_rule: bool | None = None
    history: tuple[dict[str, Any], ...] = ()

    @property
    def predictions(self) -> Path:
        """Where the run keeps its predictions on the test split."""
        return self.path.with_suffix(".predictions.npz")


@dataclass(frozen=True)
class Cell:
    """One measurement of speed and memory. Seconds, sequences per second, bytes."""

    mode: str
    length: int
    batch_size: int
    precision: str
    status: str
    simulated: bool = False
    error: str | None = None
    step_seconds: float | None = None  # median
    spread: tuple[float, float] | None = None  # 10th and 90th percentile of step_seconds
    sequences_per_second: float | None = None
    flops_per_step: float | None = None
    peak_bytes: dict[str, float] = field(default_factory=dict)  # known sources only
    drift: float | None = None


@dataclass(frozen=True)
class Speed:
    """The cells of one variant, all measured on one kind of hardware."""

    path: Path
    folder: str
    variant: str
    family: str
    preset: str
    hardware: str
    hardware_name: str
    config_hash: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Skipped:
    """A file that was left out."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Results:
    """All that one results folder holds."""

    root: Path
    scores: tuple[Score, ...]
    speeds: tuple[Speed, ...]
    skipped: tuple[Skipped, ...]

    @property
    def presets(self) -> list[str]:
        """The presets that have files, sorted."""
        return sorted({score.preset for score in self.scores} | {speed.preset for speed in self.speeds})


def load(root: Path) -> Results:
    """Reads `root/scores` and `root/speed`. Raises nothing for a bad file: it is listed in `skipped`."""
    skipped: list[Skipped] = []
    scores = list(_read_all(root, "scores", _read_score, skipped))
    speeds = list(_read_all(root, "speed", _read_speed, skipped))
    return Results(root, tuple(scores), tuple(speeds), tuple(skipped))


def _read_all(root: Path, room: str, read: Callable[[Path, Path], Any], skipped: list[Skipped]) -> Iterator[Any]:
    for path in sorted(path for path in (root / room).rglob("*") if path.is_file() and not _is_predictions(path)):
        try:
            yield read(path, path.relative_to(root / room))
        except Damaged as error:
            skipped.append(Skipped(path, str(error)))
        except (OSError, UnicodeDecodeError, RecursionError) as error:
            skipped.append(Skipped(path, f"unreadable: {error}"))


def _is_predictions(path: Path) -> bool:
    return re.fullmatch(r"seed\d+\.predictions\.npz", path.name) is not None


def _read_score(path: Path, place: Path) -> Score:
    if len(place.parts) != 4 or not re.fullmatch(r"seed\d+\.json", place.name):
        raise Damaged("foreign: expected <preset>/<variant>/<task>/seed<k>.json")
    record = _Record.read(path)
    preset, folder, task, name = place.parts
    record.expect({"preset": preset, "task": task, "seed": int(name[4:-5])}, folder)
    status = record.choice("status", STATUSES)
    complete = status == "complete"
    interval = record.optional("metrics.interval", list) if complete else None
    return Score(
        path=path,
        folder=folder,
        variant=record.get("variant", str),
        family=record.optional("family", str) or "user",
        task=task,
        preset=preset,
        seed=record.get("seed", int),
        status=status,
        error=record.optional("error", str),
        config_hash=record.get("config_hash", str),
        source=record.choice("data.source", SOURCES) if complete else record.optional("data.source", str),
        fingerprint=record.optional("data.fingerprint", str),
        baselines=record.numbers("data.baselines"),
        accuracy=record.fraction("metrics.test_accuracy") if complete else None,
        interval=_pair(interval, "metrics.interval"),
        n_test=record.get("metrics.n_test", int) if complete else None,
        at_chance=bool(record.optional("metrics.at_chance", bool)),
        parameters=record.optional("parameters.count", int),
        ratio_to_transformer=record.optional("parameters.ratio_to_transformer", float),
        within_lra_rule=record.optional("parameters.within_lra_rule", bool),
        history=tuple(entry for entry in record.optional("history", list) or () if isinstance(entry, dict)),
    )


def _read_speed(path: Path, place: Path) -> Speed:
    if len(place.parts) != 3 or place.suffix != ".json":
        raise Damaged("foreign: expected <hardware>/<preset>/<variant>.json")
    record = _Record.read(path)
    hardware, preset, folder = place.parts[0], place.parts[1], place.name.removesuffix(".json")
    record.expect({"preset": preset}, folder)
    return Speed(
        path=path,
        folder=folder,
        variant=record.get("variant", str),
        family=record.optional("family", str) or "user",
        preset=preset,
        hardware=hardware,
        hardware_name=record.optional("hardware.name", str) or hardware,
        config_hash=record.get("config_hash", str),
        cells=tuple(_read_cell(cell) for cell in record.get("cells", list)),
    )


def _read_cell(data: Any) -> Cell:
    if not isinstance(data, dict):
        raise Damaged("cells: a cell is not a table of keys")
    record = _Record(data)
    status = record.get("status", str)
    complete = status == "complete"
    low, high = record.optional("step_seconds.p10", float), record.optional("step_seconds.p90", float)
    return Cell(
        mode=record.choice("mode", MODES),
        length=record.get("length", int),
        batch_size=record.get("batch_size", int),
        precision=record.get("precision", str),
        status=status,
        simulated=bool(record.optional("simulated", bool)),
        error=record.optional("error", str),
        step_seconds=record.positive("step_seconds.median") if complete else None,
        spread=(low, high) if complete and low is not None and high is not None else None,
        sequences_per_second=record.positive("sequences_per_second") if complete else None,
        flops_per_step=record.optional("flops_per_step", float),
        peak_bytes={key: value for key, value in record.numbers("peak_bytes").items() if key in MEMORY_SOURCES},
        drift=record.optional("drift", float),
    )


def _pair(values: list[Any] | None, key: str) -> tuple[float, float] | None:
    if values is None:
        return None
    if len(values) != 2 or not all(isinstance(value, int | float) and 0 <= value <= 1 for value in values):
        raise Damaged(f"{key}: expected two fractions, found {values}")
    return float(values[0]), float(values[1])


def _refuse(constant: str) -> None:
    raise Damaged(f"damaged: {constant} is not JSON; an unknown value is null")


class _Record:
    """Typed access to the nested keys of one file: `get("data.source", str)`; Damaged says which key is wrong."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    @classmethod
    def read(cls, path: Path) -> "_Record":
        try:
            data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        except json.JSONDecodeError as error:
            raise Damaged(f"damaged: not JSON ({error})") from None
        if not isinstance(data, dict):
            raise Damaged("damaged: not a table of keys")
        record = cls(data)
        if (version := record.get("schema_version", int)) != SCHEMA_VERSION:
            raise Damaged(f"schema_version {version}; this version reads {SCHEMA_VERSION}")
        return record

    def expect(self, place: dict[str, str | int], folder: str) -> None:
        """Raises Damaged when the file says something else than the folders it lies in."""
        for key, value in place.items():
            if (found := self.get(key, type(value))) != value:
                raise Damaged(f"{key} is {found!r} in the file and {value!r} in its path")
        if (variant := self.get("variant", str)) != folder and folder.partition("@")[0] != variant.partition("@")[0]:
            raise Damaged(f"variant is {variant!r} in the file and {folder!r} in its path")

    def optional(self, key: str, kind: type) -> Any:
        """The value of a dotted key, None where it or one of its parents is missing or null."""
        value: Any = self._data
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return None
        accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise Damaged(f"{key}: expected {kind.__name__}, found {value!r}")
        return value

    def get(self, key: str, kind: type) -> Any:
        value = self.optional(key, kind)
        if value is None:
            raise Damaged(f"{key} is missing")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value: str = self.get(key, str)
        if value not in choices:
            raise Damaged(f"{key}: {value!r} is none of {', '.join(choices)}")
        return value

    def fraction(self, key: str) -> float:
        value = float(self.get(key, float))
        if not 0 <= value <= 1:
            raise Damaged(f"{key}: {value} is not a fraction between 0 and 1")
        return value

    def positive(self, key: str) -> float:
        value = float(self.get(key, float))
        if not 0 < value < math.inf:
            raise Damaged(f"{key}: {value} is not above 0")
        return value

    def numbers(self, key: str) -> dict[str, float]:
        """The entries of a table that are numbers; null means unknown and is left out."""
        table = self.optional(key, dict) or {}
        wrong = [name for name, value in table.items() if isinstance(value, bool | str | list | dict)]
        if wrong:
            raise Damaged(f"{key}.{wrong[0]}: expected a number, found {table[wrong[0]]!r}")
        return {name: float(value) for name, value in table.items() if value is not None}
