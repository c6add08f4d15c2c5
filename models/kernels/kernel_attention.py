"""Attention with a kernel phi(q) . phi(k) in place of the softmax, so that the products can be taken in the other order."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from models.attention import require_boolean


def kernel_attention(
    q: Float[Array, "B L H F"],
    k: Float[Array, "B L H F"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
) -> Float[Array, "B L H K"]:
    """phi(q_i) . sum_j phi(k_j) v_j^T / phi(q_i) . sum_j phi(k_j) over real j, for features q = phi(q), k = phi(k).

    Sums are taken in float32 or wider. Katharopoulos et al. 2020, equation 5, https://arxiv.org/abs/2006.16236
    """
    require_boolean(mask)
    wide = jnp.promote_types(q.dtype, jnp.float32)
    if mask is not None:
        k = jnp.where(mask[..., None, None], k, 0)
    memory = jnp.einsum("blhf,blhk->bhfk", k, v, preferred_element_type=wide)
    normaliser = jnp.einsum("blhf,bhf->blh", q, k.sum(1, dtype=wide), preferred_element_type=wide)[..., None]
    summed = jnp.einsum("blhf,bhfk->blhk", q, memory, preferred_element_type=wide)
    return jnp.where(normaliser == 0, 0, summed / jnp.where(normaliser == 0, 1, normaliser)).astype(v.dtype)
