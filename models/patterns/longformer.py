"""Longformer: a sliding window, dilated if wanted, and global tokens with projections of their own."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, by_heads, dense_attention, joined, require_boolean, softmax_sums
from models.linear import Linear
from models.mixer import AttentionMixer, Growth, Sizes, split_heads
from models.patterns.strided import strided_attention


def longformer_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    reach: int,
    dilation: Sequence[int],
    global_tokens: Sequence[int] = (),
    global_inputs: Sequence[Float[Array, "B L H K"]] = (),
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Tokens attend to `reach` tokens on each side, every `dilation[head]`-th one, and to the `global_tokens`.

    The tokens at these positions attend to all, by queries, keys and values of their own: `global_inputs`. A global
    token inside a window counts once. Beltagy et al. 2020, https://arxiv.org/abs/2004.05150
    """
    require_boolean(mask)
    length = q.shape[1]
    real = jnp.ones(q.shape[:2], bool) if mask is None else mask
    at = np.array([position for position in global_tokens if position < length], int)
    apart = abs(np.arange(length)[:, None] - at)

    def attend(d: int, q: Array, k: Array, v: Array, drop: Drop | None) -> Array:
        window: Any = partial(strided_attention, q, k, v, mask, stride=d, reach=reach, drop=drop and drop.at(0))
        if not at.size:
            return window()
        outside = jnp.asarray((apart > reach * d) | (apart % d != 0))
        allowed = real[:, at][:, None, None] & outside[None, None]
        to_global = softmax_sums(q, k[:, at], v[:, at], allowed, drop=drop and drop.at(1))
        return joined([window(finish=False), to_global]).astype(v.dtype)

    out = by_heads(dilation, attend, q, k, v, drop=drop and drop.at(0))
    if not at.size:
        return out
    queries, keys, values = global_inputs
    return out.at[:, at].set(dense_attention(queries[:, at], keys, values, mask, drop=drop and drop.at(1)))


class Longformer(AttentionMixer):
    """A window of `window` tokens in all, half of them on each side, and global tokens at the positions given.

    Position 0 is the class token, or the first token under mean pooling. `dilation` of a head is the step between the
    tokens in its window; the list is repeated over the heads.
    """

    family = "patterns"
    paper = "Beltagy et al. 2020, arXiv:2004.05150"
    growth = Growth(1, 1)
    cost = "L * (window + 1 + 2 * len(global_tokens)) * D"
    global_query: Linear
    global_key: Linear
    global_value: Linear
    projected = (*AttentionMixer.projected, "global_query", "global_key", "global_value")

    def __init__(
        self,
        sizes: Sizes,
        *,
        window: int = 512,
        global_tokens: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        rngs: nnx.Rngs,
    ) -> None:
        self.reach, self.global_tokens = window // 2, tuple(global_tokens)
        self.dilation = tuple(np.resize(dilation, sizes.heads).tolist())
        if not self.global_tokens:  # projections that nothing passes through would never learn
            self.projected = AttentionMixer.projected  # type: ignore[misc]
        super().__init__(sizes, rngs=rngs)

    def inputs(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B L H K"], ...]:
        """Queries, keys and values, then the global ones; global queries are taken of the global tokens only."""
        if not self.global_tokens:
            return super().inputs(x)
        at = np.array([position for position in self.global_tokens if position < x.shape[1]], int)
        q, k, v = (split_heads(project(x), self.heads) for project in (self.query, self.key, self.value))
        global_k, global_v = (split_heads(project(x), self.heads) for project in (self.global_key, self.global_value))
        global_q = jnp.zeros_like(q).at[:, at].set(split_heads(self.global_query(x[:, at]), self.heads))
        return q, k, v, global_q, global_k, global_v

    def pattern(self, length: int) -> np.ndarray:
        """Which pairs are computed, bool [heads, length, length]."""
        i, j = np.arange(length)[:, None], np.arange(length)
        step = np.array(self.dilation)[:, None, None]
        near = (abs(i - j) <= self.reach * step) & (abs(i - j) % step == 0)
        return near | np.isin(i, self.global_tokens) | np.isin(j, self.global_tokens)

    def attend(self, q, k, v, *rest):
        *global_inputs, mask, drop = rest
        return longformer_attention(
            q,
            k,
            v,
            mask,
            reach=self.reach,
            dilation=self.dilation,
            global_tokens=self.global_tokens,
            global_inputs=global_inputs,
            drop=drop,
        )
