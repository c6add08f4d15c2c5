"""Linear Transformer: the feature map elu + 1 in place of the softmax."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from models.kernels.kernel_attention import kernel_attention
from models.mixer import AttentionMixer, Growth


def elu_plus_one(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """elu(x) + 1, written so that it stays above 0: exp(x) for negative x instead of (exp(x) - 1) + 1."""
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.minimum(x, 0)))


class LinearTransformer(AttentionMixer):
    """Attention with the kernel phi(q) . phi(k), phi = elu + 1."""

    family = "kernels"
    paper = "Katharopoulos et al. 2020, arXiv:2006.16236"
    growth = Growth(1, 1)
    cost = "L * K * D"
    drops_weights = False

    def attend(self, q, k, v, mask, drop):
        return kernel_attention(q, k, v, mask, elu_plus_one, elu_plus_one)
