"""The pieces that attention variants share: masked softmax, one softmax over several parts, dense attention, blocks.

Shape key: B batch, L length, H heads, K head dim, N blocks, S block size, J keys that a block of queries sees.
Masks are boolean, True = real token or allowed pair. A query with nothing to attend to yields exactly 0.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int, Shaped

from models.dropout import drop_entries

Tree = TypeVar("Tree")
PEAK = "peak of the logits"


class Drop(NamedTuple):
    """Dropout of attention weights in training: `drop(weights)`."""

    rate: float
    key: Array

    def __call__(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        return drop_entries(weights, self.rate, self.key)

    def at(self, number: int | Int[Array, ""]) -> "Drop":
        """Other draws, for the block, part or head group of this number."""
        return Drop(self.rate, jax.random.fold_in(self.key, number))


def require_boolean(mask: Array | None) -> None:
    """Raises TypeError unless `mask` is None or boolean: integer and float masks have two readings."""
    if mask is not None and mask.dtype != jnp.bool_:
        raise TypeError(f"a mask is boolean with True for a real token, not {mask.dtype}")


def real_lengths(mask: Bool[Array, "B L"] | None, batch: int, length: int) -> Int[Array, " B"]:
    """Number of real tokens of each example, int32 [B]."""
    if mask is None:
        return jnp.full((batch,), length, jnp.int32)
    return mask.sum(-1, dtype=jnp.int32)


def masked_softmax(logits: Float[Array, "... J"], allowed: Bool[Array, "... J"] | None) -> Float[Array, "... J"]:
    """Softmax over the last axis among the allowed entries, in float32 or wider; all 0 where none is allowed."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    if allowed is None:
        return jax.nn.softmax(wide).astype(logits.dtype)
    wide = jnp.where(allowed, wide, -jnp.inf)
    peak = jax.lax.stop_gradient(wide.max(-1, keepdims=True))
    weights = jnp.exp(wide - jnp.where(jnp.isfinite(peak), peak, 0))
    total = weights.sum(-1, keepdims=True)
    return (weights / jnp.where(total == 0, 1, total)).astype(logits.dtype)


class Sums(NamedTuple):
    """A softmax not yet normalised: exp(logits - peak) summed over keys, alone and times the values."""

    peak: Float[Array, "*N 1"]
    total: Float[Array, "*N 1"]
    values: Float[Array, "*N V"]


def softmax_sums(
    q: Float[Array, "*N S H K"],
    k: Float[Array, "*N J H K"],
    v: Float[Array, "*N J H V"],
    allowed: Bool[Array, "*N #H #S J"] | None = None,
    *,
    bias: Float[Array, "*N #H #S J"] | None = None,
    scale: float | None = None,
    drop: Drop | None = None,
) -> Sums:
    """The sums of softmax(scale Q K^T + bias) V over allowed pairs, in float32 or wider; scale is 1/sqrt(K) by default.

    Dividing after the product with V instead of before saves two passes over the weights.
    """
    wide = jnp.promote_types(q.dtype, jnp.float32)
    q, k = (jnp.swapaxes(x, -3, -2) for x in (q, k))  # a head's rows side by side: faster than einsum's own order
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    logits = jnp.einsum("...sk,...jk->...sj", q * scale, k, preferred_element_type=wide)
    if bias is not None:
        logits = logits + bias
    if allowed is not None:
        logits = jnp.where(allowed, logits, -jnp.inf)
    sums = sums_of_logits("...sj,...jv->...sv", logits, v.swapaxes(-3, -2), drop)
    return Sums(*(jnp.swapaxes(x, -3, -2) for x in sums))


def sums_of_logits(
    product: str,
    logits: Float[Array, "..."],
    v: Float[Array, "..."],
    drop: Drop | None = None,
    *,
    axis: int = -1,
) -> Sums:
    """The sums of softmax(logits) V over `axis` of the logits, one of the last two; a pair at -inf is not allowed.

    `product` is the einsum of the weights, laid out as the logits are, and the values: `sj,jv->sv`.
    """
    # The peak cancels out of every quotient of the sums, so it needs no gradient.
    peak = jax.lax.stop_gradient(jnp.maximum(logits.max(axis, keepdims=True), jnp.finfo(logits.dtype).min))
    peak = checkpoint_name(peak, PEAK)
    weights = jnp.exp(logits - peak)
    total = weights.sum(axis, keepdims=True)
    weights = (drop(weights) if drop else weights).astype(v.dtype)
    values = jnp.einsum(product, weights, v, preferred_element_type=logits.dtype)
    return Sums(jnp.moveaxis(peak, axis, -1), jnp.moveaxis(total, axis, -1), values)


def _merged(a: Sums, b: Sums) -> Sums:
    peak = jnp.maximum(a.peak, b.peak)
    share_a, share_b = jnp.exp(a.peak - peak), jnp.exp(b.peak - peak)
    return Sums(peak, share_a * a.total + share_b * b.total, share_a * a.values + share_b * b.values)


def joined(parts: Sequence[Sums]) -> Float[Array, "*N S H V"]:
    """One softmax over several parts; exactly 0 where no part has a key. A pair allowed in two parts counts twice."""
    _, total, values = reduce(_merged, parts)
    return values / jnp.where(total == 0, 1, total)


Part = tuple[Float[Array, "*N J H K"], Float[Array, "*N J H V"], Bool[Array, "*N #H #S J"]]


def union_attention(
    q: Float[Array, "*N S H K"], parts: Sequence[Part], drop: Drop | None = None
) -> Float[Array, "*N S H V"]:
    """A block of queries attends to several lists of keys, (keys, values, allowed pairs), in one softmax.

    Whoever names the parts takes care that no pair is allowed in two of them.
    """
    sums = [softmax_sums(q, *part, drop=drop and drop.at(number)) for number, part in enumerate(parts)]
    return joined(sums).astype(parts[0][1].dtype)


def dense_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B M H K"],
    v: Float[Array, "B M H V"],
    mask: Bool[Array, "B M"] | None = None,
    *,
    pairs: Bool[Array, "#B #H L M"] | None = None,
    bias: Float[Array, "#B #H L M"] | None = None,
    scale: float | None = None,
    drop: Drop | None = None,
) -> Float[Array, "B L H V"]:
    """softmax(scale Q K^T + bias) V over real keys and allowed pairs; scale is 1/sqrt(K) unless given.

    Vaswani et al. 2017, equation 1, https://arxiv.org/abs/1706.03762
    """
    require_boolean(mask)
    allowed = pairs
    if mask is not None:
        allowed = mask[:, None, None, :] if pairs is None else pairs & mask[:, None, None, :]
    return joined([softmax_sums(q, k, v, allowed, bias=bias, scale=scale, drop=drop)]).astype(v.dtype)


def full_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B M H K"],
    v: Float[Array, "B M H V"],
    mask: Bool[Array, "B M"] | None = None,
    *,
    drop: Drop | None = None,
) -> Float[Array, "B L H V"]:
    """`dense_attention` in the fastest exact form for the platform, see `scripts/dense_forms.py`."""
    form = attend_by_blocks if jax.default_backend() == "cpu" else dense_attention
    return form(q, k, v, mask, drop=drop)


def attend_by_blocks(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B M H K"],
    v: Float[Array, "B M H V"],
    mask: Bool[Array, "B M"] | None = None,
    *,
    block_size: int | None = None,
    scale: float | None = None,
    drop: Drop | None = None,
    in_turn: bool | None = None,
) -> Float[Array, "B L H V"]:
    """`dense_attention` by blocks of queries; one after the other, never all L x M weights are in memory.

    On a CPU one head of one example follows the other too: the weights at work stay in a core's cache. By default a
    block has 64 queries there and 128 elsewhere, and more where keys are so few that 2^16 weights, 256 KiB, allow it.
    """
    require_boolean(mask)
    batch, length, heads, width = q.shape
    block_size = block_size or max(64 if jax.default_backend() == "cpu" else 128, 2**16 // k.shape[1])
    queries = to_blocks(q, even_block_size(length, block_size)).transpose(0, 3, 1, 2, 4)
    count = queries.shape[2]
    wide = jnp.promote_types(q.dtype, jnp.float32)
    scale = width**-0.5 if scale is None else scale
    real = jnp.ones(k.shape[:2], bool) if mask is None else mask
    bias = jnp.where(real, jnp.zeros((), wide), -jnp.inf)[:, None, :, None]

    def attend_head(number: Int[Array, ""], queries: Array, keys: Array, values: Array, bias: Array) -> Sums:
        def attend(i: Int[Array, ""]) -> Sums:
            logits = jnp.einsum("sk,jk->js", queries[i] * scale, keys, preferred_element_type=wide) + bias
            return sums_of_logits("js,jv->sv", logits, values, drop and drop.at(number * count + i), axis=-2)

        return each(recomputed(attend), jnp.arange(count), in_turn=in_turn)

    # A row of weights for every key, not for every query: XLA's CPU backend adds rows up with vector instructions, and
    # the products of the backward pass are faster too.
    keys, values = (x.swapaxes(1, 2) for x in (k, v))
    out = each_head(attend_head, queries, keys, values, jnp.broadcast_to(bias, (batch, heads, *bias.shape[2:])))
    return out[:, :length].astype(v.dtype)


def pad_length(x: Shaped[Array, "B L *rest"], before: int, after: int) -> Shaped[Array, "B M *rest"]:
    """Adds positions of zeros (False in a mask) before and after the sequence."""
    return jnp.pad(x, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))


def to_blocks(x: Shaped[Array, "B L *rest"], size: int) -> Shaped[Array, "B N S *rest"]:
    """Cuts the length into contiguous blocks of `size`, the last one filled up with zeros (False in a mask)."""
    return pad_length(x, 0, -x.shape[1] % size).reshape(x.shape[0], -1, size, *x.shape[2:])


def even_block_size(length: int, about: int) -> int:
    """The size of equal blocks that fill the length: 129 positions are one block, not one of 128 and 127 of padding."""
    return -(-length // max(1, round(length / about)))


def from_blocks(x: Shaped[Array, "B N S *rest"], length: int) -> Shaped[Array, "B L *rest"]:
    """Undoes `to_blocks`."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])[:, :length]


def block(x: Shaped[Array, "B L *rest"], start: int | Int[Array, ""], size: int) -> Shaped[Array, "B S *rest"]:
    """The `size` positions from `start` on; they must exist, for a slice beyond the end is moved back."""
    return jax.lax.dynamic_slice_in_dim(x, start, size, axis=1)


def each(compute: Callable[[Any], Tree], items: Any, *, in_turn: bool | None = None) -> Tree:
    """Stacks compute(item) of all items, which lie along axis 0 of the arrays `items`.

    A CPU computes one after the other, so that what is at work stays in a core's cache; an accelerator computes all
    side by side, unless `in_turn` spares its memory.
    """
    in_turn = jax.default_backend() == "cpu" if in_turn is None else in_turn
    return jax.lax.map(compute, items) if in_turn else jax.vmap(compute)(items)


def recomputed(compute: Callable[..., Tree]) -> Callable[..., Tree]:
    """`compute`, whose intermediate results, but for the peaks, are computed again in the backward pass and not kept.

    Only one block's weights are in memory then, and in a cache: that saves more time than the second computation costs.
    """
    return jax.checkpoint(compute, prevent_cse=False, policy=jax.checkpoint_policies.save_only_these_names(PEAK))


def each_head(attend: Callable[..., Sums], *inputs: Shaped[Array, "B H *rest"]) -> Float[Array, "B M H V"]:
    """attend(number, *inputs of that head) of every head of every example as `each` goes through them, normalised.

    The sums that it returns have axes in front of their last one that hold the M queries in order.
    """
    batch, heads = inputs[0].shape[:2]
    numbered = (jnp.arange(batch * heads), *(x.reshape(batch * heads, *x.shape[2:]) for x in inputs))
    out = joined([each(lambda head: attend(*head), numbered)])
    return out.reshape(batch, heads, -1, out.shape[-1]).swapaxes(1, 2)


def by_blocks(compute: Callable[[Int[Array, ""]], Tree], count: int, *, in_turn: bool | None = None) -> Tree:
    """Stacks compute(0) .. compute(count - 1), each with the batch in front, along a new axis 1: [B, N, ...]."""
    stacked = each(recomputed(compute), jnp.arange(count), in_turn=in_turn)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), stacked)


def by_heads(
    labels: Sequence[Hashable],
    attend: Callable[..., Float[Array, "B L h V"]],
    *inputs: Float[Array, "B L H K"],
    drop: Drop | None,
) -> Float[Array, "B L H V"]:
    """attend(label, *inputs, drop) of the heads with that label, put back in the order of the heads."""
    groups = [[head for head, own in enumerate(labels) if own == label] for label in dict.fromkeys(labels)]
    of_head: dict[int, Array] = {}
    for number, heads in enumerate(groups):
        chosen = (jnp.stack([x[:, :, head] for head in heads], axis=2) for x in inputs)
        out = attend(labels[heads[0]], *chosen, drop and drop.at(number))
        of_head |= {head: out[:, :, place] for place, head in enumerate(heads)}
    return jnp.stack([of_head[head] for head in range(len(labels))], axis=2)
