"""Synthesizer: forms, mixtures, and what they cost in parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from models.mixer import Sizes
from models.synthetic.synthesizer import Synthesizer, factorized_random, synthesizer_attention

SIZES = Sizes(dim=16, heads=2, qkv_dim=8, mlp_dim=32, max_length=300)


def test_blocks_of_queries_make_no_difference() -> None:
    rng = np.random.default_rng(0)
    v = rng.standard_normal((2, 290, 2, 4))
    left, right = (rng.standard_normal((2, 300, 3)) for _ in range(2))
    mask = np.arange(290) < np.array([[290], [150]])
    logits = np.where(mask[:, None, None], np.einsum("hsr,hlr->hsl", left, right)[None, :, :290, :290], -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    expected = np.einsum("bhsl,blhk->bshk", weights / weights.sum(-1, keepdims=True), v)

    def run(left: jax.Array, right: jax.Array, v: jax.Array) -> jax.Array:
        return synthesizer_attention([factorized_random(left, right, 290)], v, jnp.asarray(mask))

    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(run)(*map(jnp.asarray, (left, right, v))), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (["random"], 2 * 300 * 300),
        (["factorized_random"], 2 * 2 * 300 * 4),
        (["dense"], 2 * (8 * 4 + 4 + 4 * 300 + 300)),
        (["factorized_dense"], 2 * (8 * 4 + 4 + (4 * 4 + 4) + (4 * 75 + 75))),
        (["random", "dot"], 2 * 300 * 300 + 2 * 16 * 8),
    ],
)
def test_parameters(forms: list[str], expected: int) -> None:
    model = nnx.eval_shape(lambda: Synthesizer(SIZES, forms=forms, rank=4, rngs=nnx.Rngs(0)))
    value_and_output = 2 * 16 * 8
    assert sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param))) == expected + value_and_output


@pytest.mark.parametrize("forms", [["randm"], [], ["dense", "dense"]])
def test_impossible_forms(forms: list[Any]) -> None:
    with pytest.raises(ValueError, match="form"):
        Synthesizer(SIZES, forms=forms, rngs=nnx.Rngs(0))
