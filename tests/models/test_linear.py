"""The linear map over one long row of tokens."""

import jax
import numpy as np
import pytest
from flax import nnx

from lra.build import build_mixer
from lra.flops import inner_programs
from lra.layer import layer_step
from lra.variants import resolve
from models.linear import Linear
from models.mixer import Sizes

SIZES = Sizes(32, 2, 16, 32, 70)


def contracted(jaxpr):
    """The number of dimensions that each matrix product of a program sums over."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield len(equation.params["dimension_numbers"][0][0])
        for inner in inner_programs(equation.params):
            yield from contracted(inner)


def test_the_same_map_whatever_shape_the_tokens_stand_in():
    ours, flax = (cls(4, 3, rngs=nnx.Rngs(0)) for cls in (Linear, nnx.Linear))
    for shape in ((4,), (5, 4), (2, 5, 4), (0, 5, 4), (2, 3, 5, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        assert ours(x).shape == (*shape[:-1], 3)
        np.testing.assert_allclose(ours(x), flax(x), atol=1e-6)


@pytest.mark.parametrize("name", ["transformer", "local", "linformer", "linear_transformer", "performer"])
def test_no_gradient_sums_over_examples_and_tokens_at_once(name):
    step, state = layer_step(build_mixer({"_target_": resolve(name).target, **resolve(name).keywords}, SIZES))
    x = jax.ShapeDtypeStruct((2, 70, 32), np.float32)
    jaxpr = jax.make_jaxpr(step)(*state, x, jax.ShapeDtypeStruct((2, 70), bool), x).jaxpr
    assert max(contracted(jaxpr)) == 1
