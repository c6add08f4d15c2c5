"""Joins scores and speed into one row a variant, and chooses what can be compared: which tasks, which measurement.

Nothing is ever merged across config hashes, and nothing missing is filled in.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lra.report.load import MEMORY_SOURCES, Cell, Results, Score

FIVE = ("listops", "text", "retrieval", "image", "pathfinder")
PATH_X = "pathx"
SIX = (*FIVE, PATH_X)
TITLES = {
    "listops": "ListOps",
    "text": "Text",
    "retrieval": "Retrieval",
    "image": "Image",
    "pathfinder": "Pathfinder",
    "pathx": "Path-X",
}
MARKS = {"packaged": "*", "surrogate": "\N{DAGGER}"}
FAILED_PATH_X = 0.5  # what papers count a failed Path-X as in the mean of six
REFERENCE = "transformer"
WIDE = 10.0  # times as fast as another, from which on speeds are drawn on a logarithmic axis


def title(task: str) -> str:
    """A task's name as it is printed."""
    return TITLES.get(task, task)


@dataclass(frozen=True)
class TaskScore:
    """One variant on one task: every seed of one config hash. Accuracies are fractions."""

    task: str
    config_hash: str
    runs: tuple[Score, ...]

    @property
    def complete(self) -> dict[int, float]:
        """Accuracy by seed, of the runs that ended well."""
        return {run.seed: run.accuracy for run in self.runs if run.accuracy is not None}

    @property
    def mean(self) -> float | None:
        """Mean over the complete seeds; None without one."""
        return statistics.fmean(self.complete.values()) if self.complete else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over seeds; None below two."""
        return statistics.stdev(self.complete.values()) if len(self.complete) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % Wilson interval of the mean, for the size of the test split (more seeds do not make it larger)."""
        done = [run for run in self.runs if run.accuracy is not None]
        if len(done) == 1 and done[0].interval is not None:
            return done[0].interval
        sizes = [run.n_test for run in done if run.n_test]
        return wilson(self.mean, min(sizes)) if self.mean is not None and sizes else None

    @property
    def failed_path_x(self) -> bool:
        """Path-X only: no seed got clear of chance."""
        done = [run for run in self.runs if run.accuracy is not None]
        return self.task == PATH_X and bool(done) and all(run.at_chance for run in done)

    @property
    def mark(self) -> str:
        """The sign of a packaged or surrogate source, else empty."""
        return "".join(sorted({MARKS.get(run.source or "", "") for run in self.runs if run.accuracy is not None}))

    @property
    def trouble(self) -> str:
        """What became of the runs without a score, as in "1 diverged"; empty when all are complete."""
        counts = Counter(run.status for run in self.runs if run.accuracy is None)
        return ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))


@dataclass(frozen=True)
class Row:
    """One variant of one preset."""

    key: str  # unique: the folder's name, with #hash where one folder holds several configs
    label: str  # what a chart prints
    variant: str
    family: str
    tasks: dict[str, TaskScore] = field(default_factory=dict)
    cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)  # by hardware

    @property
    def is_reference(self) -> bool:
        """Whether this is the Transformer that ratios refer to: without overrides, and not one config of several."""
        return self.key == REFERENCE

    def mean(self, tasks: Sequence[str]) -> float | None:
        """Mean accuracy over `tasks`; None if one of them has no score (a failed Path-X counts as 0.5)."""
        means = [self._counted(task) for task in tasks]
        known = [mean for mean in means if mean is not None]
        return statistics.fmean(known) if known and len(known) == len(means) else None

    def deviation(self, tasks: Sequence[str]) -> float | None:
        """Standard deviation, over the seeds that all `tasks` share, of a seed's mean; None below two such seeds."""
        if any(task not in self.tasks for task in tasks):
            return None
        by_task = [self.tasks[task].complete for task in tasks]
        shared = set.intersection(*(set(scores) for scores in by_task)) if by_task else set()
        means = [statistics.fmean(scores[seed] for scores in by_task) for seed in sorted(shared)]
        return statistics.stdev(means) if len(means) > 1 else None

    def marks(self, tasks: Iterable[str]) -> str:
        """The signs of all packaged or surrogate sources among `tasks`."""
        return "".join(sorted({sign for task in tasks if task in self.tasks for sign in self.tasks[task].mark}))

    def trouble(self, tasks: Iterable[str]) -> str:
        """Why there is no mean over `tasks`, as in "no score for Text (1 failed)"; empty if there is one."""
        reasons = []
        for task in tasks:
            score = self.tasks.get(task)
            if score is None or score.mean is None:
                reasons.append(f"{title(task)} ({score.trouble if score else 'not run'})")
        return "no score for " + ", ".join(reasons) if reasons else ""

    @property
    def parameters(self) -> tuple[int | None, int | None]:
        """Smallest and largest number of parameters among the tasks."""
        counts = [run.parameters for score in self.tasks.values() for run in score.runs if run.parameters]
        return (min(counts), max(counts)) if counts else (None, None)

    @property
    def within_lra_rule(self) -> bool | None:
        """Whether the parameters stay within 10 % of the Transformer's on every task; None where no run says so."""
        said = [run.within_lra_rule for score in self.tasks.values() for run in score.runs]
        known = [within for within in said if within is not None]
        return all(known) if known else None

    def _counted(self, task: str) -> float | None:
        score = self.tasks.get(task)
        if score is None:
            return None
        return FAILED_PATH_X if score.failed_path_x else score.mean


def wilson(accuracy: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson score interval of a fraction seen in n trials (95 % by default)."""
    centre = (accuracy + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(accuracy * (1 - accuracy) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def join(results: Results, preset: str) -> list[Row]:
    """One row a variant folder of `preset`; further config hashes in the same folder become rows of their own."""
    groups: dict[str, dict[str, dict[str, list[Score]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for score in results.scores:
        if score.preset == preset:
            groups[score.folder][score.task][score.config_hash].append(score)
    cells: dict[str, dict[str, tuple[Cell, ...]]] = defaultdict(dict)
    names = {score.folder: (score.variant, score.family) for score in results.scores if score.preset == preset}
    for speed in results.speeds:
        if speed.preset == preset:
            cells[speed.folder][speed.hardware] = speed.cells
            names.setdefault(speed.folder, (speed.variant, speed.family))

    labels = _labels(names)
    rows = []
    for folder, (variant, family) in names.items():
        main: dict[str, TaskScore] = {}
        others: dict[str, dict[str, TaskScore]] = defaultdict(dict)
        for task, by_hash in groups[folder].items():
            # most seeds first; of equally many the one with the lowest seed
            ranked = sorted(
                by_hash, key=lambda config: (-len(by_hash[config]), min(run.seed for run in by_hash[config]))
            )
            for rank, config in enumerate(ranked):
                runs = tuple(sorted(by_hash[config], key=lambda run: run.seed))
                (main if rank == 0 else others[config])[task] = TaskScore(task, config, runs)
        rows.append(Row(folder, labels[folder], variant, family, main, dict(cells[folder])))
        for config, tasks in others.items():
            name = f"#{config[:8]}"
            rows.append(Row(folder + name, f"{labels[folder]} {name}", variant, family, tasks))
    return sorted(rows, key=lambda row: row.key)


def _labels(names: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Short names: a dotted class is called by its last part where that is unambiguous."""
    short = {folder: folder[folder.partition("@")[0].rfind(".") + 1 :] for folder in names}
    uses = Counter(short.values())
    return {folder: name if uses[name] == 1 else folder for folder, name in short.items()}


def baselines(rows: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """Accuracy by baseline and task; more than one where two runs were scored on different data."""
    found: dict[str, dict[str, set[float]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for task, score in row.tasks.items():
            for run in score.runs:
                for name, accuracy in run.baselines.items():
                    found[name][task].add(accuracy)
    return {name: {task: sorted(seen) for task, seen in found[name].items()} for name in sorted(found)}


def ranked(rows: Iterable[Row], tasks: Sequence[str]) -> list[Row]:
    """Best first; rows without a mean over `tasks` last."""

    def order(row: Row) -> tuple[bool, float, str]:
        mean = row.mean(tasks)
        return mean is None, -(mean or 0.0), row.key

    return sorted(rows, key=order)


def comparable_tasks(rows: Sequence[Row]) -> tuple[str, ...]:
    """The tasks to draw: the five if most scored rows have all of them, else those that all scored rows share.

    Where they share none, the one that most rows have. Empty without any score.
    """
    scored = [{task for task, score in row.tasks.items() if score.mean is not None} for row in rows]
    scored = [tasks for tasks in scored if tasks]
    if not scored:
        return ()
    if 2 * sum(tasks >= set(FIVE) for tasks in scored) > len(scored):
        return FIVE
    if shared := set.intersection(*scored):
        return tuple(task for task in FIVE if task in shared) or tuple(sorted(shared))
    counts = Counter(task for tasks in scored for task in tasks)
    return (min(counts, key=lambda task: (-counts[task], task)),)


@dataclass(frozen=True)
class Condition:
    """What must be equal before two speeds may stand on one axis."""

    hardware: str
    mode: str
    length: int
    batch_size: int
    precision: str

    def matches(self, cell: Cell) -> bool:
        """Whether a cell was measured like this (its hardware is the caller's to choose)."""
        return (cell.mode, cell.length, cell.batch_size, cell.precision) == (
            self.mode,
            self.length,
            self.batch_size,
            self.precision,
        )

    def cell(self, row: Row) -> Cell | None:
        """The row's cell for this condition, whatever its status."""
        return next((cell for cell in row.cells.get(self.hardware, ()) if self.matches(cell)), None)


def choose_condition(
    rows: Sequence[Row], mode: str, length: int | None = None, hardware: str | None = None
) -> Condition | None:
    """The condition that most rows were measured under; of these the longest. None if there is no such cell.

    So it is the longest length measured by all, wherever one is. Simulated cells do not count.
    """
    machines = Counter(machine for row in rows for machine in row.cells)
    if hardware is None:
        if not machines:
            return None
        hardware = min(machines, key=lambda machine: (-machines[machine], machine))
    counts = Counter(
        Condition(hardware, mode, cell.length, cell.batch_size, cell.precision)
        for row in rows
        for cell in row.cells.get(hardware, ())
        if cell.mode == mode and cell.sequences_per_second and not cell.simulated and length in (None, cell.length)
    )
    return max(counts, key=lambda c: (counts[c], c.length, c.batch_size, c.precision)) if counts else None


def shared_memory_source(cells: Sequence[Cell]) -> str | None:
    """The one kind of peak memory to compare: the most exact that all cells know, else what most know."""
    counts = {source: sum(bool(cell.peak_bytes.get(source)) for cell in cells) for source in MEMORY_SOURCES}
    best = max(counts.values(), default=0)
    return next((source for source in MEMORY_SOURCES if counts[source] == best), None) if best else None


@dataclass(frozen=True)
class Point:
    """One bubble. Accuracy is a fraction, speed in sequences per second, memory in bytes."""

    row: Row
    accuracy: float
    deviation: float | None
    speed: float
    memory: float | None


@dataclass(frozen=True)
class Comparison:
    """What one chart shows, and what it cannot show."""

    preset: str
    tasks: tuple[str, ...]
    condition: Condition | None
    memory_source: str | None
    points: tuple[Point, ...]
    absent: tuple[tuple[Row, str], ...]  # with the reason

    @property
    def reference(self) -> Point | None:
        """The Transformer's point."""
        return next((point for point in self.points if point.row.is_reference), None)

    @property
    def is_wide(self) -> bool:
        """Whether the speeds are so far apart that the slow ones would lie on one heap of a linear axis."""
        speeds = [point.speed for point in self.points]
        return bool(speeds) and max(speeds) > WIDE * min(speeds)


def compare_rows(
    rows: Sequence[Row],
    preset: str,
    tasks: tuple[str, ...] = (),
    mode: str = "train",
    length: int | None = None,
    hardware: str | None = None,
) -> Comparison:
    """Chooses tasks and measurement where they are not given and sorts rows into points and absent ones."""
    tasks = tasks or comparable_tasks(rows)
    scored = [row for row in rows if tasks and row.mean(tasks) is not None]
    condition = choose_condition(scored, mode, length, hardware) or choose_condition(rows, mode, length, hardware)
    found, absent = [], []
    for row in ranked(rows, tasks):
        mean = row.mean(tasks) if tasks else None
        cell = condition.cell(row) if condition else None
        if mean is None:
            absent.append((row, row.trouble(tasks) or "no score"))
        elif cell is None:
            absent.append((row, "not measured" + (f" at length {condition.length:,}" if condition else "")))
        elif cell.simulated:
            absent.append((row, "simulated: a mask over a dense matrix, so its speed says nothing"))
        elif cell.sequences_per_second is None:
            absent.append((row, f"{cell.status.replace('_', ' ')} at length {cell.length:,}"))
        else:
            found.append((row, mean, cell))
    source = shared_memory_source([cell for _, _, cell in found])
    points = [
        Point(row, mean, row.deviation(tasks), cell.sequences_per_second or 0.0, cell.peak_bytes.get(source or ""))
        for row, mean, cell in found
    ]
    return Comparison(preset, tasks, condition, source, tuple(points), tuple(absent))
