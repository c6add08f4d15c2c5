"""The measurements of the lecture's claims that need jax. One core of a CPU is enough, for a few minutes."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lra import hardware
from lra.child import require_visible_accelerator
from lra.config import compose_run
from lra.lecture import features, orders, reach, record, share
from lra.lecture.options import PARTS, Options
from lra.lecture.trained import Trained, low_rank
from lra.record import git_commit, software


def measure(root: Path, asked: Options, say: Callable[[str], None]) -> None:
    """Measures the parts asked for, one after the other, each into `root/lecture.json` as soon as it is done.

    Raises BadInput for a checkpoint that can't be used, before anything is measured.
    """
    require_visible_accelerator()
    compose_run(["model=transformer", "task=listops", f"preset={asked.preset}", "seed=0"])  # refuses an unknown preset
    record.read(root)
    runs = [Trained.of(folder, say) for folder in asked.checkpoint]
    for name, part in _parts(asked, runs, say):
        started = time.monotonic()
        measured = part()
        stamp = {
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": hardware.describe(),
            "software": software(),
            "git_commit": git_commit(),
            "preset": asked.preset,
        }
        record.write_part(root, name, stamp | measured)
        say(f"{name}: {time.monotonic() - started:.0f} s, in {root / record.FILE}")


def _parts(
    asked: Options, runs: list[Trained], say: Callable[[str], None]
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is measured under each name."""
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "low_rank": lambda: {"runs": [low_rank(run) for run in runs]},
        "features": lambda: {"sources": [features.errors(source) for source in features.sources(runs)]},
        "orders": lambda: {"points": orders.orders()},
        "share": lambda: share.shares(asked.preset),
        "reach": lambda: reach.reaches(asked.preset),
    }
    for name in asked.parts or PARTS:
        if name == "low_rank" and not runs:
            say("low_rank is left out: it needs checkpoint=<work folder of a finished transformer run>")
        else:
            yield name, work[name]
