"""Memory-compressed attention: keys and values shortened by a strided convolution."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, attend_by_blocks, require_boolean, to_blocks
from models.mixer import AttentionMixer, Growth, Sizes
from models.patterns.local import local_attention


def compressed_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B M H K"],
    v: Float[Array, "B M H K"],
    mask: Bool[Array, "B M"] | None,
    kernel: Float[Array, "F H K K"],
    bias: Float[Array, "H K"],
    null_key: Float[Array, "H K"],
    null_value: Float[Array, "H K"],
    *,
    scale: float | None = None,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Attention to every F tokens convolved into one slot, and to one learned null slot; scale 1/sqrt(K) unless given.

    `kernel` is [tap, head, in, out], the same for keys and values. The last slot is filled up with zeros behind the
    sequence. A slot is real if any of its tokens is, the null slot if the example has any real token.
    Liu et al. 2018, https://arxiv.org/abs/1801.10198
    """
    require_boolean(mask)
    real = jnp.ones(k.shape[:2], bool) if mask is None else mask
    slots = jnp.concatenate([real.any(1, keepdims=True), to_blocks(real, kernel.shape[0]).any(2)], axis=1)

    def shorten(x: Float[Array, "B M H K"], null: Float[Array, "H K"]) -> Float[Array, "B J H K"]:
        blocks = to_blocks(jnp.where(real[:, :, None, None], x, 0), kernel.shape[0])
        short = jnp.einsum("bnfhi,fhio->bnho", blocks, kernel.astype(x.dtype)) + bias.astype(x.dtype)[None, None]
        null = jnp.broadcast_to(null.astype(x.dtype), (x.shape[0], 1, *null.shape))
        return jnp.concatenate([null, short], axis=1)

    keys, values = shorten(k, null_key), shorten(v, null_value)
    # In turn on every platform: side by side the blocks would hold L x L / F weights.
    return attend_by_blocks(q, keys, values, slots, scale=scale, drop=drop, in_turn=True)


class Compressed(AttentionMixer):
    """Every token attends to slots of `factor` tokens each and to a null slot.

    So many heads as `local_heads` says attend to the tokens at most `window` away instead.
    """

    family = "low_rank"
    paper = "Liu et al. 2018, arXiv:1801.10198"
    growth = Growth(2, 1)
    cost = "L * (L / factor + 1) * D"

    def __init__(
        self, sizes: Sizes, *, factor: int = 4, local_heads: int = 0, window: int = 64, rngs: nnx.Rngs
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        if not 0 <= local_heads < sizes.heads:
            raise ValueError(f"local_heads {local_heads} leaves no compressed head of {sizes.heads}")
        self.local_heads, self.window = local_heads, window
        heads, width = self.heads - local_heads, self.head_dim
        init = nnx.initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=(0, 2), out_axis=3, batch_axis=1)
        self.kernel = nnx.Param(init(rngs.params(), (factor, heads, width, width)))
        self.bias = nnx.Param(jnp.zeros((heads, width)))
        self.null_key, self.null_value = (nnx.Param(jax.random.normal(rngs.params(), (heads, width))) for _ in range(2))

    def attend(self, q, k, v, mask, drop):
        parameters = self.kernel[...], self.bias[...], self.null_key[...], self.null_value[...]
        (near_q, far_q), (near_k, far_k), (near_v, far_v) = (
            jnp.split(x, [self.local_heads], axis=2) for x in (q, k, v)
        )
        far = compressed_attention(far_q, far_k, far_v, mask, *parameters, drop=drop)
        if not self.local_heads:
            return far
        near = local_attention(near_q, near_k, near_v, mask, block_size=64, window=self.window, drop=drop)
        return jnp.concatenate([near, far], axis=2)
