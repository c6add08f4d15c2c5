"""Linformer: the module's order of the products gives what the definition gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lra.subject import fast_jit
from models.low_rank.linformer import Linformer, linformer_attention
from models.mixer import AttentionMixer, Sizes, merge_heads

SIZES = Sizes(dim=16, heads=2, qkv_dim=8, mlp_dim=32, max_length=40)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("lengths", [None, [30, 11]])
def test_summing_before_projecting_changes_nothing(shared: bool, lengths: list[int] | None) -> None:
    model = Linformer(SIZES, rank=6, shared=shared, rngs=nnx.Rngs(0))
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 30, 16)), jnp.float32)
    mask = None if lengths is None else jnp.arange(30)[None] < jnp.array(lengths)[:, None]

    @fast_jit
    def both() -> tuple[jax.Array, jax.Array]:
        q, k, v = AttentionMixer.inputs(model, x)
        value_map = model.key_map if model.value_map is None else model.value_map
        expected = linformer_attention(q, k, v, mask, model.key_map[...], value_map[...])
        return model(x, mask), model.out(merge_heads(expected))

    np.testing.assert_allclose(*both(), atol=1e-5)


def test_slots_of_a_full_sequence_have_the_scale_of_a_token() -> None:
    model = Linformer(Sizes(dim=64, heads=1, qkv_dim=64, mlp_dim=1, max_length=2048), rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).standard_normal((2048, 64))
    slots = np.asarray(model.key_map[...]).T @ x
    assert slots.std() == pytest.approx(1, rel=0.05)
