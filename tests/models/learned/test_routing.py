"""Routing attention: what a training step does to the centroids, and tokens in several clusters or in none."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from lra.subject import fast_jit
from models.attention import dense_attention
from models.learned.routing import Routing, moved_centroids, routing_attention, similarity, unit
from models.mixer import Sizes

GOLDEN = Path(__file__).parents[2] / "golden"
SIZES = Sizes(dim=16, heads=2, qkv_dim=16, mlp_dim=32, max_length=32)


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def test_moving_average_is_that_of_the_peer() -> None:
    with jax.enable_x64(True), np.load(GOLDEN / "routing_kmeans_update.npz") as arrays:
        x = jnp.asarray(arrays["x"], np.float64).swapaxes(1, 2)
        means = jnp.asarray(arrays["means"], np.float64)
        np.testing.assert_allclose(similarity(x, means).swapaxes(2, 3), arrays["dists"], atol=1e-12)
        # the module brings them back to unit length afterwards, which the peer does not
        np.testing.assert_allclose(moved_centroids(x, None, means, 0.999), arrays["ema_means"], atol=1e-12)


def test_only_real_tokens_move_centroids_and_only_in_training() -> None:
    x, mask = normal(0, 2, 20, 16), jnp.arange(20)[None] < jnp.array([[20], [7]])
    noise = jnp.where(mask[..., None], x, 1e3 * normal(1, 2, 20, 16))
    model = Routing(SIZES, clusters=4, window=6, decay=0.9, rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    before = np.asarray(model.centroids[...])

    def centroids(x: Any, mask: Any, key: Any = None) -> Any:
        model = nnx.merge(graph, state, copy=True)
        model(x, mask, rngs=None if key is None else nnx.Rngs(key))
        return model.centroids[...]

    train, key = fast_jit(centroids), jax.random.key(1)
    np.testing.assert_array_equal(fast_jit(centroids)(x, mask), before)
    np.testing.assert_allclose(train(x, jnp.zeros_like(mask), key), before, atol=1e-6)
    trained = train(x, mask, key)
    assert abs(trained - before).max() > 1e-3
    np.testing.assert_allclose(train(noise, mask, key), trained, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(trained, axis=-1), 1, atol=1e-6)


def test_a_cluster_without_tokens_keeps_its_centroid() -> None:
    x = jnp.ones((1, 3, 1, 4))
    centroids = unit(jnp.array([[[1.0, 1, 1, 1], [-1.0, -1, -1, -1]]]))
    np.testing.assert_allclose(moved_centroids(x, None, centroids, 0.5), centroids, atol=1e-6)


def test_centroids_draw_similar_tokens_together() -> None:
    directions = unit(normal(0, 3, 8))
    kinds = np.random.default_rng(1).integers(0, 3, 300)
    x = (directions[kinds] + 0.1 * normal(2, 300, 8))[None, :, None]
    centroids = unit(normal(3, 1, 3, 8))
    step = fast_jit(lambda centroids: unit(moved_centroids(x, None, centroids, 0.9)))
    for _ in range(200):
        centroids = step(centroids)
    chosen = np.asarray(similarity(x, centroids)[0, 0].argmax(0))
    assert all(len(set(chosen[kinds == kind])) == 1 for kind in range(3))


def test_a_short_example_is_dense_attention() -> None:
    q, k, v = (normal(seed, 2, 24, 2, 8) for seed in range(3))
    mask = jnp.arange(24)[None] < jnp.array([[11], [4]])
    out = fast_jit(partial(routing_attention, window=12))(q, k, v, mask, normal(3, 2, 5, 8))
    np.testing.assert_allclose(
        np.where(mask[..., None, None], out, 0),
        np.where(mask[..., None, None], dense_attention(q, k, v, mask), 0),
        atol=1e-5,
    )


def test_equals_the_paper_one_cluster_at_a_time() -> None:
    q, k, v, centroids = (
        np.asarray(normal(seed, *shape), np.float64) for seed, shape in enumerate([(20, 8)] * 3 + [(4, 8)])
    )
    real, window = 17, 5
    total, number = np.zeros((20, 8)), np.zeros(20)
    for centroid in centroids:
        of_q, of_k = (np.argsort(-(x[:real] @ centroid) / np.linalg.norm(x[:real], axis=1))[:window] for x in (q, k))
        weights = np.exp(q[of_q] @ k[of_k].T / np.sqrt(8))
        total[of_q] += weights @ v[of_k] / weights.sum(1, keepdims=True)
        number[of_q] += 1
    assert {0, 1, 2} <= set(number[:real])
    with jax.enable_x64(True):
        inputs = (x[None, :, None] for x in (q, k, v))
        mask = jnp.arange(20)[None] < real
        out = fast_jit(partial(routing_attention, window=window))(*inputs, mask, centroids[None])
    np.testing.assert_allclose(out[0, :real, 0], (total / np.maximum(number, 1)[:, None])[:real], atol=1e-10)
