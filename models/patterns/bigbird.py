"""BigBird: in blocks, a sliding window, global first and last blocks, and random blocks."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.attention import (
    Drop,
    dense_attention,
    from_blocks,
    real_lengths,
    require_boolean,
    to_blocks,
    union_attention,
    with_neighbours,
)
from models.mixer import AttentionMixer, Drawn, Growth, Sizes


def place_random_blocks(draws: Float[Array, "H N R"], last: Int[Array, "B"]) -> Int[Array, "B H N R"]:
    """Turns uniform draws in [0, 1) into block numbers for blocks of queries 1 .. last - 1; -1 where there is none.

    Row i may take any block but its window and the two global ones. These are cut into R equal ranges and one block is
    taken from each, so that the blocks are distinct and lie over the whole real length.
    """
    rows, ranges = jnp.arange(draws.shape[1])[None, None, :, None], jnp.arange(draws.shape[2])[None, None, None, :]
    last = last[:, None, None, None]
    before = jnp.maximum(rows - 2, 0)  # blocks 1 .. i - 2
    free = before + jnp.maximum(last - rows - 2, 0)  # and i + 2 .. last - 1
    pick = jnp.floor((ranges + draws[None]) * free / draws.shape[2]).astype(jnp.int32)
    pick = jnp.minimum(pick, free - 1)
    repeated = (pick == jnp.roll(pick, 1, axis=-1)) & (ranges > 0)
    block = jnp.where(pick < before, pick + 1, pick - before + rows + 2)
    return jnp.where((free > 0) & ~repeated, block, -1)


def bigbird_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    random_blocks: Int[Array, "#B H N R"],
    *,
    block_size: int,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Blocks of queries attend to their neighbours, the first and the last real block, and `random_blocks`.

    The first and the last real block attend to everything. A block that is named twice counts once, -1 not at all.
    Zaheer et al. 2020, https://arxiv.org/abs/2007.14062
    """
    require_boolean(mask)
    batch, length = q.shape[:2]
    real = jnp.ones((batch, length), bool) if mask is None else mask
    queries, keys, values, real_blocks = (to_blocks(x, block_size) for x in (q, k, v, real))
    count = queries.shape[1]
    row = jnp.arange(count)[None, :]
    last = jnp.maximum(-(-real_lengths(mask, batch, length) // block_size) - 1, 0)
    at_last = (row == last[:, None])[..., None, None, None]

    # Each part: keys, values, which pairs are allowed. What an earlier part holds is taken out of the later ones.
    take_last = jax.vmap(lambda blocks, index: blocks[index])
    window = [with_neighbours(x, 1, 1) for x in (keys, values, real_blocks)]
    beyond_first, before_last = row > 1, row < last[:, None] - 1
    chosen = jnp.broadcast_to(random_blocks, (batch, *random_blocks.shape[1:]))
    distinct = (chosen > 0) & (chosen < last[:, None, None, None]) & (abs(chosen - row[:, None, :, None]) > 1)
    distinct &= ~_named_before(chosen)
    index = jnp.where(distinct, chosen, 0)
    random = [_take_blocks(x, index) for x in (keys, values)]
    random_real = jax.vmap(lambda blocks, at: blocks[at])(real_blocks, index) & distinct[..., None]  # [B, H, N, R, S]
    parts = [
        (window[0], window[1], window[2][:, :, None, None, :]),
        (keys[:, 0], values[:, 0], (real_blocks[:, :1] & beyond_first[..., None])[:, :, None, None, :]),
        (
            take_last(keys, last),
            take_last(values, last),
            (take_last(real_blocks, last)[:, None] & before_last[..., None])[:, :, None, None, :],
        ),
        (*random, jnp.moveaxis(random_real, 1, 2).reshape(batch, count, q.shape[2], 1, -1)),
    ]
    out = union_attention(queries, parts, drop)

    ends = jnp.concatenate([queries[:, 0], take_last(queries, last)], axis=1)
    first_out, last_out = jnp.split(dense_attention(ends, k, v, real, drop=drop), 2, axis=1)
    out = jnp.where(at_last, last_out[:, None], out.at[:, 0].set(first_out))
    return from_blocks(out, length)


def _take_blocks(blocks: Float[Array, "B N S H K"], index: Int[Array, "B H N R"]) -> Float[Array, "B N J H K"]:
    """For every head its own list of blocks: J = R * S keys for each block of queries."""
    per_head = jax.vmap(lambda one, at: one[at], in_axes=(2, 0), out_axes=3)  # [N, S, K] and [N, R] to [N, R, S, H, K]
    taken = jax.vmap(per_head)(blocks, index)
    return taken.reshape(*taken.shape[:2], -1, *taken.shape[-2:])


def _named_before(chosen: Int[Array, "B H N R"]) -> Bool[Array, "B H N R"]:
    """True where the same block stands earlier in the same list."""
    same = chosen[..., :, None] == chosen[..., None, :]
    return jnp.any(same & np.tril(np.ones((chosen.shape[-1],) * 2, bool), -1)[None, None, None], axis=-1)


class BigBird(AttentionMixer):
    """Window of three blocks, first and last block global both ways, `random_blocks` random blocks a row and head."""

    family = "patterns"
    paper = "Zaheer et al. 2020, arXiv:2007.14062"
    growth = Growth(1, 1)

    def __init__(self, sizes: Sizes, *, block_size: int = 64, random_blocks: int = 3, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        self.block_size = block_size
        shape = (self.heads, -(-sizes.max_length // block_size), random_blocks)
        self.draws = Drawn(jax.random.uniform(rngs.params(), shape))

    def random_blocks(self, last: Int[Array, "B"], count: int) -> Int[Array, "B H N R"]:
        """The random blocks of the first `count` blocks of queries, for examples whose last real block is `last`."""
        return place_random_blocks(self.draws[:, :count], last)

    def pattern(self, length: int) -> np.ndarray:
        """Which pairs are computed at full length, bool [heads, length, length]."""
        count = -(-length // self.block_size)
        row, column = np.arange(count)[:, None], np.arange(count)
        fixed = (abs(row - column) <= 1) | np.isin(column, [0, count - 1]) | np.isin(row, [0, count - 1])
        chosen = np.asarray(self.random_blocks(jnp.array([count - 1]), count)[0])
        drawn = (chosen[..., None] == column).any(2)
        interior = np.isin(row, range(1, count - 1))
        blocks = fixed | (drawn & interior)
        return blocks.repeat(self.block_size, 1).repeat(self.block_size, 2)[:, :length, :length]

    def attend(self, q, k, v, mask, drop):
        batch, length = q.shape[:2]
        last = jnp.maximum(-(-real_lengths(mask, batch, length) // self.block_size) - 1, 0)
        chosen = self.random_blocks(last, -(-length // self.block_size))
        return bigbird_attention(q, k, v, mask, chosen, block_size=self.block_size, drop=drop)
