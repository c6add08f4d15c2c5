"""Performer: its random features estimate the softmax kernel, and are drawn when they should be."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from models.attention import dense_attention
from models.kernels.performer import Performer, orthogonal_directions, performer_attention
from models.mixer import Sizes

SIZES = Sizes(dim=16, heads=2, qkv_dim=16, mlp_dim=32, max_length=64)


@pytest.mark.parametrize(("features", "dim"), [(64, 16), (21, 5), (3, 8)])
def test_directions_are_orthogonal_within_blocks(features: int, dim: int) -> None:
    directions = np.asarray(orthogonal_directions(jax.random.key(0), features, dim))
    assert directions.shape == (features, dim)
    for start in range(0, features, dim):
        block = directions[start : start + dim]
        products = block @ block.T
        np.testing.assert_allclose(products - np.diag(np.diag(products)), 0, atol=1e-4)


def test_directions_are_gaussian_vectors_each_alone() -> None:
    directions = np.asarray(orthogonal_directions(jax.random.key(0), 4096, 16))
    lengths = np.linalg.norm(directions, axis=1)
    assert (lengths**2).mean() == pytest.approx(16, rel=0.05)
    assert (lengths**2).std() == pytest.approx(np.sqrt(2 * 16), rel=0.1)  # chi-square with 16 degrees of freedom
    for place in range(16):  # in every row of a block
        np.testing.assert_allclose(directions[place::16].mean(0), 0, atol=5 / np.sqrt(4096 / 16))


def test_error_against_softmax_falls_with_the_number_of_features() -> None:
    rng = np.random.default_rng(0)
    # Entries of 0.5: the variance of the estimate grows as exp(|q + k|^2), so that long vectors need far more features.
    q, k, v = (jnp.asarray(0.5 * rng.standard_normal((1, 64, 2, 16)), jnp.float32) for _ in range(3))
    exact = np.asarray(dense_attention(q, k, v))  # scale 1/sqrt(16)
    errors = []
    for features in (256, 1024, 4096):
        estimate = jax.jit(lambda key, features=features: _attention(q, k, v, key, features))
        draws = [np.asarray(estimate(jax.random.key(seed))) - exact for seed in range(5)]
        errors.append(np.mean([np.linalg.norm(draw) for draw in draws]) / np.linalg.norm(exact))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1, errors


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, key: jax.Array, features: int) -> jax.Array:
    return performer_attention(q, k, v, None, orthogonal_directions(key, features, q.shape[-1]))


def test_directions_are_drawn_again_every_so_many_training_steps() -> None:
    graph, state = nnx.split(Performer(SIZES, features=8, redraw=3, rngs=nnx.Rngs(0)))
    x = jnp.ones((1, 4, 16))

    @jax.jit
    def train(state: Any, key: jax.Array) -> Any:
        model = nnx.merge(graph, state, copy=True)
        model(x, None, rngs=nnx.Rngs(key))
        return nnx.split(model)[1]

    seen = [np.asarray(state["directions"][...])]
    for step in range(6):
        state = train(state, jax.random.key(step))
        seen.append(np.asarray(state["directions"][...]))
    changed = [bool((after != before).any()) for before, after in itertools.pairwise(seen)]
    assert changed == [False, False, True, False, False, True]

    model: Any = nnx.merge(graph, state)
    model(x, None)
    np.testing.assert_array_equal(model.directions[...], seen[-1])  # evaluation neither draws nor counts
    assert model.steps[...] == 6


@pytest.mark.parametrize(
    "keywords", [{"kernel": "sofmax"}, {"features": 0}, {"features": 0, "kernel": "relu", "redraw": 5}]
)
def test_impossible_keywords(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="kernel"):
        Performer(SIZES, **keywords, rngs=nnx.Rngs(0))
