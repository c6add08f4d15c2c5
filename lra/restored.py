"""A trained run, back from its work folder: what `lra.gallery` draws and `lra.lecture` takes apart."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from omegaconf.errors import OmegaConfBaseException

from lra import child
from lra.build import build_classifier
from lra.config import BenchConfig
from lra.errors import BadInput
from lra.record import read_json
from lra.step import split_model
from lra.train import Best, Training
from models.classifier import Classifier
from tasks.errors import DataError
from tasks.task import Task


class Restored(NamedTuple):
    """A run's title, configuration and data; its model at its best and before the first step; when it was best."""

    title: str
    config: BenchConfig
    task: Task
    trained: Classifier
    initial: Classifier
    best: Best


def specification(folder: Path) -> tuple[dict[str, Any], BenchConfig]:
    """What a run was told to do; raises BadInput when `folder` is not the work folder of a run of this program."""
    found = read_json(folder / child.SPECIFICATION_FILE)
    if found is None or "title" not in found:
        raise BadInput(
            f"checkpoint={folder}: not the work folder of a run (there is no {child.SPECIFICATION_FILE} of training). "
            "Such folders are .work/runs/PRESET/VARIANT/TASK/seedN"
        )
    try:
        return found, child.load_config(found["config"])
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"checkpoint={folder}: its run was made by another version of this program ({reason})") from None


def restored(folder: Path, say: Callable[[str], None] = lambda line: None) -> Restored:
    """The run of a work folder, as training itself restores it; `say` takes what is wrong with newer checkpoints.

    Nothing in the folder is changed. Raises BadInput when it has no checkpoint that can be used, or no data.
    """
    told, config = specification(folder)
    try:
        task = child.load_task(config.task)
    except DataError as error:
        raise BadInput(f"checkpoint={folder}: {error}") from None
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="lra-restored-") as place:  # a run may still be writing in the folder
        if (folder / "checkpoints").is_dir():
            left_out = ignore_patterns("*tmp*", "unusable-*")
            copytree(folder / "checkpoints", Path(place) / "checkpoints", ignore=left_out)
        belongs_to = {"run": told["hash"], "data": task.fingerprint}
        training = Training(config, task, Path(place), belongs_to, said.append)
        first = training.best
        try:
            step = training.resume()
        finally:
            training.checkpoints.close()
    if step == 0:
        raise BadInput(" ".join([f"checkpoint={folder}: there is no checkpoint that can be used.", *said]))
    for line in said:
        say(line)
    build = partial(build_classifier, config.model, config.encoder, seed=config.seed, **training.sizes)
    graph = split_model(nnx.eval_shape(build))[0]
    trained, initial = (
        nnx.merge(graph, *jax.tree.map(jnp.asarray, (each.params, each.rest))) for each in (training.best, first)
    )
    return Restored(told["title"], config, task, trained, initial, training.best)
