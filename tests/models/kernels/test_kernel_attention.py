"""Kernel attention over several blocks of tokens is the plain double sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.kernels.kernel_attention import kernel_attention, tokens_at_once
from models.kernels.linear_transformer import elu_plus_one


@pytest.mark.parametrize("length", [300, 256])
def test_blocks_of_tokens_make_no_difference(length: int) -> None:
    assert length > tokens_at_once(length), "several blocks are meant"
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, length, 2, 4)) for _ in range(3))
    mask = np.arange(length) < np.array([[length], [200]])
    weights = np.einsum("blhf,bmhf->bhlm", _phi(q), _phi(k)) * mask[:, None, None]
    expected = np.einsum("bhlm,bmhk->blhk", weights / weights.sum(-1, keepdims=True), v)
    with jax.enable_x64(True):
        out = jax.jit(lambda *x: kernel_attention(*x, elu_plus_one, elu_plus_one))(*map(jnp.asarray, (q, k, v, mask)))
        np.testing.assert_allclose(out, expected, atol=1e-12)


def _phi(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(x))
