"""Strided attention: every stride-th position, which widens what a token sees by skipping."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, Sums, by_blocks, from_blocks, joined, require_boolean, softmax_sums, to_blocks
from models.mixer import AttentionMixer, Growth, Sizes
from models.patterns.local import local_attention


def strided_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H V"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    stride: int,
    reach: int | None = None,
    beyond: int = -1,
    causal: bool = False,
    drop: Drop | None = None,
    finish: bool = True,
) -> Float[Array, "B L H V"]:
    """Attention to all positions with (i - j) mod stride = 0, with `reach` at most that many strides away.

    Positions at most `beyond` strides away can be left out, if there is no `reach`: for a union with a window. Not
    normalised, as `Sums`, unless `finish`.
    Child et al. 2019, section 4.3, https://arxiv.org/abs/1904.10509
    """
    require_boolean(mask)
    batch, length = q.shape[:2]
    real = jnp.ones((batch, length), bool) if mask is None else mask
    # Position m * stride + r becomes row m of residue r, and a token sees the tokens of its own residue only.
    residues = [jnp.moveaxis(to_blocks(x, stride), 2, 1) for x in (q, k, v, real)]
    rows = residues[0].shape[2]
    if reach is None:
        ahead = np.arange(rows) - np.arange(rows)[:, None]
        steps = jnp.asarray((abs(ahead) > beyond) & ((ahead <= 0) | (not causal)))

        def attend(residue: Array) -> Array | Sums:
            query, key, value, real = (x[:, residue] for x in residues)
            allowed = real[:, None, None] & steps[None, None]
            sums = softmax_sums(query, key, value, allowed, drop=drop and drop.at(residue))
            return joined([sums]).astype(v.dtype) if finish else sums

        out = by_blocks(attend, stride)
    else:  # a sliding window in every residue
        merged = (x.reshape(-1, *x.shape[2:]) for x in residues)
        out = local_attention(*merged, block_size=64, window=reach, causal=causal, drop=drop, finish=finish)
        out = jax.tree.map(lambda x: x.reshape(batch, stride, *x.shape[1:]), out)
    return jax.tree.map(lambda x: from_blocks(jnp.moveaxis(x, 1, 2), length), out)


class Strided(AttentionMixer):
    """Every token attends to the tokens a multiple of `stride` away, at most `reach` strides if that is given.

    By default the stride is the root of the longest length, where stride and number of keys are equal.
    """

    family = "patterns"
    paper = "Child et al. 2019, arXiv:1904.10509"
    growth = Growth(1.5, 1.5)
    cost = "L * (L / stride) * D"

    def __init__(self, sizes: Sizes, *, stride: int | None = None, reach: int | None = None, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        self.stride, self.reach = stride or math.isqrt(sizes.max_length - 1) + 1, reach

    def pattern(self, length: int) -> np.ndarray:
        """Which pairs are computed, bool [heads, length, length]."""
        apart = abs(np.arange(length)[:, None] - np.arange(length))
        near = (apart % self.stride == 0) & (apart <= (length if self.reach is None else self.reach * self.stride))
        return np.broadcast_to(near, (self.heads, length, length))

    def attend(self, q, k, v, mask, drop):
        return strided_attention(q, k, v, mask, stride=self.stride, reach=self.reach, drop=drop)
