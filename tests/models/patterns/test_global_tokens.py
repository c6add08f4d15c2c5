"""Learned global tokens: the plain sums, and the rules that hold without a pattern of pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lra.check import check
from lra.subject import TOY, fast_jit
from lra.variants import Variant
from models.patterns.global_tokens import learned_global_attention


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def test_tokens_see_themselves_and_what_the_learned_tokens_collect() -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 9, 1, 4))
    special_q, special_k = rng.standard_normal((2, 3, 1, 4))
    lengths = [9, 5]
    mask = jnp.asarray(np.arange(9) < np.array(lengths)[:, None])
    ours = fast_jit(learned_global_attention)(*(jnp.asarray(x) for x in (q, k, v)), mask, special_q, special_k)
    for example, real in enumerate(lengths):
        one_q, one_k, one_v = (x[example, :real, 0] for x in (q, k, v))
        collected = np.stack([softmax(one_k @ special / 2) @ one_v for special in special_q[:, 0]])
        for i in range(real):
            weights = softmax(np.append(special_k[:, 0], one_k[i : i + 1], axis=0) @ one_q[i] / 2)
            expected = weights[:3] @ collected + weights[3] * one_v[i]
            np.testing.assert_allclose(ours[example, i, 0], expected, atol=1e-5)


def test_learned_tokens_keep_the_rules() -> None:
    variant = Variant("global_tokens", "models.patterns.global_tokens.GlobalTokens")
    results = check(variant, rules=(1, 2, 3, 4, 5, 8), scale=TOY, keywords={"tokens": 3, "learned": True})
    assert not [f"{result.rule}: {result.detail}" for result in results if result.status == "broken"]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_learned_tokens_follow_the_type_of_the_computation(dtype: jnp.dtype) -> None:
    x = jax.ShapeDtypeStruct((1, 8, 2, 4), dtype)
    special = jax.ShapeDtypeStruct((3, 2, 4), jnp.float32)
    assert jax.eval_shape(learned_global_attention, x, x, x, None, special, special).dtype == dtype
