"""A run so small that a whole attempt at it takes a second: the one of `make soak`, a little shorter."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from lra import child
from lra.config import compose_run
from lra.record import HISTORY_FILE, read_json
from lra.runs import Run
from lra.soak import TINY

STEPS, EVERY, TEST_EXAMPLES = 12, 3, 30

SMALL = [*TINY, f"train.steps={STEPS}", f"train.evaluate_every={EVERY}"]
SMALL_CELLS = ["speed.lengths=[16]", "speed.batch_size=2", "speed.seconds=0.01", "speed.encoder.layers=1"]


def overrides(*more: str, variant: str = "transformer", seed: int = 0) -> list[str]:
    """The overrides of one tiny run."""
    return [f"model={variant}", "task=listops", "preset=mini", f"seed={seed}", *SMALL, *SMALL_CELLS, *more]


def places(root: Path, cache: Path) -> list[str]:
    """Overrides that keep a run's files below `root`, with encoded data shared in `cache`."""
    return [f"results={root / 'results'}", f"work_dir={root / 'work'}", f"cache_dir={cache}"]


def run_of(*more: str, **keywords: Any) -> Run:
    """One tiny run."""
    chosen = overrides(*more, **keywords)
    return Run.of(chosen, compose_run(chosen))


def history(folder: Path) -> list[dict[str, Any]]:
    """The rows that a run has written."""
    return [json.loads(line) for line in (folder / HISTORY_FILE).read_text().splitlines()]


def result(folder: Path) -> dict[str, Any]:
    """What a training child left for its supervisor."""
    found = read_json(folder / child.RESULT_FILE)
    assert found is not None, f"no result in {folder}"
    return found


def kill() -> None:
    """Ends this process as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
