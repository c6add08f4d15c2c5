"""A run that has stopped after its best step."""

import jax
import jax.numpy as jnp
import pytest

from lra.runs import Run, prepare
from lra.train import Best, Training
from tests.lra import tiny


def stopped(root, cache, *overrides: str, step: int, times: float) -> tuple[Run, Training]:
    """A tiny run with a checkpoint of `step`, whose best parameters are so many times the first ones."""
    run = tiny.run_of(*tiny.places(root, cache), *overrides)
    specification = run.specification()
    prepare(run.work_folder, specification)
    belongs_to = {"run": specification["hash"], "data": run.task.fingerprint}
    training = Training(run.config, run.task, run.work_folder, belongs_to, pytest.fail)
    best = jax.tree.map(lambda leaf: times * leaf, training.best.params)
    training.best = Best(0.5, step, best, training.best.rest)
    training.state = training.state._replace(step=jnp.int32(step))
    training.save(step)
    training.checkpoints.close()
    return run, training
