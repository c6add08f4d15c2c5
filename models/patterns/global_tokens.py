"""Global attention: a few special tokens collect from all tokens and give to all of them."""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, dense_attention, masked_softmax, require_boolean
from models.mixer import AttentionMixer, Growth, Sizes


def global_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    tokens: int,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """The first `tokens` tokens attend to all; the others attend to these and to themselves.

    The global part of Ainslie et al. 2020, https://arxiv.org/abs/2004.08483, with a local radius of 0
    """
    require_boolean(mask)
    real = jnp.ones(q.shape[:2], bool) if mask is None else mask
    special = dense_attention(q[:, :tokens], k, v, real, drop=drop and drop.at(0))
    (rest_q, rest_k, rest_v, rest_real) = (x[:, tokens:] for x in (q, k, v, real))
    (special_k, special_v, special_real) = (x[:, :tokens] for x in (k, v, real))
    rest = star_attention(
        rest_q, rest_k, rest_v, rest_real, special_k, special_v, special_real, drop=drop and drop.at(1)
    )
    return jnp.concatenate([special, rest], axis=1)


def learned_global_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    special_queries: Float[Array, "G H K"],
    special_keys: Float[Array, "G H K"],
    *,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """G extra tokens collect from all tokens; all tokens attend to what these have collected and to themselves."""
    require_boolean(mask)
    real = jnp.ones(q.shape[:2], bool) if mask is None else mask
    queries, keys = (
        jnp.broadcast_to(x.astype(q.dtype)[None], (q.shape[0], *x.shape)) for x in (special_queries, special_keys)
    )
    collected = dense_attention(queries, k, v, real, drop=drop and drop.at(0))
    any_real = jnp.broadcast_to(real.any(1, keepdims=True), keys.shape[:2])
    return star_attention(q, k, v, real, keys, collected, any_real, drop=drop and drop.at(1))


def star_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    real: Bool[Array, "B L"],
    special_keys: Float[Array, "B G H K"],
    special_values: Float[Array, "B G H K"],
    special_real: Bool[Array, "B G"],
    *,
    drop: Drop | None,
) -> Float[Array, "B L H K"]:
    """Every token attends to the special tokens and to itself, in one softmax."""
    q = q * q.shape[-1] ** -0.5
    to_special = jnp.einsum("blhk,bghk->blhg", q, special_keys)
    logits = jnp.concatenate([to_special, (q * k).sum(-1, keepdims=True)], axis=-1)
    special_real = jnp.broadcast_to(special_real[:, None], (*q.shape[:2], special_real.shape[1]))
    allowed = jnp.concatenate([special_real, real[..., None]], axis=-1)
    weights = masked_softmax(logits, allowed[:, :, None])
    weights = drop(weights) if drop else weights
    return jnp.einsum("blhg,bghk->blhk", weights[..., :-1], special_values) + weights[..., -1:] * v


class GlobalTokens(AttentionMixer):
    """`tokens` special tokens: the first ones of the sequence, class token included, or `learned` extra ones.

    A mixer hands nothing to the next layer, so extra tokens live within one layer and make no sequence longer: each has
    a learned query and a learned key, and its value is what its query collects from the sequence. They pass information
    from any token to any other within the layer, for which special tokens of the sequence need two.
    """

    family = "patterns"
    paper = "Ainslie et al. 2020, arXiv:2004.08483; Beltagy et al. 2020, arXiv:2004.05150"
    growth = Growth(1, 1)
    cost = "L * 2 * tokens * D"

    def __init__(self, sizes: Sizes, *, tokens: int = 16, learned: bool = False, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        self.tokens, self.learned = tokens, learned
        if learned:
            shape = (tokens, self.heads, self.head_dim)
            self.special_queries = nnx.Param(nnx.initializers.normal(1.0)(rngs.params(), shape))
            self.special_keys = nnx.Param(nnx.initializers.normal(1.0)(rngs.params(), shape))

    def pattern(self, length: int) -> np.ndarray | None:
        """Which pairs are computed, bool [heads, length, length]; None for `learned` tokens, which no pair contains."""
        if self.learned:
            return None
        i, j = np.arange(length)[:, None], np.arange(length)
        return np.broadcast_to((i < self.tokens) | (j < self.tokens) | (i == j), (self.heads, length, length))

    def attend(self, q, k, v, mask, drop):
        if self.learned:
            special = self.special_queries[...], self.special_keys[...]
            return learned_global_attention(q, k, v, mask, *special, drop=drop)
        return global_attention(q, k, v, mask, tokens=self.tokens, drop=drop)
