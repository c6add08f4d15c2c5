"""Linformer: keys and values summed along the length into a fixed number of slots, with learned weights."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, attend_by_blocks, require_boolean
from models.mixer import AttentionMixer, Growth, Sizes, merge_heads, split_heads


def linformer_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    key_map: Float[Array, "M R"],
    value_map: Float[Array, "M R"],
    *,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """softmax(Q (E^T K)^T / sqrt(K)) F^T V with E = `key_map` and F = `value_map`, the same for all heads, M >= L.

    Every slot stays in the softmax; without real tokens all of them are 0, and so is the output.
    Wang et al. 2020, https://arxiv.org/abs/2006.04768
    """
    slots = (sum_length(merge_heads(x), mask, along) for x, along in ((k, key_map), (v, value_map)))
    return attend_by_blocks(q, *(split_heads(x, q.shape[2]) for x in slots), drop=drop)


def sum_length(
    x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, along: Float[Array, "M R"]
) -> Float[Array, "B R D"]:
    """R weighted sums over the real tokens, with the first L rows of `along`; in float32 or wider."""
    require_boolean(mask)
    if mask is not None:
        x = jnp.where(mask[..., None], x, 0)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    batch, length, dim = x.shape
    rows = along[:length].astype(x.dtype)
    # Examples side by side: the gradient of `along` is then a sum over one dimension, as in models/linear.py.
    side_by_side = x.swapaxes(0, 1).reshape(length, batch * dim)
    out = jnp.einsum("lr,le->re", rows, side_by_side, preferred_element_type=wide).astype(x.dtype)
    return out.reshape(-1, batch, dim).swapaxes(0, 1)


class Linformer(AttentionMixer):
    """Every token attends to `rank` slots, each of them a learned weighted sum over all real tokens.

    The sums are taken before the key and value projections, which are linear too: the same result for half the work.
    The weights start with variance 1 / max_length, so that a slot of a full sequence has the scale of a token.
    """

    family = "low_rank"
    paper = "Wang et al. 2020, arXiv:2006.04768"
    growth = Growth(1, 1)
    cost = "2 * L * rank * D"

    def __init__(self, sizes: Sizes, *, rank: int = 256, shared: bool = False, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        init = nnx.initializers.normal(sizes.max_length**-0.5)
        self.key_map = nnx.Param(init(rngs.params(), (sizes.max_length, rank)))
        self.value_map = None if shared else nnx.Param(init(rngs.params(), (sizes.max_length, rank)))

    def __call__(
        self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B L D"]:
        x = x.astype(self.out.dtype)
        for_keys = sum_length(x, mask, self.key_map[...])
        for_values = for_keys if self.value_map is None else sum_length(x, mask, self.value_map[...])
        inputs = self.query(x), self.key(for_keys), self.value(for_values)
        q, k, v = (split_heads(y, self.heads) for y in inputs)
        return self.out(merge_heads(self.attend(q, k, v, mask, self.weight_dropout(rngs))))

    def attend(self, q, k, v, mask, drop):
        """Attention to slots, k and v [B, R, H, K]; without real tokens there is nothing in them."""
        if mask is not None:
            v = jnp.where(mask.any(1)[:, None, None, None], v, 0)
        return attend_by_blocks(q, k, v, drop=drop)
