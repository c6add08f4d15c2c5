"""Memory-compressed attention: which slots are real, and the heads beside them that attend to a window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lra.subject import fast_jit
from models.low_rank.compressed import Compressed, compressed_attention
from models.mixer import Sizes
from models.patterns.local import local_attention

SIZES = Sizes(dim=16, heads=4, qkv_dim=16, mlp_dim=32, max_length=40)


def test_equals_the_paper_one_slot_at_a_time() -> None:
    rng = np.random.default_rng(0)
    lengths, padded, factor = [1, 4, 6, 11], 11, 4
    q, k, v = (rng.standard_normal((4, padded, 2, 5)) for _ in range(3))
    kernel = rng.standard_normal((factor, 2, 5, 5))
    bias, null_key, null_value = (rng.standard_normal((2, 5)) for _ in range(3))
    with jax.enable_x64(True):
        mask = jnp.arange(padded)[None] < jnp.array(lengths)[:, None]
        out = fast_jit(compressed_attention)(q, k, v, mask, kernel, bias, null_key, null_value)
    for b, n in enumerate(lengths):
        for h in range(2):
            slots = [
                [
                    bias[h] + sum(x[b, j, h] @ kernel[j - start, h] for j in range(start, min(start + factor, n)))
                    for start in range(0, n, factor)
                ]
                for x in (k, v)
            ]
            keys, values = np.array([null_key[h], *slots[0]]), np.array([null_value[h], *slots[1]])
            weights = np.exp(q[b, :n, h] @ keys.T / np.sqrt(5))  # by the head dim, not the model dim
            np.testing.assert_allclose(out[b, :n, h], weights @ values / weights.sum(1, keepdims=True), atol=1e-10)


def test_local_heads_stand_beside_the_compressed_ones() -> None:
    model = Compressed(SIZES, local_heads=1, window=3, rngs=nnx.Rngs(0))
    q, k, v = (jnp.asarray(np.random.default_rng(i).standard_normal((2, 30, 4, 4)), jnp.float32) for i in range(3))
    mask = jnp.arange(30)[None] < jnp.array([[30], [13]])
    out = fast_jit(lambda: model.attend(q, k, v, mask, None))()
    near = fast_jit(lambda: local_attention(q[:, :, :1], k[:, :, :1], v[:, :, :1], mask, block_size=5, window=3))()
    np.testing.assert_allclose(out[:, :, :1], near, atol=1e-5)
    assert model.kernel[...].shape == (4, 3, 4, 4)
    with pytest.raises(ValueError, match="local_heads 4 leaves no compressed head of 4"):
        Compressed(SIZES, local_heads=4, rngs=nnx.Rngs(0))
