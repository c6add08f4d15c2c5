"""Sinkhorn attention: the matrix is doubly stochastic, the network that makes it learns, evaluation has no noise."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lra.subject import fast_jit
from models.learned.sinkhorn import Sinkhorn, sinkhorn, sinkhorn_attention, sorting_logits
from models.mixer import Sizes

GOLDEN = Path(__file__).parents[2] / "golden"
SIZES = Sizes(dim=16, heads=2, qkv_dim=16, mlp_dim=32, max_length=64)


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize(("case", "iterations"), [("n4_it8", 8), ("n7_it5", 5), ("n16_it20", 20)])
def test_operator_and_its_gradient_are_those_of_the_peer(case: str, iterations: int) -> None:
    with jax.enable_x64(True), np.load(GOLDEN / "sinkhorn_operator.npz") as arrays:
        logits, cotangent = (jnp.asarray(arrays[f"{name}_{case}"], np.float64)[:, None] for name in ("logits", "cot"))
        out, pull_back = jax.vjp(lambda x: sinkhorn(x, iterations=iterations), logits)
        np.testing.assert_allclose(out[:, 0], arrays[f"out_{case}"], atol=1e-12)
        np.testing.assert_allclose(pull_back(cotangent)[0][:, 0], arrays[f"dlogits_{case}"], atol=1e-12)


def test_operator_with_recorded_noise() -> None:
    with jax.enable_x64(True), np.load(GOLDEN / "sinkhorn_operator.npz") as arrays:
        logits = (np.log(arrays["R_n6"].astype(np.float64) + 1e-6) + arrays["gumbel_n6"]) / 0.7
        np.testing.assert_allclose(
            sinkhorn(jnp.asarray(logits)[:, None], iterations=8)[:, 0], arrays["out_gumbel_n6_it8_t07"], atol=1e-12
        )


def test_rows_and_columns_sum_to_one_among_the_real_blocks() -> None:
    sizes = Sizes(dim=64, heads=4, qkv_dim=64, mlp_dim=64, max_length=4096)
    model = Sinkhorn(sizes, rngs=nnx.Rngs(0))
    lengths = [4096, 1000, 64, 1]
    mask = jnp.arange(4096)[None] < jnp.array(lengths)[:, None]
    q, k, _ = model.inputs(normal(0, 4, 4096, 64))
    logits = fast_jit(partial(sorting_logits, block_size=64))(q, k, mask, model.sorting[...])
    present = jnp.arange(64)[None] < -(-jnp.array(lengths)[:, None] // 64)
    normalise = fast_jit(partial(sinkhorn, iterations=model.iterations))
    shares = np.asarray(normalise(logits / model.temperature, present))
    for axis in (-1, -2):
        np.testing.assert_allclose(shares.sum(axis), 1, atol=1e-3)
    for example, length in enumerate(lengths):
        blocks = -(-length // 64)
        np.testing.assert_array_equal(shares[example, :, blocks:], np.eye(64)[None, blocks:].repeat(4, 0))
    assert shares[0].std() > 1e-3  # it does sort: the shares are not all equal


def test_the_sorting_network_learns() -> None:
    model = Sinkhorn(SIZES, block_size=8, rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    x, weight = normal(0, 2, 64, 16), normal(1, 2, 64, 16)
    gradients = fast_jit(jax.grad(lambda state: (nnx.merge(graph, state)(x, None) * weight).sum()))(state)
    sorting, value = (np.asarray(g[...]) for g in (gradients.sorting, gradients.value.kernel))
    assert np.abs(sorting).mean() > 0.01 * np.abs(value).mean()


def test_noise_in_training_only() -> None:
    graph, state = nnx.split(Sinkhorn(SIZES, block_size=8, rngs=nnx.Rngs(0)))  # no dropout
    x = normal(0, 1, 64, 16)
    evaluate = fast_jit(lambda: nnx.merge(graph, state)(x, None))
    train = fast_jit(lambda seed: nnx.merge(graph, state)(x, None, rngs=nnx.Rngs(seed)))
    np.testing.assert_array_equal(evaluate(), evaluate())
    first, second = (train(jax.random.key(seed)) for seed in (1, 2))
    assert abs(first - second).max() > 1e-3


def test_equals_the_paper_one_query_at_a_time() -> None:
    size, lengths, padded = 4, [1, 3, 4, 7, 18], 20
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((5, padded, 1, 6)) for _ in range(3))
    shares = rng.dirichlet(np.ones(5), (5, 1, 5))
    for b, n in enumerate(lengths):  # as `sinkhorn` leaves it: nothing is mixed in from absent blocks
        shares[b, :, :, -(-n // size) :] = 0
    with jax.enable_x64(True):
        mask = jnp.arange(padded)[None] < jnp.array(lengths)[:, None]
        out = fast_jit(partial(sinkhorn_attention, block_size=size))(q, k, v, mask, shares)
    for b, n in enumerate(lengths):
        keys, values = (np.where(np.arange(padded)[:, None] < n, x[b, :, 0], 0).reshape(5, size, 6) for x in (k, v))
        for i in range(n):
            own, row = i // size, shares[b, 0, i // size]
            slots = [t for t in range(size) if size * row.argmax() + t < n]
            seen_k = [*(row @ keys[:, t] for t in slots), *k[b, size * own : min(n, size * own + size), 0]]
            seen_v = [*(row @ values[:, t] for t in slots), *v[b, size * own : min(n, size * own + size), 0]]
            weights = np.exp(np.array(seen_k) @ q[b, i, 0] / np.sqrt(6))
            np.testing.assert_allclose(out[b, i, 0], weights @ np.array(seen_v) / weights.sum(), atol=1e-10)
