"""BigBird: in blocks, a sliding window, global first and last blocks, and random blocks."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.attention import (
    Drop,
    block,
    by_blocks,
    dense_attention,
    from_blocks,
    pad_length,
    real_lengths,
    require_boolean,
    to_blocks,
    union_attention,
)
from models.mixer import AttentionMixer, Drawn, Growth, Sizes


def place_random_blocks(draws: Float[Array, "H N R"], last: Int[Array, " B"]) -> Int[Array, "B H N R"]:
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
    number = jnp.where(pick < before, pick + 1, pick - before + rows + 2)
    return jnp.where((free > 0) & ~repeated, number, -1)


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
    size, last = block_size, last_blocks(mask, batch, length, block_size)
    blocks = [to_blocks(x, size) for x in (k, v, real)]
    queries, count = to_blocks(q, size), blocks[0].shape[1]
    around = [pad_length(x, size, size + count * size - length) for x in (k, v, real)]
    first_keys, first_values, first_real = (x[:, 0] for x in blocks)
    at_number = jax.vmap(lambda example, number: example[number])
    last_keys, last_values, last_real = (at_number(x, last) for x in blocks)

    # A random block that is also in the window, global or named before counts once.
    row = jnp.arange(count)[None, None, :, None]
    distinct = (random_blocks > 0) & (random_blocks < last[:, None, None, None]) & (abs(random_blocks - row) > 1)
    distinct &= ~_named_before(random_blocks)
    chosen = jnp.where(distinct, random_blocks, 0)
    random_keys, random_values = (_take_blocks(x, chosen) for x in blocks[:2])
    random_real = at_number(blocks[2], chosen) & distinct[..., None]  # [B, H, N, R, S]
    random_real = jnp.moveaxis(random_real, 1, 2).reshape(batch, count, q.shape[2], 1, -1)

    def attend(i: Array) -> Array:
        keys, values, reals = (block(x, i * size, 3 * size) for x in around)
        parts = [
            (keys, values, reals[:, None, None]),
            (first_keys, first_values, (first_real & (i > 1))[:, None, None]),
            (last_keys, last_values, (last_real & (i < last - 1)[:, None])[:, None, None]),
            (random_keys[:, i], random_values[:, i], random_real[:, i]),
        ]
        return union_attention(queries[:, i], parts, drop and drop.at(i))

    out = by_blocks(attend, count)
    ends = jnp.concatenate([queries[:, 0], at_number(queries, last)], axis=1)
    first_out, last_out = jnp.split(dense_attention(ends, k, v, real, drop=drop), 2, axis=1)
    at_last = (jnp.arange(count)[None, :] == last[:, None])[..., None, None, None]
    out = jnp.where(at_last, last_out[:, None], out.at[:, 0].set(first_out))
    return from_blocks(out, length)


def last_blocks(mask: Bool[Array, "B L"] | None, batch: int, length: int, block_size: int) -> Int[Array, " B"]:
    """Number of the last block with a real token, of each example."""
    return jnp.maximum(-(-real_lengths(mask, batch, length) // block_size) - 1, 0)


def _take_blocks(blocks: Float[Array, "B N S H K"], index: Int[Array, "B H N R"]) -> Float[Array, "B N J H K"]:
    """For every head its own list of blocks: J = R * S keys for each block of queries."""
    take = jax.vmap(jax.vmap(lambda one, at: one[at]))  # [N, S, K] and [N, R] to [N, R, S, K]
    taken = take(jnp.moveaxis(blocks, 3, 1), index)
    batch, heads, count, _, _, width = taken.shape
    return jnp.moveaxis(taken.reshape(batch, heads, count, -1, width), 1, 3)


def _named_before(chosen: Int[Array, "B H N R"]) -> Bool[Array, "B H N R"]:
    """True where the same block stands earlier in the same list."""
    same = chosen[..., :, None] == chosen[..., None, :]
    return jnp.any(same & np.tril(np.ones((chosen.shape[-1],) * 2, bool), -1)[None, None, None], axis=-1)


class BigBird(AttentionMixer):
    """Window of three blocks, first and last block global both ways, `random_blocks` random blocks a row and head."""

    family = "patterns"
    paper = "Zaheer et al. 2020, arXiv:2007.14062"
    growth = Growth(1, 1)
    cost = "L * (7 + random_blocks) * block_size * D"

    def __init__(self, sizes: Sizes, *, block_size: int = 64, random_blocks: int = 3, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        self.block_size = block_size
        shape = (self.heads, -(-sizes.max_length // block_size), random_blocks)
        self.draws = Drawn(jax.random.uniform(rngs.params(), shape))

    def random_blocks(self, last: Int[Array, " B"], count: int) -> Int[Array, "B H N R"]:
        """The random blocks of the first `count` blocks of queries, for examples whose last real block is `last`."""
        return place_random_blocks(self.draws[:, :count], last)

    def pattern(self, length: int) -> np.ndarray:
        """Which pairs are computed at full length, bool [heads, length, length]."""
        count = -(-length // self.block_size)
        row, column = np.arange(count)[:, None], np.arange(count)
        fixed = (abs(row - column) <= 1) | np.isin(column, [0, count - 1]) | np.isin(row, [0, count - 1])
        chosen = np.asarray(jax.jit(self.random_blocks, static_argnums=1)(jnp.array([count - 1]), count)[0])
        drawn = (chosen[..., None] == column).any(2)
        interior = np.isin(row, range(1, count - 1))
        blocks = fixed | (drawn & interior)
        return blocks.repeat(self.block_size, 1).repeat(self.block_size, 2)[:, :length, :length]

    def attend(self, q, k, v, mask, drop):
        batch, length = q.shape[:2]
        last = last_blocks(mask, batch, length, self.block_size)
        chosen = self.random_blocks(last, -(-length // self.block_size))
        return bigbird_attention(q, k, v, mask, chosen, block_size=self.block_size, drop=drop)
