"""Longformer: which projections a row comes from, and that none is dead weight."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from lra.subject import fast_jit
from models.mixer import Sizes
from models.patterns.longformer import Longformer

SIZES = Sizes(dim=8, heads=2, qkv_dim=8, mlp_dim=8, max_length=20)
X = jax.random.normal(jax.random.key(0), (1, 20, 8))


def rows_that_change(projection: str) -> np.ndarray:
    """Numbers of the rows that come out otherwise with another projection of this name."""
    mixer = Longformer(SIZES, window=6, global_tokens=[0, 9], rngs=nnx.Rngs(0))
    graph, state = nnx.split(mixer)
    run = fast_jit(lambda state: nnx.merge(graph, state)(X, None))
    before = run(state)
    getattr(mixer, projection).kernel[...] *= -1
    return np.flatnonzero(abs(run(nnx.split(mixer)[1]) - before).max((0, 2)) > 1e-6)


def test_global_tokens_have_projections_of_their_own() -> None:
    others = np.setdiff1d(np.arange(20), [0, 9])
    for kind in ("query", "key", "value"):
        np.testing.assert_array_equal(rows_that_change(f"global_{kind}"), [0, 9])
        np.testing.assert_array_equal(rows_that_change(kind), others)


def test_without_global_tokens_there_are_no_projections_for_them() -> None:
    mixer = Longformer(SIZES, global_tokens=[], rngs=nnx.Rngs(0))
    assert len(jax.tree.leaves(nnx.state(mixer, nnx.Param))) == 4


def test_global_positions_beyond_a_short_sequence_are_ignored() -> None:
    mixer = Longformer(SIZES, window=4, global_tokens=[0, 9], rngs=nnx.Rngs(0))
    without = Longformer(SIZES, window=4, global_tokens=[0], rngs=nnx.Rngs(0))
    assert jnp.array_equal(mixer(X[:, :5], None), without(X[:, :5], None))


def test_dilation_is_repeated_over_the_heads() -> None:
    mixer = Longformer(Sizes(8, 4, 8, 8, 20), window=4, dilation=[1, 3], global_tokens=[], rngs=nnx.Rngs(0))
    first, second, third, fourth = mixer.pattern(20)
    assert list(np.flatnonzero(first[10])) == [8, 9, 10, 11, 12]
    assert list(np.flatnonzero(second[10])) == [4, 7, 10, 13, 16]
    assert (first == third).all()
    assert (second == fourth).all()
