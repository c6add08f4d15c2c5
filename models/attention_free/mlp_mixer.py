"""MLP-Mixer: tokens are mixed by a network along the length, the same for every feature."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import require_boolean
from models.mixer import Growth, Mixer, Sizes


def mix_tokens(
    x: Float[Array, "B L D"],
    mask: Bool[Array, "B L"] | None,
    weight1: Float[Array, "F M"],
    bias1: Float[Array, " F"],
    weight2: Float[Array, "M F"],
    bias2: Float[Array, " M"],
) -> Float[Array, "B L D"]:
    """W2 gelu(W1 x + b1) + b2 along the length, of which a sequence shorter than M takes the first L.

    Padding is set to zero, so that it adds nothing to a hidden unit. Tolstikhin et al. 2021, equation 1,
    https://arxiv.org/abs/2105.01601
    """
    require_boolean(mask)
    length = x.shape[1]
    if mask is not None:
        x = jnp.where(mask[..., None], x, 0)
    hidden = jnp.einsum("fl,bld->bfd", weight1[:, :length], x) + bias1[None, :, None]
    hidden = jax.nn.gelu(hidden, approximate=False)
    return jnp.einsum("lf,bfd->bld", weight2[:length], hidden) + bias2[None, :length, None]


class MLPMixer(Mixer):
    """A network of one hidden layer over the positions; its weights grow with `max_length`."""

    family = "attention_free"
    paper = "Tolstikhin et al. 2021, arXiv:2105.01601"
    growth = Growth(1, 1)
    cost = "L * hidden * D"

    def __init__(self, sizes: Sizes, *, hidden: int = 256, rngs: nnx.Rngs) -> None:
        init, length = nnx.initializers.xavier_uniform(), sizes.max_length
        self.dtype = sizes.dtype
        self.weight1 = nnx.Param(init(rngs.params(), (hidden, length)))
        self.bias1 = nnx.Param(jnp.zeros(hidden))
        self.weight2 = nnx.Param(init(rngs.params(), (length, hidden)))
        self.bias2 = nnx.Param(jnp.zeros(length))

    def __call__(self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None) -> Float[Array, "B L D"]:
        parameters = (self.weight1, self.bias1, self.weight2, self.bias2)
        return mix_tokens(x.astype(self.dtype), mask, *(p[...].astype(self.dtype) for p in parameters))
