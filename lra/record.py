"""Result files: where they lie, what they hold, and how they are written so that a reader never sees half of one."""

import contextlib
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np

from lra.errors import BadInput
from lra.variants import ROOT

SCHEMA_VERSION = 1
HISTORY_FILE, PREDICTIONS_FILE = "history.jsonl", "predictions.npz"  # in a run's work folder
FINISHED = ("complete", "diverged")  # what the next run skips


def config_hash(identity: dict[str, Any]) -> str:
    """Hash of whatever decides what a run computes, hexadecimal [16]."""
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()


def score_path(results: Path, preset: str, label: str, task: str, seed: int) -> Path:
    """Where the score of one run lies; `label` is the variant's name, with `@<hash8>` after it for overridden runs."""
    return results / "scores" / preset / label / task / f"seed{seed}.json"


def speed_path(results: Path, hardware: str, preset: str, label: str) -> Path:
    """Where the speed cells of a variant on one kind of hardware lie."""
    return results / "speed" / hardware / preset / f"{label}.json"


def read_json(path: Path) -> dict[str, Any] | None:
    """The content of a result file, None if there is none; raises BadInput for a damaged one."""
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise ValueError("it holds no JSON object")
        return content
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {error}. Move it away to run again.") from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes a file in one go; NaN and infinity become null."""
    with _replacing(path, "w") as file:
        json.dump(_finite(content), file, indent=1, allow_nan=False)
        file.write("\n")


def write_predictions(path: Path, labels: np.ndarray, predictions: np.ndarray) -> None:
    """Writes the test split's labels and predictions, one row an example, in one go."""
    with _replacing(path, "wb") as file:
        np.savez_compressed(file, id=np.arange(len(labels), dtype=np.int32), label=labels, prediction=predictions)


def copy_file(source: Path, path: Path) -> None:
    """Copies a file in one go."""
    with open(source, "rb") as original, _replacing(path, "wb") as file:
        shutil.copyfileobj(original, file)


def require_writable(folder: Path, key: str) -> None:
    """Raises BadInput when nothing can be written into `folder`, which the configuration's `key` names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise BadInput(f"cannot write into {folder}: {error.strerror}. Choose another folder with {key}=...") from None


@contextlib.contextmanager
def _replacing(path: Path, mode: str) -> Iterator[IO[Any]]:
    """A file beside its place, put there only when it is whole and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def wilson_interval(correct: int, count: int) -> tuple[float, float]:
    """The 95 % interval of an accuracy. Wilson 1927, https://doi.org/10.2307/2276774"""
    if count == 0:
        return 0.0, 1.0
    z = 1.959963984540054
    share = correct / count
    centre = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (centre - spread) / (1 + z * z / count), (centre + spread) / (1 + z * z / count)


def software() -> dict[str, str]:
    """Versions of what the figures depend on."""
    names = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "tensorflow-datasets")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def git_commit() -> str | None:
    """The commit that runs, with `+` after it when files other than results were changed; None outside a checkout."""
    status = ["git", "status", "--porcelain", "--", ":!results"]
    run = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 10, "check": True}
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], **run).stdout.strip()  # type: ignore[call-overload]
        changed = subprocess.run(status, **run).stdout.strip()  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changed else "")
