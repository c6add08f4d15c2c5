"""One mixer by itself, without embedding, encoder and optimiser: how variants are compared with other implementations.

The same program is timed by the protocol `layer`, compiled by rule 7 of `lra.conformance`, and run by the GPU check.
"""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float

from lra.step import split_model
from models.mixer import Layer, Mixer, Sizes

Inputs = tuple[Float[Array, "B L D"], Bool[Array, "B L"], Float[Array, "B L D"]]


def apply(model: Any, x: Any, mask: Any, rngs: nnx.Rngs | None = None) -> Any:
    """The output of a mixer or of a layer; `rngs` turns training on."""
    if isinstance(model, Layer):
        return model(x, mask, None, deterministic=rngs is None, rngs=rngs)[0]
    return model(x, mask, **({"rngs": rngs} if model.stochastic else {}))


def layer_step(model: Mixer | Layer, mode: str = "train") -> tuple[Callable[..., Any], tuple[Any, Any]]:
    """A step over one mixer or layer, without noise, and its first arguments; (x, mask, cotangent) are the others.

    `inference` returns the output y; `train` returns y and the gradients of (y * cotangent).sum() in parameters and x.
    """
    graph, params, rest = split_model(model)

    def inference(params: Any, rest: Any, x: Any, mask: Any, cotangent: Any) -> Any:
        return apply(nnx.merge(graph, params, rest), x, mask)

    def train(params: Any, rest: Any, x: Any, mask: Any, cotangent: Any) -> Any:
        y, pull_back = jax.vjp(lambda params, x: inference(params, rest, x, mask, cotangent), params, x)
        return y, pull_back(cotangent.astype(y.dtype))

    return (train if mode == "train" else inference), (params, rest)


def random_inputs(sizes: Sizes, batch_size: int, length: int) -> Inputs:
    """Normal x and cotangent and a mask without padding, made on the device."""
    shape = (batch_size, length, sizes.dim)
    x, cotangent = (jax.random.normal(jax.random.key(seed), shape, sizes.dtype) for seed in (0, 1))
    return x, jax.numpy.ones(shape[:2], bool), cotangent
