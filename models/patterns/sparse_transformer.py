"""Sparse Transformer: a near and a far pattern, whose union reaches every position in two steps."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import (
    Drop,
    Sums,
    by_blocks,
    by_heads,
    dense_attention,
    from_blocks,
    joined,
    require_boolean,
    softmax_sums,
    to_blocks,
)
from models.mixer import AttentionMixer, Growth, Sizes
from models.patterns.local import local_attention
from models.patterns.strided import strided_attention


def sparse_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    part: str,
    pattern: str,
    block_size: int,
    summary: int = 1,
    first: bool = False,
    causal: bool = False,
    class_token: bool = False,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Attention under `part` "A1", "A2" or "both" of `pattern`, with l = `block_size` and c = `summary`.

    "fixed": A1 is the block of l positions that the query is in, A2 the last c positions of every block, and with
    `first` its first one. "strided": A1 is abs(i - j) <= l, A2 (i - j) mod l = 0. With `causal` only j <= i. With
    `class_token` position 0 attends to all and all to it, and the pattern is that of the positions behind it.
    Child et al. 2019, section 4.3, https://arxiv.org/abs/1904.10509
    """
    require_boolean(mask)
    real = jnp.ones(q.shape[:2], bool) if mask is None else mask
    rest = [x[:, int(class_token) :] for x in (q, k, v, real)]
    patterns = strided_patterns(block_size) if pattern == "strided" else fixed_patterns(block_size, summary, first)
    parts = [
        partial(attend, *rest, causal=causal, drop=drop and drop.at(number))
        for number, attend in enumerate(patterns[name] for name in (("A1", "A2 - A1") if part == "both" else (part,)))
    ]
    if not class_token:
        return parts[0]() if len(parts) == 1 else joined([part(finish=False) for part in parts]).astype(v.dtype)
    token = dense_attention(q[:, :1], k, v, real, drop=drop and drop.at(2))
    if q.shape[1] == 1:
        return token
    to_token = softmax_sums(rest[0], k[:, :1], v[:, :1], real[:, None, None, :1], drop=drop and drop.at(3))
    others = joined([to_token, *(part(finish=False) for part in parts)])
    return jnp.concatenate([token, others.astype(v.dtype)], axis=1)


def strided_patterns(size: int) -> dict[str, Callable[..., Any]]:
    """The parts of the strided pattern; what A2 has of A1 is what is at most one stride away."""
    return {
        "A1": partial(local_attention, block_size=64, window=size),
        "A2": partial(strided_attention, stride=size),
        "A2 - A1": partial(strided_attention, stride=size, beyond=1),
    }


def fixed_patterns(size: int, summary: int, first: bool) -> dict[str, Callable[..., Any]]:
    """The parts of the fixed pattern; what A2 has of A1 is what is in the query's own block."""
    marked = np.arange(size) >= size - summary
    marked[0] |= first
    return {
        "A1": partial(local_attention, block_size=size, neighbours=0),
        "A2": partial(summary_attention, marked=marked),
        "A2 - A1": partial(summary_attention, marked=marked, own=False),
    }


def summary_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    marked: np.ndarray,
    own: bool = True,
    causal: bool = False,
    drop: Drop | None = None,
    finish: bool = True,
) -> Float[Array, "B L H K"]:
    """Attention to the positions of every block that are `marked` (bool [S]), the query's `own` block's or not.

    Not normalised, as `Sums`, unless `finish`.
    """
    require_boolean(mask)
    size, columns = len(marked), np.flatnonzero(marked)
    real = jnp.ones(q.shape[:2], bool) if mask is None else mask
    queries, *blocks = (to_blocks(x, size) for x in (q, k, v, real))
    count = queries.shape[1]
    keys, values, reals = (x[:, :, columns].reshape(x.shape[0], -1, *x.shape[3:]) for x in blocks)
    number = jnp.asarray(np.repeat(np.arange(count), len(columns)))[None]
    behind = jnp.asarray(np.tile(columns <= np.arange(size)[:, None], count))  # in one block: j <= i

    def attend(i: Array) -> Array | Sums:
        in_own = (behind | (not causal)) & own
        elsewhere = (number < i) | (not causal)
        seen = jnp.where(number == i, in_own, elsewhere)
        allowed = reals[:, None, None] & seen[None, None]
        sums = softmax_sums(queries[:, i], keys, values, allowed, drop=drop and drop.at(i))
        return joined([sums]).astype(v.dtype) if finish else sums

    return jax.tree.map(lambda x: from_blocks(x, q.shape[1]), by_blocks(attend, count))


class SparseTransformer(AttentionMixer):
    """The first half of the heads attends under A1, the others under A2; a single head under both.

    By default a `block` is as long as the root of the longest length, rounded to a power of 2, and its `summary` is a
    quarter of it, at most 8 tokens (the paper: 8 to 32): one that grew with the block would make A2 quadratic.
    Tokens see both ways unless `causal`. `lra` is what LRA ran: both patterns for all heads, causal, and the first
    position of a block in its summary. With `class_token` position 0 attends to all and all to it: a causal model can't
    classify by the class token, which stands in front, without this.
    """

    family = "patterns"
    paper = "Child et al. 2019, arXiv:1904.10509"
    growth = Growth(1.5, 1.5)
    cost = "L * (block + summary * L / block) / 2 * D"

    def __init__(
        self,
        sizes: Sizes,
        *,
        kind: str = "fixed",
        block: int | None = None,
        summary: int | None = None,
        causal: bool = False,
        class_token: bool = False,
        lra: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        if kind not in ("fixed", "strided"):
            raise ValueError(f"kind is fixed or strided, not {kind!r}")
        block = block or 2 ** round(math.log2(math.ceil(math.sqrt(sizes.max_length))))
        summary = summary or max(1, min(8, block // 4))
        if summary > block:
            raise ValueError(f"a summary of {summary} tokens is longer than a block of {block}")
        self.kind, self.block, self.summary = kind, block, summary
        self.causal, self.class_token, self.lra = causal or lra, class_token, lra
        near = (self.heads + 1) // 2
        split = ("A1",) * near + ("A2",) * (self.heads - near)
        self.parts = ("both",) * self.heads if lra or self.heads == 1 else split

    def pattern(self, length: int) -> np.ndarray:
        """Which pairs are computed, bool [heads, length, length]."""
        i = np.arange(length)[:, None] - int(self.class_token)
        j = i.T
        if self.kind == "strided":
            near, far = abs(i - j) <= self.block, (i - j) % self.block == 0
        else:
            near, place = i // self.block == j // self.block, j % self.block
            far = np.broadcast_to((place >= self.block - self.summary) | (self.lra & (place == 0)), near.shape)
        special = np.minimum(i, j) < 0
        masks = {"A1": near, "A2": far, "both": near | far}
        return np.stack([masks[part] & ((j <= i) | (not self.causal)) | special for part in self.parts])

    def attend(self, q, k, v, mask, drop):
        def attend(part: str, q: Array, k: Array, v: Array, drop: Drop | None) -> Array:
            return sparse_attention(
                q,
                k,
                v,
                mask,
                part=part,
                pattern=self.kind,
                block_size=self.block,
                summary=self.summary,
                first=self.lra,
                causal=self.causal,
                class_token=self.class_token,
                drop=drop,
            )

        return by_heads(self.parts, attend, q, k, v, drop=drop)
