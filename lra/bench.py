"""`python -m lra.bench model=bigbird task=listops preset=mini`: trains, tests, times, measures and prints a table.

A light supervisor without jax. Every training and every speed cell runs in a child of its own, so that a crash, an
out-of-memory kill or a hang becomes a recorded status and the rest goes on.
Exit codes: 0 done; 2 bad input, nothing started; 3 some runs failed; 75 interrupted, run again.
"""

import contextlib
import itertools
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lra import cores, processes
from lra.cells import measure_speed
from lra.child import STOP_SIGNALS
from lra.cluster.sender import cluster_of, distribute
from lra.config import Request, compose_run, parse
from lra.errors import BadInput
from lra.runs import Run, may_fail_again, train_and_test
from lra.status import note_plan
from lra.summary import print_summary
from lra.supervise import Supervisor
from lra.variants import variant_names
from tasks.errors import DataError


def main(arguments: Sequence[str], *, repeat: bool = False) -> int:
    """Runs a command line; returns the exit code. `repeat` tries what failed again, as `lra.sweep` does."""
    if "--list" in arguments:
        print("\n".join(variant_names()))
        return 0
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        request = parse(arguments)
        if any(text.startswith("protocol=") for text in request.overrides):
            raise BadInput("protocol=... is for lra.profile (make profile): a bench measures speed on text")
        runs = plan_runs(request)
        if processes.count() > 1 and len(runs) > 1:
            raise BadInput(f"{processes.count()} processes share one run: name one variant, task, preset and seed")
        for run in runs:
            run.require_place()
        cluster = cluster_of(runs[0].config)
    except (BadInput, DataError) as problem:
        return _end(2, problem)
    except KeyboardInterrupt:
        return _end(75, "interrupted before the first run; the same command begins again")
    if processes.number() == 0:
        note_plan(runs)
    try:
        return distribute(runs, cluster) if cluster else execute(runs, Supervisor(), repeat=repeat)
    except BadInput as problem:
        return _end(3, problem)
    except OSError as problem:
        return _end(3, f"cannot write {problem.filename or 'results'}: {problem.strerror or problem}")


def _end(code: int, message: object) -> int:
    print(f"lra.bench: {message}", file=sys.stderr)
    return code


def plan_runs(request: Request) -> list[Run]:
    """Every run that a request asks for."""
    return [Run.of(overrides, compose_run(overrides)) for overrides in request.runs()]


def execute(runs: Sequence[Run], supervisor: Supervisor, *, repeat: bool = False) -> int:
    """Makes every run and measures every variant once; one failure stops nothing else. Returns the exit code.

    `repeat` tries what failed again, after all the others, as often as `limits.attempts` says.
    """
    found: dict[Path, str] = {}
    todo = list(runs)
    for _ in range(runs[0].config.limits.attempts if repeat else 1):
        for size, together in itertools.groupby(todo, key=lambda run: run.config.limits.cores):
            found |= _train(list(together), supervisor, size)
        todo = [run for run in todo if may_fail_again(run)]
    statuses = [*found.values()]
    first = processes.number() == 0
    if first and not supervisor.interrupted:
        statuses += measure_speed(runs, supervisor)
    if supervisor.interrupted:
        return _end(75, "interrupted; the same command goes on from here")
    if first:
        print_summary(runs)
    return 0 if all(status == "complete" for status in statuses) else 3


def _train(runs: Sequence[Run], supervisor: Supervisor, size: int | None) -> dict[Path, str]:
    """Makes these runs, one after the other or side by side on `size` cores each; the status by the score file."""

    def make(run: Run) -> str:
        try:
            return "interrupted" if supervisor.interrupted else train_and_test(run, supervisor)
        except Exception:
            supervisor.stop()  # nor does any other go on
            raise

    with contextlib.ExitStack() as claims:
        groups = cores.divide(size, len(runs), claims) if processes.count() == 1 else []
        supervisor.at_once = max(1, len(groups))
        if not groups:
            return {run.score_file: make(run) for run in runs}
        with ThreadPoolExecutor(len(groups), initializer=lambda: cores.keep_to(groups.pop())) as workers:
            return dict(zip((run.score_file for run in runs), workers.map(make, runs), strict=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
