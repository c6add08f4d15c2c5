"""The schedules and the optimiser against values worked out by hand."""

import math

import jax.numpy as jnp
import pytest

from lra.config import Schedule, TrainConfig
from lra.optimiser import build_optimiser, learning_rate


def train(**changes):
    values = {
        "steps": 5000,
        "batch_size": 32,
        "learning_rate": 0.05,
        "schedule": Schedule.rsqrt,
        "warmup_steps": 1000,
        "weight_decay": 0.1,
        "evaluate_every": 200,
    }
    return TrainConfig(**(values | changes))


@pytest.mark.parametrize(
    ("step", "rate"),
    [  # 0.05 * min(1, (step + 1) / 1000) / sqrt(max(step, 1000))
        (0, 0.05 * 0.001 / math.sqrt(1000)),
        (499, 0.05 * 0.5 / math.sqrt(1000)),
        (999, 0.05 / math.sqrt(1000)),
        (1000, 0.05 / math.sqrt(1000)),
        (4000, 0.05 / math.sqrt(4000)),
    ],
)
def test_rsqrt(step, rate):
    assert float(learning_rate(train())(jnp.int32(step))) == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize(
    ("step", "rate"),
    [  # warm-up to 0.001 over 100 steps, then half a cosine over 900
        (0, 0.00001),
        (49, 0.0005),
        (100, 0.001),
        (400, 0.001 * 0.75),
        (550, 0.0005),
        (775, 0.001 * (1 - math.sqrt(0.5)) / 2),
        (1000, 0.0),
        (1500, 0.0),
    ],
)
def test_cosine(step, rate):
    schedule = learning_rate(train(schedule=Schedule.cosine, learning_rate=0.001, warmup_steps=100, steps=1000))
    assert float(schedule(jnp.int32(step))) == pytest.approx(rate, rel=1e-5, abs=1e-10)


def test_no_warm_up_begins_at_the_full_rate():
    for schedule in Schedule:
        assert float(learning_rate(train(schedule=schedule, warmup_steps=0))(jnp.int32(0))) == pytest.approx(0.05)


def steps_of(config, gradients, start):
    optimiser = build_optimiser(config)
    params = jnp.float32(start)
    state = optimiser.init(params)
    for gradient in gradients:
        updates, state = optimiser.update(jnp.float32(gradient), state, params)
        params = params + updates
    return float(params)


def adamw(config, gradients, start):
    """Loshchilov and Hutter 2019, algorithm 2, with the release's constants."""
    first = second = 0.0
    params = start
    for step, gradient in enumerate(gradients):
        if config.clip_norm is not None:
            gradient *= min(1.0, config.clip_norm / abs(gradient))
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        whole = first / (1 - 0.9 ** (step + 1)), second / (1 - 0.98 ** (step + 1))
        rate = float(learning_rate(config)(jnp.int32(step)))
        params -= rate * (whole[0] / (math.sqrt(whole[1]) + 1e-9) + config.weight_decay * params)
    return params


@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_updates_are_adamw_s(clip_norm):
    config = train(warmup_steps=2, clip_norm=clip_norm)
    gradients = [0.3, -2.0, 5.0, 0.01]
    assert steps_of(config, gradients, 1.5) == pytest.approx(adamw(config, gradients, 1.5), rel=1e-5)


def test_clipping_is_by_the_norm_of_all_gradients():
    config = train(clip_norm=1.0, weight_decay=0.0, warmup_steps=0)
    optimiser = build_optimiser(config)
    params = {"a": jnp.zeros(1), "b": jnp.zeros(1)}
    _, state = optimiser.update({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, optimiser.init(params), params)
    moments = state[1][0].mu
    assert [moments["a"][0], moments["b"][0]] == pytest.approx([0.06, 0.08])  # a tenth of 3 / 5 and 4 / 5
