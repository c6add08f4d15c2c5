"""One mixer by itself: its gradients, and layers that are no mixers."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from lra.layer import apply, layer_step, random_inputs
from models.dense.transformer import Transformer
from models.encoder import EncoderLayer
from models.mixer import Sizes

SIZES = Sizes(dim=8, heads=2, qkv_dim=8, mlp_dim=8, max_length=6)


def test_the_gradients_are_those_of_the_weighted_sum_of_the_output():
    model = Transformer(SIZES, rngs=nnx.Rngs(0))
    x, mask, cotangent = random_inputs(SIZES, 2, 6)
    step, (params, rest) = layer_step(model)
    y, (in_params, in_x) = step(params, rest, x, mask, cotangent)
    np.testing.assert_allclose(y, model(x, mask), rtol=1e-6)

    def loss(x):
        return (model(x, mask) * cotangent).sum()

    np.testing.assert_allclose(in_x, jax.grad(loss)(x), rtol=1e-4, atol=1e-5)
    assert len(jax.tree.leaves(in_params)) == 4
    alone, _ = layer_step(model, "inference")
    np.testing.assert_allclose(alone(params, rest, x, mask, cotangent), y, rtol=1e-6)


def test_a_whole_layer_is_one_too():
    layer = EncoderLayer(Transformer(SIZES, rngs=nnx.Rngs(0)), SIZES, rngs=nnx.Rngs(0))
    x, mask, cotangent = random_inputs(SIZES, 1, 6)
    step, state = layer_step(layer)
    y, _ = step(*state, x, mask, cotangent)
    np.testing.assert_allclose(y, apply(layer, x, mask), rtol=1e-6)
    assert not np.allclose(y, apply(layer.mixer, x, mask))


def test_inputs_are_full_and_differ():
    x, mask, cotangent = random_inputs(SIZES, 3, 5)
    assert x.shape == cotangent.shape == (3, 5, 8)
    assert bool(jnp.all(mask))
    assert not np.allclose(x, cotangent)
