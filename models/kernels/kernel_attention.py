"""Attention with a kernel phi(q) . phi(k) in place of the softmax: the products can be taken in the other order."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from models.attention import each, recomputed, require_boolean, to_blocks

PerToken = Any  # one array [B, L, H, ...] or a tuple of them
FeatureMap = Callable[[PerToken], Float[Array, "H S F"]]


def tokens_at_once(length: int) -> int:
    """How many tokens' features are computed at a time: on the CPU as many as fit into a core's cache, else all."""
    return min(length, 128) if jax.default_backend() == "cpu" else length


def kernel_attention(
    q: PerToken,
    k: PerToken,
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    query_features: FeatureMap,
    key_features: FeatureMap,
) -> Float[Array, "B L H K"]:
    """phi(q_i) . sum_j phi(k_j) v_j^T / phi(q_i) . sum_j phi(k_j) over real j.

    The feature maps see a block of tokens at a time, heads in front: [H, S, ...]. Their features are never all in
    memory. Sums are taken in float32 or wider. Katharopoulos et al. 2020, equation 5, https://arxiv.org/abs/2006.16236
    """
    require_boolean(mask)
    batch, length, heads, _ = v.shape
    blocks = -(-length // tokens_at_once(length))
    size = -(-length // blocks)
    wide = jnp.promote_types(v.dtype, jnp.float32)
    real = jnp.ones((batch, length), bool) if mask is None else mask

    def cut(x: Shaped[Array, "B L *rest"]) -> Shaped[Array, "N S *rest"]:
        return to_blocks(x, size).reshape(batch * blocks, size, *x.shape[2:])

    def summed(block: tuple[PerToken, Array, Array]) -> tuple[Float[Array, "H F K"], Float[Array, "H F"]]:
        k, v, real = block
        features = jnp.where(real[None, :, None], key_features(_heads_first(k)), 0)
        memory = jnp.einsum("hsf,hsk->hfk", features, _heads_first(v), preferred_element_type=wide)
        return memory, features.sum(1, dtype=wide)

    memory, total = (
        x.reshape(batch, blocks, *x.shape[1:]).sum(1) for x in each(recomputed(summed), jax.tree.map(cut, (k, v, real)))
    )

    def read(block: tuple[Array, PerToken]) -> Float[Array, "S H K"]:
        example, q = block
        features = query_features(_heads_first(q))
        normaliser = jnp.einsum("hsf,hf->hs", features, total[example], preferred_element_type=wide)[..., None]
        out = jnp.einsum("hsf,hfk->hsk", features, memory[example], preferred_element_type=wide)
        out = jnp.where(normaliser == 0, 0, out / jnp.where(normaliser == 0, 1, normaliser))
        return _heads_first(out.astype(v.dtype))

    out = each(recomputed(read), (jnp.repeat(jnp.arange(batch), blocks), jax.tree.map(cut, q)))
    return out.reshape(batch, blocks * size, heads, -1)[:, :length]


def _heads_first(tokens: PerToken) -> PerToken:
    return jax.tree.map(lambda x: x.swapaxes(0, 1), tokens)
