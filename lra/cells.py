"""Speed cells from the supervisor's side: which there are, in what order they run, and how far the machine drifted.

Every cell is measured in a child of its own. Cells of all variants take turns, length by length, so that a machine that
slows down slows all of them; a reference cell (the Transformer at the shortest length) is measured again and again, and
what ran while it was more than 15 % away from its median is measured once more.
"""

import itertools
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lra import child, hardware, record, variants
from lra.config import compose_run, dump
from lra.lease import Lease
from lra.runs import Run, prepare, say
from lra.supervise import Supervisor

DRIFT_ALLOWED = 0.15
REFERENCE_SECONDS = 120.0  # after this long the reference is measured again
REFERENCE_LASTS = 1.0  # seconds of steps: enough to tell a drift
REPEATS = 1  # of cells that ran while the machine drifted

CellKey = tuple[str, int, int, str]


@dataclass(frozen=True)
class Cell:
    """One variant, mode and length, with the batch size and the precision of its configuration."""

    run: Run
    mode: str
    length: int

    @property
    def key(self) -> CellKey:
        """What distinguishes the cells of one speed file."""
        return self.mode, self.length, self.run.config.speed.batch_size, self.run.config.speed.precision.value

    def __str__(self) -> str:
        return f"{self.run.label}: speed of {self.mode} at length {self.length:,}"


def measuring_place(run: Run) -> Path:
    """The folder whose lease whoever measures on this machine's devices holds."""
    return Path(run.config.work_dir).absolute() / "speed" / hardware.place()


def measure_speed(runs: Sequence[Run], supervisor: Supervisor) -> list[str]:
    """Measures every cell of these variants that is not measured yet; returns the statuses of all of them.

    One program at a time on a machine's devices: two that measure would slow each other down.
    """
    with Lease(measuring_place(runs[0]), say, supervisor.abandon, stopped=lambda: supervisor.interrupted) as lease:
        statuses = []
        for _, group in itertools.groupby(runs, key=lambda run: run.config.preset):
            statuses += _measure_preset(list(group), supervisor, lease)
        return statuses


def _measure_preset(runs: Sequence[Run], supervisor: Supervisor, lease: Lease) -> list[str]:
    files = {run.speed_file: SpeedFile(run, afresh=run.config.force) for run in runs}
    cells = list(interleaved([file.run for file in files.values()]))
    todo = [cell for cell in cells if not files[cell.run.speed_file].has(cell)]
    if todo and lease.held:
        session = Session(reference_of(runs[0]), supervisor, lease, files)
        for _ in range(1 + REPEATS):
            todo = session.measure(todo)
    if supervisor.interrupted or not lease.held:
        return ["interrupted"]
    return [files[cell.run.speed_file].cells[cell.key]["status"] for cell in cells]


def interleaved(runs: Sequence[Run]) -> Iterable[Cell]:
    """The cells of several variants, mode by mode and length by length, the variants taking turns."""
    for mode in (mode.value for mode in runs[0].config.speed.modes):
        for length in runs[0].config.speed.lengths:
            for run in runs:
                yield Cell(run, mode, length)


def reference_of(run: Run) -> Cell:
    """The Transformer at the shortest length and first mode of the same work, in the same place and limits."""
    kept = ("speed.", "protocol=", "limits.", "work_dir=")
    overrides = [text for text in run.overrides[4:] if text.startswith(kept)]
    names = ["model=transformer", *run.overrides[1:4]]
    overrides.append(f"speed.seconds={min(run.config.speed.seconds, REFERENCE_LASTS)}")
    config = compose_run([*names, *overrides])
    return Cell(Run.of([*names, *overrides], config), config.speed.modes[0].value, min(config.speed.lengths))


class SpeedFile:
    """The speed file of one variant: what it holds already, and what is added.

    Cells of further lengths, modes, batch sizes and precisions join those that are there; another model, other sizes
    around it or another version of the variant begin the file anew, as `afresh` does.
    """

    def __init__(self, run: Run, *, afresh: bool = False, path: Path | None = None) -> None:
        self.run, self.path = run, path or run.speed_file
        work = {"model": run.config.model, "encoder": dump(run.config)["speed"]["encoder"]}
        self.hash = record.config_hash(work | {"version": variants.version(run.target)})
        found = record.read_json(self.path)
        keep = found is not None and found.get("config_hash") == self.hash and not afresh
        cells = found["cells"] if found and keep else []
        self.cells: dict[CellKey, dict[str, Any]] = {_key(cell): cell for cell in cells}

    def at(self, mode: str, length: int) -> dict[str, Any]:
        """The cell of this mode and length in the run's own batch size and precision."""
        return self.cells[Cell(self.run, mode, length).key]

    def has(self, cell: Cell) -> bool:
        """Whether a cell is measured."""
        return self.cells.get(cell.key, {}).get("status") == "complete"

    def add(self, cell: Cell, measured: dict[str, Any]) -> None:
        """Puts a cell in and writes the file."""
        self.cells[cell.key] = measured
        content = {
            "schema_version": record.SCHEMA_VERSION,
            "variant": self.run.variant,
            "label": self.run.label,
            "family": variants.family(self.run.target),
            "preset": self.run.speed_preset,
            "config": {"model": self.run.config.model, "speed": dump(self.run.config)["speed"]},
            "config_hash": self.hash,
            "hardware": hardware.describe(),
            "software": record.software(),
            "git_commit": record.git_commit(),
            "cells": list(self.cells.values()),
        }
        record.write_json(self.path, content)


def _key(measured: dict[str, Any]) -> CellKey:
    return measured["mode"], measured["length"], measured["batch_size"], measured["precision"]


def speed_files(run: Run) -> list[SpeedFile]:
    """The speed files of its variant, of every hardware there is."""
    own = run.speed_file
    folders = own.parents[2].glob(f"*/{own.parent.name}/{own.name}")
    return [SpeedFile(run, path=path) for path in sorted(folders)]


@dataclass
class Session:
    """One sitting at one machine: a stretch of cells lies between two measurements of the reference."""

    reference: Cell
    supervisor: Supervisor
    lease: Lease
    files: dict[Path, SpeedFile]
    seconds: list[float] = field(default_factory=list)  # what the reference took, each time
    referred: float = field(default=0.0)  # when the reference was last measured

    def measure(self, cells: Sequence[Cell]) -> list[Cell]:
        """Measures cells in order; returns those that ran while the machine was not as it mostly is."""
        stretches: list[Stretch] = []
        current: list[Cell] = []
        for cell in cells:
            if self.supervisor.interrupted:
                return []
            if not self.seconds:
                self._refer()
            elif time.monotonic() - self.referred > REFERENCE_SECONDS:
                stretches += self._closed(current)
                current = []
            measured = measure_cell(cell, self.supervisor, self.lease)
            if measured["status"] == "interrupted" or not self.lease.held:
                return []
            self.files[cell.run.speed_file].add(cell, measured)
            current.append(cell)
        stretches += self._closed(current)
        return [cell for stretch in stretches for cell in self._drifted(stretch)]

    def _closed(self, cells: list[Cell]) -> list["Stretch"]:
        """The stretch that ends here, with the reference measured again; none if that can't be measured."""
        before = self.seconds[-1:]
        if not cells or not before or not self._refer():
            return []
        stretch = Stretch(cells, before[0], self.seconds[-1])
        self._note(stretch)  # for whoever stops here; at the end it is known better what is normal
        return [stretch]

    def _note(self, stretch: "Stretch") -> float:
        """Writes into the cells how far from its median the reference was, before or after them, whichever is more."""
        normal = statistics.median(self.seconds)
        drift = max((seconds / normal - 1 for seconds in (stretch.before, stretch.after)), key=abs)
        for cell in stretch.cells:
            file = self.files[cell.run.speed_file]
            file.add(cell, file.cells[cell.key] | {"drift": drift})
        return drift

    def _drifted(self, stretch: "Stretch") -> list[Cell]:
        drift = self._note(stretch)
        if abs(drift) <= DRIFT_ALLOWED:
            return []
        say(f"the machine drifted by {100 * drift:+.0f} % while {len(stretch.cells)} cells were measured")
        return [cell for cell in stretch.cells if self.files[cell.run.speed_file].has(cell)]

    def _refer(self) -> bool:
        measured = measure_cell(self.reference, self.supervisor, self.lease, quiet=True)
        self.referred = time.monotonic()
        complete: bool = measured["status"] == "complete"
        if complete:
            self.seconds.append(measured["step_seconds"]["median"])
        return complete


@dataclass(frozen=True)
class Stretch:
    """Cells between two measurements of the reference, with what that took before and after, in seconds."""

    cells: list[Cell]
    before: float
    after: float


def measure_cell(cell: Cell, supervisor: Supervisor, lease: Lease, *, quiet: bool = False) -> dict[str, Any]:
    """One cell as the speed file has it, whatever becomes of its child."""
    config = cell.run.config
    folder = cell.run.work_folder.parents[1] / "speed" / hardware.place() / f"{cell.mode}-{cell.length}"
    began = time.monotonic()
    prepare(folder, {"config": dump(config), "mode": cell.mode, "length": cell.length})
    outcome = supervisor.run_child("lra.speed", folder, minutes=config.limits.cell_minutes, started=lease.include)
    measured = record.read_json(folder / child.RESULT_FILE) or {}
    if not quiet:
        what = (
            f"{measured['sequences_per_second']:.1f} sequences/s" if measured else f"{outcome.status}: {outcome.error}"
        )
        say(f"{cell}: {what} ({time.monotonic() - began:.0f} s)")
    return {
        "mode": cell.mode,
        "length": cell.length,
        "batch_size": config.speed.batch_size,
        "precision": config.speed.precision.value,
        "status": outcome.status,
        "error": outcome.error,
        "drift": None,
        **measured,
    }
