"""Local attention: a sliding window, or blocks that see themselves and their neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import (
    Drop,
    Sums,
    block,
    by_blocks,
    from_blocks,
    joined,
    pad_length,
    require_boolean,
    softmax_sums,
)
from models.mixer import AttentionMixer, Growth, Sizes


def local_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H V"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    block_size: int,
    neighbours: int = 1,
    window: int | None = None,
    causal: bool = False,
    drop: Drop | None = None,
    finish: bool = True,
) -> Float[Array, "B L H V"]:
    """Attention of contiguous blocks to themselves and to `neighbours` blocks on each side.

    Parmar et al. 2018, https://arxiv.org/abs/1802.05751. With `window` given, all pairs with abs(i - j) <= window
    instead, and `block_size` changes the speed alone: Luong et al. 2015, https://arxiv.org/abs/1508.04025. Not
    normalised, as `Sums` for a union with other parts, unless `finish`.
    """
    require_boolean(mask)
    batch, length = q.shape[:2]
    block_size = min(block_size, length)
    count = -(-length // block_size)
    back = min(neighbours * block_size if window is None else window, length - 1)
    forward = 0 if causal else back
    seen = block_size + back + forward  # block i sees the positions from i * block_size - back on, this many
    end = count * block_size - length
    real = jnp.ones((batch, length), bool) if mask is None else mask
    queries, (keys, values, reals) = pad_length(q, 0, end), (pad_length(x, back, end + forward) for x in (k, v, real))
    ahead = np.arange(seen) - back - np.arange(block_size)[:, None]  # j - i
    near = jnp.asarray((ahead <= (0 if causal else seen)) & (abs(ahead) <= (seen if window is None else window)))

    def attend(i: Array) -> Array | Sums:
        query = block(queries, i * block_size, block_size)
        key, value, real = (block(x, i * block_size, seen) for x in (keys, values, reals))
        sums = softmax_sums(query, key, value, real[:, None, None] & near[None, None], drop=drop and drop.at(i))
        return joined([sums]).astype(v.dtype) if finish else sums

    return jax.tree.map(lambda x: from_blocks(x, length), by_blocks(attend, count))


class Local(AttentionMixer):
    """Every token attends to the tokens at most `window` away; with `blocks`, to its own block of that size and to
    `neighbours` blocks on each side (what LRA's "Local" means to be).
    """

    family = "patterns"
    paper = "Luong et al. 2015, arXiv:1508.04025; Parmar et al. 2018, arXiv:1802.05751"
    growth = Growth(1, 1)
    cost = "L * (2 * window + 1) * D"

    def __init__(
        self, sizes: Sizes, *, window: int = 64, blocks: bool = False, neighbours: int = 0, rngs: nnx.Rngs
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        self.window, self.blocks, self.neighbours = window, blocks, neighbours

    def pattern(self, length: int) -> np.ndarray:
        """Which pairs are computed, bool [heads, length, length]."""
        i, j = np.arange(length)[:, None], np.arange(length)
        near = abs(i // self.window - j // self.window) <= self.neighbours if self.blocks else abs(i - j) <= self.window
        return np.broadcast_to(near, (self.heads, length, length))

    def attend(self, q, k, v, mask, drop):
        if self.blocks:
            return local_attention(q, k, v, mask, block_size=self.window, neighbours=self.neighbours, drop=drop)
        return local_attention(q, k, v, mask, block_size=64, window=self.window, drop=drop)
