"""Jobs of a Slurm cluster, sent through submitit: arrays of jobs that save and queue up again before their time is out.

submitit itself reacts to SIGUSR2 alone, by ending the job, and lets SIGTERM pass. A run's supervisor puts its own
handlers in their place: whatever the signal, the run saves what it has; after SIGUSR2, by which Slurm announces the end
of the time, the job queues up again. Nothing here asks Slurm's accounting, which small clusters do not have.
"""

import getpass
import os
import pickle
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lra.cluster.sender import Job, Refused
from lra.config import BenchConfig
from lra.errors import BadInput
from lra.supervise import Supervisor

PASSED_ON = (
    *("partition", "account", "qos", "constraint", "gpus_per_node", "cpus_per_task"),
    *("signal_delay_s", "array_parallelism", "setup"),
)
# Until a shared disk shows the result of a job that has left the queue, and squeue one that queues up again.
PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm runs it: `requeues` times at most it queues up again when its time is out."""

    job: Job
    requeues: int

    def __call__(self) -> str:
        """Called by submitit on the node; returns the status."""
        supervisor = Supervisor()
        status = self.job.work(supervisor)
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        if supervisor.signal == signal.SIGUSR2 and status == "interrupted" and restarts < self.requeues:
            subprocess.run(["scontrol", "requeue", own_id()], check=False, timeout=60)
        return status


def own_id() -> str:
    """The id of the job that this process belongs to; SLURM_JOB_ID of an array's last job would name them all."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


class Slurm:
    """The Slurm cluster of this machine; the `Cluster` of `sender.py`. Raises BadInput where there is none."""

    name, outlives = "slurm", True

    def __init__(self, config: BenchConfig) -> None:
        self.options = config.launcher
        self.folder = Path(config.work_dir).absolute() / "slurm"
        self.batch: int = self.options["batch"]
        self.gone: dict[str, float] = {}  # when a job without a result was first seen to have left the queue
        for key in ("timeout_min", "batch", "array_parallelism"):
            if self.options[key] < 1:
                raise BadInput(f"launcher.{key}={self.options[key]}: must be at least 1")
        delay, limit = self.options["signal_delay_s"], 60 * self.options["timeout_min"]
        if not 0 < delay < limit:
            raise BadInput(f"launcher.signal_delay_s={delay}: must lie between 0 and the job's time limit, {limit} s")
        if shutil.which("sbatch") is None:
            raise BadInput("launcher=slurm: this machine has no sbatch; start from one that sends jobs to the cluster")
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise BadInput("launcher=slurm needs a package: make setup EXTRAS=slurm") from None

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Sends one array; returns the ids of its jobs or raises Refused."""
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError

        executor = SlurmExecutor(folder=self.folder)
        executor.update_parameters(**self._parameters(measures=jobs[0].measures))
        callables = [SlurmJob(job.bare(), self.options["max_num_timeout"]) for job in jobs]
        try:
            return [str(job.job_id) for job in executor.submit_array(callables)]
        except (FailedJobError, subprocess.CalledProcessError) as error:
            lines = [line for line in str(error).splitlines() if "error" in line.lower()]
            raise Refused(lines[-1] if lines else str(error)) from None

    def _parameters(self, *, measures: bool) -> dict[str, Any]:
        given = {key: self.options[key] for key in PASSED_ON if self.options[key] is not None}
        given["time"] = self.options["timeout_min"]
        if self.options["mem_gb"] is not None:
            given["mem"] = f"{self.options['mem_gb']}GB"
        further = {"requeue": True, **(self.options["additional_parameters"] or {})}
        if measures and self.options["exclusive"]:
            further["exclusive"] = True
        return {**given, "job_name": "lra", "additional_parameters": further}

    def ended(self, ids: Iterable[str]) -> Mapping[str, str | None]:
        """The statuses of jobs that have left the queue; a queue that does not answer has all of them."""
        queue = subprocess.run(
            ["squeue", "--noheader", "--array", "--user", getpass.getuser(), "--format", "%i"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if queue.returncode:
            return {}
        alive, found = set(queue.stdout.split()), {}
        for id in ids:
            if id in alive:
                self.gone.pop(id, None)
            elif (status := self._result(id)) not in (None, "interrupted") or self._long_gone(id):
                found[id] = status
        return found

    def _long_gone(self, id: str) -> bool:
        return time.monotonic() - self.gone.setdefault(id, time.monotonic()) > PATIENCE_SECONDS

    def _result(self, id: str) -> str | None:
        try:
            with open(self.folder / f"{id}_0_result.pkl", "rb") as file:
                kind, value = pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return value if kind == "success" else "failed"

    def trace(self, id: str) -> str:
        """Where a job's output lies."""
        return f"see {self.folder / f'{id}_0_log.err'}"
