"""Runs as jobs of a cluster: what a job does, and the loop that sends jobs and hears what became of them.

A cluster's own loop is not Hydra's: its launchers end a sweep with the first job that is killed, know nothing of jobs
that an earlier command has sent, and put all jobs into one array.
"""

import shutil
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from lra import record
from lra.cells import interleaved, measure_speed, speed_files
from lra.config import BenchConfig
from lra.errors import BadInput
from lra.runs import Run, may_fail_again, say, train_and_test
from lra.status import JOB_FILE
from lra.summary import print_summary
from lra.supervise import Supervisor

POLL_SECONDS = 2.0
INTERRUPTIONS = 100  # after which a job that is stopped again and again, as by preemption, is left


@dataclass(frozen=True)
class Job:
    """What one machine is asked to do: an attempt at a run, or all speed cells of the run's variant."""

    run: Run
    measures: bool = False

    def work(self, supervisor: Supervisor) -> str:
        """Does it, on the machine that the cluster has chosen; returns the status."""
        if not self.measures:
            return train_and_test(self.run, supervisor)
        return next((each for each in measure_speed([self.run], supervisor) if each != "complete"), "complete")

    def bare(self) -> "Job":
        """Without what has been loaded for it here, such as the data: for sending."""
        return replace(self, run=replace(self.run))

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.run.label}: speed" if self.measures else self.run.title

    @property
    def note(self) -> Path:
        """The file that says which job of the cluster works on it."""
        folder = self.run.work_folder
        return (folder.parents[1] / "speed" if self.measures else folder) / JOB_FILE


class Refused(Exception):
    """The cluster takes no more jobs, for a reason."""


class Cluster(Protocol):
    """Where jobs are sent to.

    Attributes:
        name: that of the launcher.
        batch: jobs that it takes at once.
        outlives: whether jobs go on when this process ends.
    """

    name: str
    batch: int
    outlives: bool

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Sends at most a batch, all of one kind; returns their ids or raises Refused."""

    def ended(self, ids: Iterable[str]) -> Mapping[str, str | None]:
        """The statuses of those that have ended; None for one that was killed before it could say."""

    def trace(self, id: str) -> str:
        """Where to read what a job has said."""


def cluster_of(config: BenchConfig) -> Cluster | None:
    """The cluster that the launcher stands for, None for `local`; raises BadInput when it can't be used here."""
    name = config.launcher["name"]
    if name == "slurm":
        from lra.cluster.slurm import Slurm

        return Slurm(config)
    if name == "ray":
        from lra.cluster.ray import Ray

        return Ray(config)
    return None


def distribute(runs: Sequence[Run], cluster: Cluster) -> int:
    """Makes every run on the cluster, then measures every variant there; returns the exit code as `lra.bench` does."""
    trained = [Job(_afresh(run, cluster)) for run in runs]
    measured = [Job(run, measures=True) for run in {run.speed_file: run for run in runs}.values()]
    sender, todo = Sender(cluster), [job for job in trained if not _settled(job.run)]
    if len(todo) < len(trained):
        say(f"{len(trained) - len(todo)} of {len(trained)} runs are finished, or have no attempts left")
    try:
        statuses = sender.send(todo)
        statuses += sender.send([job for job in measured if not _measured_elsewhere(job.run)])
    except KeyboardInterrupt:
        left = f"the jobs that {cluster.name} has go on, and the same command waits for them"
        say(f"lra.bench: interrupted; {left if cluster.outlives else 'the same command goes on from here'}")
        return 75
    print_summary(runs)
    statuses += [(record.read_json(run.score_file) or {}).get("status", "missing") for run in runs]
    return 0 if all(status == "complete" for status in statuses) else 3


def _settled(run: Run) -> bool:
    """Whether nothing is to be done for a run: it is finished, or has no attempts left."""
    status = (record.read_json(run.score_file) or {}).get("status")
    return status in record.FINISHED or (status == "failed" and not may_fail_again(run))


def _measured_elsewhere(run: Run) -> bool:
    """Whether every cell is measured on some hardware that is not this machine's, such as that of the cluster.

    What only this machine has measured is asked for again: a job that finds its cells measured ends at once.
    """
    cells = list(interleaved([run]))
    files = (file for file in speed_files(run) if file.path != run.speed_file)
    return not run.config.force and any(all(file.has(cell) for cell in cells) for file in files)


def _afresh(run: Run, cluster: Cluster) -> Run:
    """With force=true: a run that begins anew now, and goes on when its job is stopped and queues up again."""
    if not run.config.force:
        return run
    id = _noted(Job(run), cluster)
    if id is None or id in cluster.ended([id]):
        run.score_file.unlink(missing_ok=True)
        shutil.rmtree(run.work_folder / "checkpoints", ignore_errors=True)
    return replace(run, config=replace(run.config, force=False))


class Sender:
    """Sends jobs, each until it has ended for good, and says at once what became of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.waiting: deque[Job] = deque()
        self.working: dict[str, Job] = {}  # by the cluster's id
        self.stops: Counter[Path] = Counter()
        self.losses: Counter[Path] = Counter()
        self.refused = ""

    def send(self, jobs: Sequence[Job]) -> list[str]:
        """Returns the statuses at the end. Jobs that an earlier command has sent are waited for, not sent again."""
        noted = {id: job for job in jobs if (id := _noted(job, self.cluster))}
        gone = self.cluster.ended(list(noted)) if noted else {}
        self.working = {id: job for id, job in noted.items() if id not in gone}
        busy = {job.note for job in self.working.values()}
        self.waiting = deque(job for job in jobs if job.note not in busy)
        if self.working:
            say(f"{self.cluster.name} has {len(self.working)} of {len(jobs)} jobs already")
        statuses = []
        while self.waiting or self.working:
            self._submit()
            for id, status in self.cluster.ended(list(self.working)).items():
                statuses += self._end(id, status, len(jobs))
            if self.working:
                time.sleep(POLL_SECONDS)
        return statuses

    def _submit(self) -> None:
        """Sends what waits, batch by batch; what the cluster does not take yet waits on."""
        while self.waiting:
            batch = [self.waiting[n] for n in range(min(self.cluster.batch, len(self.waiting)))]
            try:
                ids = self.cluster.submit(batch)
            except Refused as problem:
                if not self.working:
                    raise BadInput(f"{self.cluster.name} takes no job: {problem}") from None
                if self.refused != str(problem):
                    say(f"{self.cluster.name} takes no more jobs for now: {problem}")
                self.refused = str(problem)
                return
            for id, job in zip(ids, batch, strict=True):
                record.write_json(job.note, {"launcher": self.cluster.name, "id": id, "sent": time.time()})
                self.working[id] = self.waiting.popleft()
            say(f"sent {len(ids)} jobs to {self.cluster.name}: {ids[0]}{f' to {ids[-1]}' if len(ids) > 1 else ''}")

    def _end(self, id: str, status: str | None, count: int) -> list[str]:
        """Takes a job off the list, or puts it back to the end; returns its status if that is final."""
        job = self.working.pop(id)
        job.note.unlink(missing_ok=True)
        trace = self.cluster.trace(id)
        reason = status or f"job {id} was killed before it could say anything; {trace}"
        if self._again(job, status):
            self.waiting.append(job)
            say(f"{job.title}: {reason}; it is sent again")
            return []
        left = len(self.waiting) + len(self.working)
        where = "" if status in (None, "complete") else f"; {trace}"
        say(f"{job.title}: {reason}{where} ({count - left} of {count})")
        return [status or "failed"]

    def _again(self, job: Job, status: str | None) -> bool:
        if status == "interrupted":
            self.stops[job.note] += 1
            return self.stops[job.note] < INTERRUPTIONS
        if status is None or (status == "failed" and job.measures):
            self.losses[job.note] += 1
            return self.losses[job.note] < job.run.config.limits.attempts
        return status == "failed" and may_fail_again(job.run)


def _noted(job: Job, cluster: Cluster) -> str | None:
    """The id of the job that an earlier command has sent for this, if it can still be there."""
    noted = record.read_json(job.note) or {}
    return noted["id"] if cluster.outlives and noted.get("launcher") == cluster.name else None
