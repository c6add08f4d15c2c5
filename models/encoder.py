"""The encoder, written once: a stack of layers, each of them the variant's own or the default one around its mixer."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import require_boolean
from models.dropout import drop_entries
from models.linear import Linear
from models.mixer import Layer, Mixer, Sizes

Variant = Callable[..., Mixer | Layer]  # (sizes, *, rngs) -> mixer or layer


# Computed again for its gradient, which would otherwise keep two more arrays of the hidden width.
gelu = jax.checkpoint(jax.nn.gelu)


def normalised(norm: nnx.LayerNorm, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
    """norm(x), computed again for its gradient, which would otherwise keep two more arrays."""
    graph, state = nnx.split(norm)  # nnx.remat would ask of a caller to hand the whole model through every transform
    return jax.checkpoint(lambda state, x: nnx.merge(graph, state)(x))(state, x)


class FeedForward(nnx.Module):
    """Linear, GELU, linear, with dropout after each."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        init: dict[str, Any] = {"kernel_init": nnx.initializers.xavier_uniform(), "dtype": sizes.dtype, "rngs": rngs}
        self.up = Linear(sizes.dim, sizes.mlp_dim, **init)
        self.down = Linear(sizes.mlp_dim, sizes.dim, **init)
        self.rate = sizes.dropout

    def __call__(self, x: Float[Array, "B L D"], rngs: nnx.Rngs | None) -> Float[Array, "B L D"]:
        hidden = dropout(gelu(self.up(x)), self.rate, rngs)
        return dropout(self.down(hidden), self.rate, rngs)


class EncoderLayer(Layer):
    """The default layer, pre-norm: x + mixer(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, mixer: Mixer, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.mixer_norm = nnx.LayerNorm(sizes.dim, dtype=sizes.dtype, rngs=rngs)
        self.mixer = mixer
        self.feed_forward_norm = nnx.LayerNorm(sizes.dim, dtype=sizes.dtype, rngs=rngs)
        self.feed_forward = FeedForward(sizes, rngs=rngs)
        self.rate = sizes.dropout

    def __call__(
        self,
        x: Float[Array, "B L D"],
        mask: Bool[Array, "B L"] | None,
        carry: Any,
        *,
        deterministic: bool,
        rngs: nnx.Rngs | None,
    ) -> tuple[Float[Array, "B L D"], Any]:
        rngs = None if deterministic else rngs
        own = {"rngs": rngs} if self.mixer.stochastic else {}
        x = x + dropout(self.mixer(normalised(self.mixer_norm, x), mask, **own), self.rate, rngs)
        return x + self.feed_forward(normalised(self.feed_forward_norm, x), rngs), carry


class Encoder(nnx.Module):
    """Layers and a last normalisation: [B, L, D] to [B, L, D].

    With `rematerialise` a layer keeps nothing but its input for the gradient and is computed again there.
    """

    def __init__(
        self, variant: Variant, layers: int, sizes: Sizes, *, rematerialise: bool = False, rngs: nnx.Rngs
    ) -> None:
        self.layers = nnx.List(build_layer(variant, sizes, rngs) for _ in range(layers))
        self.norm = nnx.LayerNorm(sizes.dim, dtype=sizes.dtype, rngs=rngs)
        self.max_length, self.rate, self.rematerialise = sizes.max_length, sizes.dropout, rematerialise

    def __call__(
        self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B L D"]:
        """Encodes; `rngs` turns training on (dropout and other noise), None is evaluation."""
        require_boolean(mask)
        if x.shape[1] > self.max_length:
            raise ValueError(f"{x.shape[1]} tokens are more than max_length {self.max_length}")
        run = nnx.remat(run_layer) if self.rematerialise else run_layer
        x, carry = dropout(x, self.rate, rngs), None
        for layer in self.layers:
            x, carry = run(layer, rngs, x, mask, carry)
        return self.norm(x)


def run_layer(layer: Layer, rngs: nnx.Rngs | None, *inputs: Any) -> tuple[Float[Array, "B L D"], Any]:
    """One layer, in training if there are `rngs`."""
    return layer(*inputs, deterministic=rngs is None, rngs=rngs)


def build_layer(variant: Variant, sizes: Sizes, rngs: nnx.Rngs) -> Layer:
    """One layer of `variant`: its own, or the default one around its mixer."""
    built = variant(sizes, rngs=rngs)
    return built if isinstance(built, Layer) else EncoderLayer(built, sizes, rngs=rngs)


def dropout(x: Float[Array, "..."], rate: float, rngs: nnx.Rngs | None) -> Float[Array, "..."]:
    """Drops entries at `rate` in training (`rngs` given), nothing in evaluation."""
    if rngs is None or rate == 0:
        return x
    return drop_entries(x, rate, rngs.dropout())
