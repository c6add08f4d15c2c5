"""A child that behaves as it is told, in place of one that trains: `python -m tests.lra.fake_child <folder> <parent>`.

`behaviour` in its folder names one of the functions below. It imports no jax and starts at once.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

RESULT = {
    "metrics": {
        "test_accuracy": 0.5,
        "interval": [0.2, 0.8],
        "test_loss": 1.0,
        "validation_accuracy": 0.5,
        "best_step": 3,
        "n_test": 4,
        "at_chance": True,
        "constant": False,
    },
    "parameters": {"count": 7, "ratio_to_transformer": 1.0, "within_lra_rule": True},
    "device": "cpu",
    "history": [{"step": 3, "train_loss": 1.5, "validation_accuracy": 0.5, "validation_loss": 1.0}],
}
CELL = {
    "step_seconds": {"median": 0.1, "p10": 0.1, "p90": 0.1},
    "repetitions": 4,
    "steps_per_second": 10.0,
    "sequences_per_second": 20.0,
    "compile_seconds": 1.0,
    "flops_per_step": 1e9,
    "peak_bytes": {"device": None, "compiled": 2**20, "process": 2**20},
    "temp_bytes": 2**20,
    "simulated": False,
    "load_average": 0.1,
    "device": "cpu",
}


def complete(folder: Path) -> None:
    import numpy as np

    np.savez(folder / "predictions.npz", id=np.arange(4), label=np.zeros(4), prediction=np.arange(4) % 2)
    (folder / "result.json").write_text(json.dumps(RESULT))
    leave(folder, "complete", None)


def slow(folder: Path) -> None:
    time.sleep(2)
    complete(folder)


def meet(folder: Path) -> None:
    """Completes once another run's child has come too; tells on which cores it was."""
    (folder / "came").write_text(json.dumps(sorted(os.sched_getaffinity(0))))
    while len(list(folder.parent.glob("*/came"))) < 2:
        time.sleep(0.01)
    complete(folder)


def measured(folder: Path) -> None:
    (folder / "result.json").write_text(json.dumps(CELL))
    leave(folder, "complete", None)


def diverged(folder: Path) -> None:
    (folder / "result.json").write_text(json.dumps(RESULT | {"metrics": None}))
    leave(folder, "diverged", "the loss of step 4 is nan")


def leave(folder: Path, status: str, error: str | None) -> None:
    (folder / "outcome.json").write_text(json.dumps({"status": status, "error": error}))


def kill(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave_with_code_5(folder: Path) -> None:
    sys.exit(5)


def sleep(folder: Path) -> None:
    time.sleep(60)


def stubborn(folder: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (folder / "ready").touch()
    time.sleep(60)


def count_signals(folder: Path) -> None:
    """Ends half a second after the first signal and tells how many came, and which."""
    came: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: came.append(number))
    (folder / "ready").touch()
    while not came:
        time.sleep(0.01)
    time.sleep(0.5)
    (folder / "came").write_text(json.dumps(came))
    leave(folder, "interrupted", "stopped after step 7 of 12; run again to go on")
    sys.exit(75)


def run_by_frame(folder: Path) -> None:
    """The behaviours below, in the frame that real children have."""
    from lra import child
    from lra.errors import BadInput

    def work(folder: Path, specification: dict[str, Any]) -> tuple[str, None]:
        stop = child.Stop()
        behaviour = (folder / "behaviour").read_text()
        if behaviour == "wait_for_stop":
            (folder / "ready").touch()
            while not stop():
                time.sleep(0.01)
            (folder / "stopped").touch()
            raise SystemExit
        raise {
            "raises": RuntimeError("no such luck"),
            "exhausted": RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."),
            "memory_error": MemoryError(),
            "bad_input": BadInput("unknown keyword of BigBird 'bolck'"),
            "full_disk": OSError(28, "No space left on device", "/some/history.jsonl"),
        }[behaviour]

    child.run(work)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    vars(sys.modules["__main__"]).get((place / "behaviour").read_text(), run_by_frame)(place)
