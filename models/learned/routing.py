"""Routing attention: k-means clusters take the queries and the keys nearest to them, which attend to each other."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, joined, real_lengths, require_boolean, softmax_sums
from models.mixer import AttentionMixer, Growth, Sizes, merge_heads


class Centroids(nnx.Variable):
    """Cluster centres: moved by training steps, not by a gradient, and saved with the model."""


def unit(x: Float[Array, "... K"]) -> Float[Array, "... K"]:
    """Vectors scaled to length 1, in float32 or wider; 0 stays 0."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return wide * jax.lax.rsqrt(jnp.maximum((wide**2).sum(-1, keepdims=True), 1e-24))


def similarity(x: Float[Array, "B L H K"], centroids: Float[Array, "H C K"]) -> Float[Array, "B H C L"]:
    """Every centroid times every token at unit length; no gradient, for it only chooses."""
    return jnp.einsum("hck,blhk->bhcl", centroids, unit(jax.lax.stop_gradient(x)))


def routing_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    centroids: Float[Array, "H C K"],
    *,
    window: int,
    epsilon: float = 0.0,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Softmax attention of every cluster's `window` nearest queries to its `window` nearest keys.

    A token in several clusters gets the sum of what they yield over (their number + epsilon), one in none gets 0; an
    example of at most `window` tokens is in all clusters whole. Roy et al. 2020, https://arxiv.org/abs/2003.05997
    """
    require_boolean(mask)
    batch, length = q.shape[:2]
    window = min(window, length)
    real = jnp.ones((batch, length), bool) if mask is None else mask

    def members(x: Float[Array, "B L H K"]) -> Array:
        scores = jnp.where(real[:, None, None], similarity(x, centroids), -jnp.inf)
        return jax.lax.top_k(scores, window)[1].reshape(batch, x.shape[2], -1)

    take = jax.vmap(jax.vmap(lambda rows, at: rows[at]))  # a head's [L, K] and [C W]

    def routed(x: Float[Array, "B L H K"], at: Array) -> Float[Array, "B H C W 1 K"]:
        return take(x.swapaxes(1, 2), at).reshape(batch, x.shape[2], -1, window, 1, x.shape[3])

    of_queries, of_keys = members(q), members(k)
    # The nearest come first and padding last.
    keys_real = (jnp.arange(window)[None] < real_lengths(mask, batch, length)[:, None])[:, None, None, None, None]
    sums = softmax_sums(routed(q, of_queries), routed(k, of_keys), routed(v, of_keys), keys_real, drop=drop)
    out = joined([sums]).reshape(*of_queries.shape, -1)
    add = jax.vmap(jax.vmap(lambda rows, at: jnp.zeros((length, rows.shape[-1]), rows.dtype).at[at].add(rows)))
    number = add(jnp.ones_like(out[..., :1]), of_queries)
    mean = add(out, of_queries) / jnp.where(number == 0, 1, number + epsilon)
    return mean.swapaxes(1, 2).astype(v.dtype)


def moved_centroids(
    x: Float[Array, "B L H K"], mask: Bool[Array, "B L"] | None, centroids: Float[Array, "H C K"], decay: float
) -> Float[Array, "H C K"]:
    """decay * centroid + (1 - decay) * direction of the sum of the real tokens nearest to it; one without any stays."""
    scores = similarity(x, centroids)
    nearest = jax.nn.one_hot(scores.argmax(2), scores.shape[2], axis=2, dtype=scores.dtype)
    if mask is not None:
        nearest = jnp.where(mask[:, None, None], nearest, 0)
    total = jnp.einsum("bhcl,blhk->hck", nearest, unit(jax.lax.stop_gradient(x)))
    target = jnp.where(nearest.sum((0, 3))[..., None] > 0, unit(total), centroids)
    return decay * centroids + (1 - decay) * target


class Routing(AttentionMixer):
    """`clusters` of `window` queries and keys each; by default sqrt(max_length) clusters of max_length / clusters.

    In training the centroids follow the batch's queries and keys, and are brought back to unit length.
    """

    family = "learned"
    paper = "Roy et al. 2020, arXiv:2003.05997"
    growth = Growth(1.5, 1.5)
    cost = "clusters * (L + window * window) * D"

    def __init__(
        self,
        sizes: Sizes,
        *,
        clusters: int | None = None,
        window: int | None = None,
        decay: float = 0.999,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        clusters = clusters or math.ceil(math.sqrt(sizes.max_length))
        self.window, self.decay = window or -(-sizes.max_length // clusters), decay
        self.centroids = Centroids(unit(jax.random.normal(rngs.params(), (self.heads, clusters, self.head_dim))))

    def attend(self, q, k, v, mask, drop):
        return routing_attention(q, k, v, mask, self.centroids[...], window=self.window, drop=drop)

    def __call__(
        self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B L D"]:
        q, k, v = self.inputs(x)
        out = self.attend(q, k, v, mask, self.weight_dropout(rngs))
        if rngs is not None:
            both = jnp.concatenate([q, k], axis=1)
            twice = None if mask is None else jnp.concatenate([mask, mask], axis=1)
            self.centroids[...] = unit(moved_centroids(both, twice, self.centroids[...], self.decay))
        return self.out(merge_heads(out))
