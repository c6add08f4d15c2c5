"""The shared pieces of attention: masks, softmax over nothing, blocks, one softmax over several parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.attention import (
    dense_attention,
    even_block_size,
    from_blocks,
    masked_softmax,
    real_lengths,
    require_boolean,
    to_blocks,
    union_attention,
)
from models.kernels.linear_transformer import elu_plus_one

DTYPES = [jnp.float32, jnp.bfloat16, jnp.float16]


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32, jnp.uint8])
def test_masks_are_boolean(dtype: type) -> None:
    require_boolean(None)
    require_boolean(jnp.ones((1, 3), bool))
    with pytest.raises(TypeError, match="boolean"):
        require_boolean(jnp.ones((1, 3), dtype))


def test_real_lengths() -> None:
    mask = jnp.asarray([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(real_lengths(mask, 2, 3), [2, 0])
    np.testing.assert_array_equal(real_lengths(None, 2, 3), [3, 3])


def test_masked_softmax() -> None:
    logits = normal(4, 6)
    allowed = np.random.default_rng(1).random((4, 6)) < 0.5
    allowed[0], allowed[1] = False, True
    weights = np.asarray(masked_softmax(logits, jnp.asarray(allowed)))
    np.testing.assert_array_equal(weights[~allowed], 0)
    expected = np.exp(logits) * allowed
    np.testing.assert_allclose(weights[1:], (expected / expected.sum(1, keepdims=True).clip(1e-9))[1:], rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_over_nothing(dtype: type) -> None:
    """An example of length 0 and a query without allowed pairs yield 0 with finite gradients; others are unchanged."""
    q, k, v = (normal(2, 5, 2, 4, seed=seed).astype(dtype) for seed in range(3))
    mask = jnp.asarray([[True, True, True, False, False], [False] * 5])
    pairs = jnp.ones((1, 1, 5, 5), bool).at[0, 0, 1].set(False)

    def run(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = dense_attention(q, k, v, mask, pairs=pairs)
        return out.astype(jnp.float32).sum(), out

    (_, out), gradients = jax.jit(jax.value_and_grad(run, argnums=(0, 1, 2), has_aux=True))(q, k, v)
    assert out.dtype == dtype
    np.testing.assert_array_equal(np.asarray(out[1], np.float32), 0)
    np.testing.assert_array_equal(np.asarray(out[0, 1], np.float32), 0)
    assert all(np.isfinite(np.asarray(gradient, np.float32)).all() for gradient in gradients)
    without = jax.jit(dense_attention)(q[:1], k[:1, :3], v[:1, :3])
    np.testing.assert_allclose(np.asarray(out[0, 2:], np.float32), np.asarray(without[0, 2:], np.float32), atol=2e-2)


def test_large_logits_do_not_overflow() -> None:
    q = k = 100 * jnp.eye(4)[None, :, None, :]
    v = normal(1, 4, 1, 4)
    np.testing.assert_allclose(jax.jit(dense_attention)(q, k, v), v, atol=1e-5)


@pytest.mark.parametrize("length", [1, 7, 8, 9])
def test_blocks(length: int) -> None:
    x = normal(2, length, 3)
    blocks = to_blocks(x, 4)
    assert blocks.shape == (2, -(-length // 4), 4, 3)  # no block more when the length divides
    np.testing.assert_array_equal(from_blocks(blocks, length), x)
    np.testing.assert_array_equal(from_blocks(blocks, blocks.shape[1] * 4)[:, length:], 0)
    mask = to_blocks(jnp.ones((2, length), bool), 4)
    assert mask.dtype == jnp.bool_
    assert mask.sum() == 2 * length


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_enter_one_softmax(dtype: type) -> None:
    q, k, v = (normal(2, 6, 2, 4, seed=seed).astype(dtype) for seed in range(3))
    allowed = np.random.default_rng(3).random((2, 1, 6, 6)) < 0.7
    allowed[0, 0, 2] = False
    pairs = jnp.asarray(allowed)

    @jax.jit
    def union(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return union_attention(q, [(k[:, :2], v[:, :2], pairs[..., :2]), (k[:, 2:], v[:, 2:], pairs[..., 2:])])

    out = np.asarray(union(q, k, v), np.float32)
    dense = np.asarray(jax.jit(dense_attention)(q, k, v, pairs=pairs), np.float32)
    np.testing.assert_allclose(out, dense, atol={jnp.float32: 1e-6}.get(dtype, 2e-2))
    np.testing.assert_array_equal(out[0, 2], 0)


@pytest.mark.parametrize(("dtype", "x"), [(jnp.bfloat16, -8.0), (jnp.float32, -20.0), (jnp.float16, -8.0)])
def test_elu_plus_one_stays_above_zero(dtype: type, x: float) -> None:
    value, slope = jax.value_and_grad(elu_plus_one)(jnp.asarray(x, dtype))
    assert value > 0
    assert slope > 0
    assert float(value) == pytest.approx(np.exp(x), rel=1e-2)


def test_even_blocks_hold_a_length_with_little_padding():
    assert [even_block_size(length, 128) for length in (1, 128, 129, 191, 257, 4097)] == [1, 128, 129, 191, 129, 129]
    for length in range(1, 700):
        size = even_block_size(length, 128)
        assert size < 2 * 128
        assert -length % size <= length / 128, "about one position of each block is padding at most"
