"""Local attention: a sliding window, or blocks that see themselves and their neighbours."""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, from_blocks, require_boolean, to_blocks, union_attention, with_neighbours
from models.mixer import AttentionMixer, Growth, Sizes


def local_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    block_size: int,
    neighbours: int = 1,
    window: int | None = None,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Attention of contiguous blocks to themselves and `neighbours` blocks on each side, cut to abs(i - j) <= window.

    Parmar et al. 2018, https://arxiv.org/abs/1802.05751; with `window` given (at most `block_size * neighbours`) the
    sliding window of Luong et al. 2015, https://arxiv.org/abs/1508.04025
    """
    require_boolean(mask)
    batch, length = q.shape[:2]
    real = jnp.ones((batch, length), bool) if mask is None else mask
    around = [with_neighbours(to_blocks(x, block_size), neighbours, neighbours) for x in (k, v, real)]
    keys, values, allowed = around[0], around[1], around[2][:, :, None, None, :]
    if window is not None:
        query = np.arange(block_size)[:, None]
        key = np.arange(-neighbours * block_size, (neighbours + 1) * block_size)
        allowed = allowed & jnp.asarray(abs(query - key) <= window)[None, None, None]
    return from_blocks(union_attention(to_blocks(q, block_size), [(keys, values, allowed)], drop), length)


class Local(AttentionMixer):
    """Every token attends to the tokens at most `window` away; with `blocks`, to its own block of that size and to
    `neighbours` blocks on each side (what LRA's "Local" means to be).
    """

    family = "patterns"
    paper = "Luong et al. 2015, arXiv:1508.04025; Parmar et al. 2018, arXiv:1802.05751"
    growth = Growth(1, 1)

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
        return local_attention(q, k, v, mask, block_size=self.window, window=self.window, drop=drop)
