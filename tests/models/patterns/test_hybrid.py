"""Hybrid: a head computes what its pattern computes alone, and heads share the mixer's projections."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from lra.subject import fast_jit
from models.attention import dense_attention
from models.dense.transformer import Transformer
from models.mixer import Sizes
from models.patterns.hybrid import PATTERNS, Hybrid

SIZES = Sizes(dim=16, heads=4, qkv_dim=16, mlp_dim=16, max_length=30)


def parameters(mixer: nnx.Module) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(mixer, nnx.Param)))


def test_heads_out_of_order_follow_their_own_patterns() -> None:
    options = {"local": {"window": 3}, "bigbird": {"block_size": 4}, "global_tokens": {"tokens": 2}}
    mixer = Hybrid(SIZES, heads=["bigbird", "local", "global_tokens", "local"], options=options, rngs=nnx.Rngs(0))
    q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 30, 4, 4))
    mask = jnp.arange(30)[None] < jnp.array([[30], [30]])
    ours = fast_jit(lambda: mixer.attend(q, k, v, mask, None))()
    pattern = mixer.pattern(30)
    assert pattern is not None
    assert (pattern[1] == pattern[3]).all()
    assert (pattern[1] != pattern[2]).any()
    assert jnp.allclose(ours, dense_attention(q, k, v, pairs=jnp.asarray(pattern)[None]), atol=1e-5)


def test_has_the_parameters_of_the_transformer() -> None:
    assert parameters(Hybrid(SIZES, rngs=nnx.Rngs(0))) == parameters(Transformer(SIZES, rngs=nnx.Rngs(0)))


def test_what_a_pattern_has_beside_projections_it_keeps_and_trains() -> None:
    options = {"longformer": {"window": 4}, "global_tokens": {"tokens": 2, "learned": True}}
    mixer = Hybrid(SIZES, heads=["longformer", "global_tokens"], options=options, rngs=nnx.Rngs(0))
    graph, params = nnx.split(mixer)
    x = jax.random.normal(jax.random.key(0), (1, 30, 16))
    gradients = fast_jit(jax.grad(lambda params: (nnx.merge(graph, params)(x, None) ** 2).sum()))(params)
    sizes = [float(abs(leaf).max()) for leaf in jax.tree.leaves(gradients)]
    assert len(sizes) == 4 + 3 + 2  # the mixer's, Longformer's global projections, the learned tokens
    assert min(sizes) > 1e-4
    assert mixer.pattern(30) is None


@pytest.mark.parametrize("keywords", [{"heads": ["nonsense"]}, {"options": {"nonsense": {}}}])
def test_an_unknown_pattern_is_refused_with_the_known_ones(keywords: dict) -> None:
    with pytest.raises(ValueError, match=f"nonsense.*{', '.join(PATTERNS)}"):
        Hybrid(SIZES, **keywords, rngs=nnx.Rngs(0))
