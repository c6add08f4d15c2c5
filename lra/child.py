"""The frame around a child process: it reads its configuration, and leaves one word and one line about its end."""

import contextlib
import ctypes
import importlib
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from hydra.utils import get_method
from omegaconf import OmegaConf

from lra.config import BenchConfig
from lra.errors import BadInput
from lra.hardware import accelerator
from lra.record import write_json
from tasks.errors import DataError
from tasks.task import Shape, Task

EXIT_CODES = {"complete": 0, "diverged": 0, "bad_input": 2, "interrupted": 75}
SPECIFICATION_FILE, RESULT_FILE, OUTCOME_FILE = "specification.json", "result.json", "outcome.json"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class Stop:
    """Whether somebody asked this process to stop; set by SIGTERM, SIGINT, SIGUSR1 and SIGUSR2."""

    def __init__(self) -> None:
        self.requested = False
        for number in STOP_SIGNALS:
            signal.signal(number, self._request)

    def __call__(self) -> bool:
        return self.requested

    def _request(self, number: int, frame: Any) -> None:
        self.requested = True


def run(
    work: Callable[[Path, dict[str, Any]], tuple[str, str | None]], begin: Callable[[], None] = lambda: None
) -> None:
    """Calls `work(folder, specification)`, which returns status and error, or turns what it raises into these.

    The command line is the work folder and the supervisor's process number. `begin` is called before jax is used.
    """
    folder = Path(sys.argv[1])
    end_with_parent(int(sys.argv[2]))
    try:
        begin()
        require_visible_accelerator()
        status, error = work(folder, json.loads((folder / SPECIFICATION_FILE).read_text()))
    except (BadInput, DataError) as problem:
        status, error = "bad_input", str(problem)
    except MemoryError:
        status, error = "out_of_memory", "the machine's memory ran out"
    except OSError as problem:
        where = f" {problem.filename}" if problem.filename else ""
        status, error = "failed", f"cannot read or write{where}: {problem.strerror or problem}"
    except Exception as problem:
        traceback.print_exc()
        out_of_memory = "RESOURCE_EXHAUSTED" in str(problem) or "Out of memory" in str(problem)
        status = "out_of_memory" if out_of_memory else "failed"
        error = "".join(traceback.format_exception_only(problem)).strip()
    with contextlib.suppress(OSError):  # on a full disk the exit code has to do
        write_json(folder / OUTCOME_FILE, {"status": status, "error": error})
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a backend that hangs in its own clean-up must not turn an end into a time-out.
    os._exit(EXIT_CODES.get(status, 1))


def end_with_parent(parent: int) -> None:
    """Asks the kernel for a SIGTERM when the supervisor, process `parent`, dies, so that no orphan goes on (Linux)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
        if os.getppid() != parent:  # it had died before
            os.kill(os.getpid(), signal.SIGTERM)


def load_config(plain: dict[str, Any]) -> BenchConfig:
    """The typed configuration from the plain values that `lra.config.dump` made."""
    config: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(BenchConfig), plain))
    return config


def load_task(task: dict[str, Any]) -> Task:
    """Loads a task by its `_target_`; raises DataError when its data can't be had, BadInput for keywords it refuses."""
    keywords = {key: value for key, value in task.items() if key != "_target_"}
    try:
        load = get_method(task["_target_"])
        inspect.signature(load).bind(**keywords)
    except (ImportError, HydraException, TypeError) as error:
        raise BadInput(f"task {task['_target_']}: {error}") from None
    return load(**keywords)


def task_shape(task: dict[str, Any]) -> dict[str, Any]:
    """The shape that a task's module states (vocab_size, num_classes, paired), without its data."""
    shape: Shape = importlib.import_module(task["_target_"].rpartition(".")[0]).SHAPE
    return shape._asdict()


def require_visible_accelerator() -> None:
    """Raises BadInput when the machine has an accelerator and jax would run on the CPU."""
    kind = accelerator()
    if kind is None:
        return
    import jax

    if jax.default_backend() == "cpu":
        raise BadInput(
            f"this machine has a {kind} device, but jax runs on the CPU: run `make setup ACCELERATOR={kind}`, "
            "or choose the CPU with JAX_PLATFORMS=cpu"
        )
