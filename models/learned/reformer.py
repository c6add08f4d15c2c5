"""Reformer: tokens are sorted by a hash that similar ones share, and chunks of the sorted list attend locally."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.attention import Drop, Sums, block, by_blocks, joined, real_lengths, require_boolean, softmax_sums
from models.mixer import AttentionMixer, Drawn, Growth, Sizes

SELF = -5e4  # logit of a token with itself: any other key beats it, so that it counts only where there is no other


def lsh_buckets(
    qk: Float[Array, "B L H K"], rotations: Float[Array, "#H K R M"], count: Int[Array, " B"] | None = None
) -> Int[Array, "B H R L"]:
    """The bucket of every token in R rounds of hashing: the largest of [x R, -x R], of 2 M buckets.

    Of an example only the first `count` rotations are used, which gives it 2 * count buckets.
    Kitaev et al. 2020, section 2, https://arxiv.org/abs/2001.04451
    """
    rotations = jnp.broadcast_to(rotations, (qk.shape[2], *rotations.shape[1:])).astype(qk.dtype)
    turned = jnp.einsum("blhk,hkrm->bhrml", jax.lax.stop_gradient(qk), rotations)
    directions = turned.shape[3]
    count = (jnp.full((qk.shape[0],), directions) if count is None else count)[:, None, None, None, None]
    used = jnp.arange(directions)[None, None, None, :, None] < count
    nearest = jnp.where(used, abs(turned), -1).argmax(3, keepdims=True)
    opposite = jnp.take_along_axis(turned, nearest, axis=3) < 0
    return jnp.where(opposite, nearest + count, nearest)[:, :, :, 0]


def lsh_attention(
    qk: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    buckets: Int[Array, "B H R L"],
    *,
    chunk_size: int,
    scale: float | None = None,
    epsilon: float = 1e-12,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Attention of sorted chunks to themselves and to the chunk before, R rounds joined by their log-sum-exp.

    Keys are qk / sqrt(|qk|^2 + epsilon); the scale is 1/sqrt(K) unless given. A pair that meets in several rounds
    counts as often. Kitaev et al. 2020, https://arxiv.org/abs/2001.04451
    """
    require_boolean(mask)
    batch, length = qk.shape[:2]
    rounds, chunks = buckets.shape[2], -(-length // chunk_size)
    real = real_lengths(mask, batch, length)[:, None, None]
    order, place = sort_by_bucket(buckets, real, chunk_size)
    wide = qk.astype(jnp.promote_types(qk.dtype, jnp.float32))
    unit = (wide * jax.lax.rsqrt((wide**2).sum(-1, keepdims=True) + epsilon)).astype(qk.dtype)
    at = order.reshape(*order.shape[:2], -1)
    rows = at.swapaxes(1, 2)[..., None]
    queries, keys, values = (jnp.take_along_axis(x, rows, axis=1, mode="clip") for x in (qk, unit, v))
    itself = SELF * jnp.eye(chunk_size, 2 * chunk_size, chunk_size, dtype=wide.dtype)[None, None]

    def attend(i: Array) -> Sums:
        start = i // chunks * order.shape[3] + i % chunks * chunk_size
        at_keys = jax.lax.dynamic_slice_in_dim(at, start, 2 * chunk_size, axis=2)[:, :, None]
        at_queries = at_keys[..., chunk_size:].swapaxes(2, 3)
        # Only a first chunk, which looks into another round, can meet its own tokens outside of the diagonal.
        own = jax.lax.cond(
            i % chunks == 0,
            lambda: jnp.where(at_queries == at_keys, jnp.asarray(SELF, wide.dtype), 0),
            lambda: jnp.broadcast_to(itself, (*at_queries.shape[:3], 2 * chunk_size)),
        )
        return softmax_sums(
            block(queries, start + chunk_size, chunk_size),
            block(keys, start, 2 * chunk_size),
            block(values, start, 2 * chunk_size),
            bias=jnp.where(at_keys < real[..., None], own, -jnp.inf),
            scale=scale,
            drop=drop.at(i) if drop else None,
        )

    sums = by_blocks(attend, rounds * chunks)
    sums = Sums(*(x.reshape(batch, rounds, -1, *x.shape[3:]) for x in sums))
    parts = [
        Sums(*(jnp.take_along_axis(x[:, r], place[:, :, r].swapaxes(1, 2)[..., None], axis=1) for x in sums))
        for r in range(rounds)
    ]
    return joined(parts).astype(v.dtype)


def sort_by_bucket(
    buckets: Int[Array, "B H R L"], real: Int[Array, "B 1 1"], chunk_size: int
) -> tuple[Int[Array, "B H R T"], Int[Array, "B H R L"]]:
    """The token at every place of the sorted lists, and the place of every token.

    Real tokens are sorted by bucket and position, padding comes last, and the last chunk is filled up with L. In front
    of every round stands the chunk that its first chunk looks back to, the last real one of the round before,
    circularly; places are counted without it.
    """
    length = buckets.shape[3]
    position = jnp.broadcast_to(jnp.arange(length), buckets.shape)
    code = jnp.where(position < real[..., None], buckets, buckets.max() + 1) * length + position
    order = jnp.sort(code) % length
    place = jnp.put_along_axis(jnp.zeros_like(order), order, position, axis=3, inplace=False)
    order = jnp.pad(order, [(0, 0)] * 3 + [(0, -length % chunk_size)], constant_values=length)
    last = jnp.maximum(-(-real // chunk_size) - 1, 0) * chunk_size + jnp.arange(chunk_size)[None, None]
    before = jnp.take_along_axis(order, last[:, None], axis=3)
    return jnp.concatenate([jnp.roll(before, 1, axis=2), order], axis=3), place


class Reformer(AttentionMixer):
    """Shared queries and keys, hashed `rounds` times into about L / chunk_size buckets, sorted and cut into chunks.

    The number of buckets follows an example's real length, so that padding changes nothing. Scores of queries and unit
    keys are divided by sqrt(K), as in reformer-pytorch; `scale` 1 is the convention of Hugging Face's transformers.
    """

    family = "learned"
    paper = "Kitaev et al. 2020, arXiv:2001.04451"
    growth = Growth(1, 1)
    cost = "rounds * L * 2 * chunk_size * D"
    projected: ClassVar[tuple[str, ...]] = ("query_key", "value")

    def __init__(
        self, sizes: Sizes, *, chunk_size: int = 64, rounds: int = 2, scale: float | None = None, rngs: nnx.Rngs
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        self.chunk_size, self.scale = chunk_size, scale
        directions = -(-sizes.max_length // (2 * chunk_size))
        self.rotations = Drawn(jax.random.normal(rngs.params(), (self.heads, self.head_dim, rounds, directions)))

    def attend(self, qk, v, mask, drop):  # type: ignore[override]  # queries are keys
        count = -(-real_lengths(mask, *qk.shape[:2]) // (2 * self.chunk_size))
        buckets = lsh_buckets(qk, self.rotations[...], jnp.maximum(count, 1))
        return lsh_attention(qk, v, mask, buckets, chunk_size=self.chunk_size, scale=self.scale, drop=drop)
