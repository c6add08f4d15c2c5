"""One run from the supervisor's side: its identity, its files, and the children that do the work."""

import functools
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from lra import child, hardware, processes, record, variants
from lra.config import BenchConfig, compose_run, dump, identity, may_change_identity
from lra.errors import BadInput
from lra.lease import Lease
from lra.supervise import Outcome, Supervisor
from lra.track import Tracker
from tasks.task import Task


@dataclass(frozen=True)
class Run:
    """One (variant, task, preset, seed), with what its command line changed.

    Attributes:
        variant: the variant's name, or the dotted path of a user's class.
        task_name: the task's name.
        label: folder name in the results: the variant, with `@<hash8>` after it when the command line changes what the
            run computes.
        config: the resolved configuration.
        overrides: what it was composed from; the first four name variant, task, preset and seed.
    """

    variant: str
    task_name: str
    label: str
    config: BenchConfig
    overrides: tuple[str, ...]

    @classmethod
    def of(cls, overrides: Sequence[str], config: BenchConfig) -> "Run":
        """The run of a composed configuration; its first overrides name variant, task, preset and seed."""
        variant, task = (text.partition("=")[2] for text in overrides[:2])
        base = [*overrides[:4], *(text for text in overrides[4:] if not may_change_identity(text))]
        changed, plain = (dict(_flat(identity(each))) for each in (config, compose_run(base)))
        difference = {key: value for key, value in changed.items() if key not in plain or plain[key] != value}
        label = f"{variant}@{record.config_hash(difference)[:8]}" if difference else variant
        return cls(variant, task, label, config, tuple(overrides))

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.label} on {self.task_name}, seed {self.config.seed}"

    @property
    def score_file(self) -> Path:
        """Where its score goes."""
        results, preset = Path(self.config.results), self.config.preset
        return record.score_path(results, preset, self.label, self.task_name, self.config.seed)

    @property
    def speed_preset(self) -> str:
        """What its speed cells are filed under: the preset, or the protocol where that has sizes of its own."""
        return self.config.preset if self.config.protocol == "text" else self.config.protocol

    @property
    def speed_file(self) -> Path:
        """Where the speed cells of its variant go."""
        return record.speed_path(Path(self.config.results), hardware.describe()["name"], self.speed_preset, self.label)

    @property
    def work_folder(self) -> Path:
        """Where its children work."""
        work = Path(self.config.work_dir).absolute()
        return work / "runs" / self.config.preset / self.label / self.task_name / f"seed{self.config.seed}"

    @property
    def target(self) -> str:
        """Dotted path of the variant's class."""
        return self.config.model["_target_"]

    @cached_property
    def task(self) -> Task:
        """The task's data, prepared if need be; raises DataError."""
        return _load_task(json.dumps(self.config.task))

    @cached_property
    def hash(self) -> str:
        """The identity: configuration, data, and the versions of the task and the variant; equal for every seed."""
        versions = {"task": self.task.version, "variant": variants.version(self.target)}
        computed = {key: value for key, value in identity(self.config).items() if key != "seed"}
        return record.config_hash(computed | {"data": self.task.fingerprint, "versions": versions})

    def specification(self, *, alone: bool = True) -> dict[str, Any]:
        """What the children are told: also whether the terminal is theirs, or another run writes to it too."""
        return {
            "alone": alone,
            "config": dump(self.config),
            "title": self.title,
            "hash": f"{self.hash}, seed {self.config.seed}",
            "id": record.config_hash({"run": self.hash, "label": self.label, "results": str(self.score_file)}),
            "group": self.config.preset,
            "history": record.HISTORY_FILE,
        }

    def require_place(self) -> None:
        """Raises what must end a command before its first run.

        That is BadInput when it can't write its files, or when its score file is damaged or another run's, and
        DataError when its data can't be had.
        """
        for key in ("results", "work_dir"):
            record.require_writable(Path(getattr(self.config, key)), key)
        record.read_json(self.speed_file)
        found, own_hash = record.read_json(self.score_file), self.hash
        if found is not None and not self.config.force and found.get("config_hash") != own_hash:
            raise BadInput(
                f"{self.score_file} is of another run (hash {found.get('config_hash')}, this one {self.hash}): "
                "data, code version or configuration changed. Use force=true to replace it, or another results folder."
            )


@functools.lru_cache(maxsize=32)
def _load_task(specification: str) -> Task:
    """The data that all runs of a task share."""
    return child.load_task(json.loads(specification))


def _flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested dictionaries by their dotted keys."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def train_and_test(run: Run, supervisor: Supervisor) -> str:
    """Trains and tests in a child, writes the score file, and returns the status."""
    if processes.number() > 0:
        return _train_along(run, supervisor)
    with Lease(run.work_folder, say, supervisor.abandon, stopped=lambda: supervisor.interrupted) as lease:
        if not lease.held:
            return "interrupted"
        found = {} if run.config.force else record.read_json(run.score_file) or {}
        if found.get("status") in record.FINISHED:
            say(f"{run.title}: already in {run.score_file}")
            return found["status"]
        attempts = found.get("attempts", 0) + (found.get("status") != "interrupted")
        if found.get("status") == "failed" and attempts > run.config.limits.attempts:
            say(f"{run.title}: failed {attempts - 1} times, last with: {found['error']}. Try again with force=true.")
            return "failed"
        return _attempt(run, supervisor, lease, attempts)


def _train_along(run: Run, supervisor: Supervisor) -> str:
    """What a process other than the first does: its part of every step. It leaves the files to the first."""
    found = {} if run.config.force else record.read_json(run.score_file) or {}
    if found.get("status") in record.FINISHED:
        return found["status"]
    folder = prepare(run.work_folder / f"process{processes.number()}", run.specification())
    outcome = supervisor.run_child("lra.train", folder, minutes=run.config.limits.train_minutes)
    if outcome.status != "complete":
        say(f"{run.title}, process {processes.number()}: {outcome.status}: {outcome.error}")
    return outcome.status


def may_fail_again(run: Run) -> bool:
    """Whether a run failed the last time and has attempts left."""
    found = record.read_json(run.score_file) or {}
    return found.get("status") == "failed" and found["attempts"] < run.config.limits.attempts


def _attempt(run: Run, supervisor: Supervisor, lease: Lease, attempts: int) -> str:
    started = datetime.now(UTC)
    if run.config.force:
        shutil.rmtree(run.work_folder / "checkpoints", ignore_errors=True)
    folder = prepare(run.work_folder, run.specification(alone=supervisor.at_once == 1))
    tracker = Tracker(run.config.tracking, folder)
    minutes = run.config.limits.train_minutes
    outcome = supervisor.run_child("lra.train", folder, minutes=minutes, started=lease.include)
    if not lease.held:
        say(f"{run.title}: another process has taken over {folder}, this one lets go of it")
        return "interrupted"
    result = record.read_json(folder / child.RESULT_FILE) or {}
    if outcome.status == "complete":
        record.copy_file(folder / record.PREDICTIONS_FILE, run.score_file.with_suffix(".predictions.npz"))
    content = score(run, outcome, result, started, attempts)
    record.write_json(run.score_file, content)
    if warning := tracker.finish(content, run.score_file):
        say(f"{run.title}: {warning}")
    if outcome.status != "complete":
        say(f"{run.title}: {outcome.status}: {outcome.error}")
    return outcome.status


def score(run: Run, outcome: Outcome, result: dict[str, Any], started: datetime, attempts: int) -> dict[str, Any]:
    """The content of a score file."""
    finished = datetime.now(UTC)
    task = run.task
    return {
        "schema_version": record.SCHEMA_VERSION,
        "status": outcome.status,
        "error": outcome.error,
        "variant": run.variant,
        "label": run.label,
        "family": variants.family(run.target),
        "task": run.task_name,
        "preset": run.config.preset,
        "seed": run.config.seed,
        "config": dump(run.config),
        "config_hash": run.hash,
        "data": {
            "source": task.source,
            "version": task.version,
            "fingerprint": task.fingerprint,
            "splits": {name: len(getattr(task, name)) for name in ("train", "validation", "test")},
            "baselines": task.baselines,
            "truncated_fraction": task.truncated_fraction,
            "skipped_files": list(task.skipped_files),
        },
        "metrics": result.get("metrics"),
        "parameters": result.get("parameters"),
        "history": result.get("history", []),
        "hardware": hardware.describe() | {"device": result.get("device")},
        "software": record.software(),
        "git_commit": record.git_commit(),
        "started": started.isoformat(timespec="seconds"),
        "finished": finished.isoformat(timespec="seconds"),
        "wall_seconds": (finished - started).total_seconds(),
        "attempts": attempts,
    }


def prepare(folder: Path, specification: dict[str, Any]) -> Path:
    """An empty place for a child, with what it has to do."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (child.RESULT_FILE, record.PREDICTIONS_FILE):
        (folder / name).unlink(missing_ok=True)
    (folder / child.SPECIFICATION_FILE).write_text(json.dumps(specification, indent=1))
    return folder


def say(text: str) -> None:
    """One line for the person who waits, written at once, as another run's thread may have one too."""
    print(f"{text}\n", end="", file=sys.stderr, flush=True)
