"""The pieces that attention variants share: masked softmax, dense attention, blocks, and one softmax over several parts.

Shape key: B batch, L length, H heads, K head dim, N blocks, S block size, J keys that a block of queries sees.
Masks are boolean, True = real token or allowed pair. A query with nothing to attend to yields exactly 0.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

Drop = Callable[[Array], Array]


def require_boolean(mask: Array | None) -> None:
    """Raises TypeError unless `mask` is None or boolean: integer and float masks have two readings."""
    if mask is not None and mask.dtype != jnp.bool_:
        raise TypeError(f"a mask is boolean with True for a real token, not {mask.dtype}")


def real_lengths(mask: Bool[Array, "B L"] | None, batch: int, length: int) -> Int[Array, "B"]:
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
    logits = jnp.einsum("blhk,bmhk->bhlm", q * (q.shape[-1] ** -0.5 if scale is None else scale), k)
    if bias is not None:
        logits = logits + bias
    allowed = pairs
    if mask is not None:
        allowed = mask[:, None, None, :] if pairs is None else pairs & mask[:, None, None, :]
    weights = masked_softmax(logits, allowed)
    return jnp.einsum("bhlm,bmhv->blhv", drop(weights) if drop else weights, v)


def to_blocks(x: Shaped[Array, "B L *rest"], size: int) -> Shaped[Array, "B N S *rest"]:
    """Cuts the length into contiguous blocks of `size`, the last one filled up with zeros (False in a mask)."""
    missing = -x.shape[1] % size
    padded = jnp.pad(x, [(0, 0), (0, missing)] + [(0, 0)] * (x.ndim - 2))
    return padded.reshape(x.shape[0], -1, size, *x.shape[2:])


def from_blocks(x: Shaped[Array, "B N S *rest"], length: int) -> Shaped[Array, "B L *rest"]:
    """Undoes `to_blocks`."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])[:, :length]


def with_neighbours(blocks: Shaped[Array, "B N S *rest"], back: int, forward: int) -> Shaped[Array, "B N J *rest"]:
    """For every block, itself with `back` blocks before and `forward` after, zeros beyond the ends."""
    count = blocks.shape[1]
    padded = jnp.pad(blocks, [(0, 0), (back, forward)] + [(0, 0)] * (blocks.ndim - 2))
    return jnp.concatenate([padded[:, i : i + count] for i in range(back + forward + 1)], axis=2)


Part = tuple[Float[Array, "B *N J H K"], Float[Array, "B *N J H V"], Bool[Array, "#B #N #H #S J"]]


def union_attention(
    q: Float[Array, "B N S H K"], parts: Sequence[Part], drop: Drop | None = None
) -> Float[Array, "B N S H V"]:
    """Blocks of queries attend to several lists of keys in one softmax.

    A part is (keys, values, allowed pairs); keys are [B, N, J, H, K], or [B, J, H, K] when all blocks share them.
    Whoever names the parts takes care that no pair is allowed in two of them.
    """
    q = q * q.shape[-1] ** -0.5
    logits = [jnp.einsum(f"bnshk,b{'n' * (k.ndim - 4)}jhk->bnhsj", q, k) for k, _, _ in parts]
    allowed = [jnp.broadcast_to(pairs, part.shape) for part, (_, _, pairs) in zip(logits, parts, strict=True)]
    weights = masked_softmax(jnp.concatenate(logits, -1), jnp.concatenate(allowed, -1))
    weights = drop(weights) if drop else weights
    ends = np.cumsum([part.shape[-1] for part in logits])[:-1]
    return sum(
        jnp.einsum(f"bnhsj,b{'n' * (v.ndim - 4)}jhv->bnshv", piece, v)
        for piece, (_, v, _) in zip(jnp.split(weights, ends, axis=-1), parts, strict=True)
    )
