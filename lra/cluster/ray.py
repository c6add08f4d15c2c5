"""Jobs of a Ray cluster: one that exists, or one that starts on this machine and ends with the command."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lra.cluster.sender import Job, Refused
from lra.config import BenchConfig
from lra.errors import BadInput
from lra.supervise import Supervisor
from lra.variants import ROOT


def work(job: Job) -> str:
    """What Ray calls on the machine that it has chosen; returns the status."""
    os.chdir(ROOT)
    return job.work(Supervisor())


class Ray:
    """A Ray cluster; the `Cluster` of `sender.py`. Jobs end with this process. Raises BadInput when there is none."""

    name, outlives, batch = "ray", False, 1000

    def __init__(self, config: BenchConfig) -> None:
        try:
            import ray
        except ImportError:
            raise BadInput("launcher=ray needs a package: make setup EXTRAS=ray") from None
        self.ray = ray
        self.tasks: dict[str, Any] = {}
        init, remote = (
            {key: value for key, value in config.launcher[part].items() if value is not None}
            for part in ("init", "remote")
        )
        try:
            # The checkout is found on every machine, though a cluster's workers are started elsewhere.
            ray.init(**init, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}}, include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BadInput(f"launcher=ray: {' '.join(str(error).split())[:300]}") from None
        # A worker of its own for every task: a supervisor keeps the signal handlers of its process.
        self.remote: Any = ray.remote(max_calls=1, max_retries=0, **remote)(work)
        self.needs = remote

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Hands the jobs over; raises Refused when no machine could ever run them."""
        there = self.ray.cluster_resources()
        for key, resource in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            if self.needs.get(key, 0) > there.get(resource, 0):
                raise Refused(f"launcher.remote.{key}={self.needs[key]}, and Ray has {there.get(resource, 0):g} in all")
        references = [self.remote.remote(job.bare()) for job in jobs]
        ids = [reference.hex() for reference in references]
        self.tasks |= dict(zip(ids, references, strict=True))
        return ids

    def ended(self, ids: Iterable[str]) -> Mapping[str, str | None]:
        """The statuses of tasks that have ended; None for one whose worker died."""
        asked = [self.tasks[id] for id in ids]
        ready = self.ray.wait(asked, num_returns=len(asked), timeout=0)[0] if asked else []
        return {reference.hex(): self._status(reference) for reference in ready}

    def _status(self, reference: Any) -> str | None:
        self.tasks.pop(reference.hex())
        try:
            status: str = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError:
            return "failed"
        except self.ray.exceptions.RayError:
            return None
        return status

    def trace(self, id: str) -> str:
        """Where a job's output lies."""
        return "its output is above, or in Ray's session folder"
