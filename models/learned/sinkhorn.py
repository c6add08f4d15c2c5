"""Sinkhorn attention: a small network learns which other block every block attends to."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.attention import Drop, Sums, each_head, recomputed, require_boolean, softmax_sums, to_blocks
from models.mixer import AttentionMixer, Growth, Sizes, merge_heads


def sinkhorn(
    logits: Float[Array, "B H N N"], present: Bool[Array, "B N"] | None = None, *, iterations: int
) -> Float[Array, "B H N N"]:
    """exp(logits) made doubly stochastic: rows, then columns, divided by their sums, `iterations` times.

    Blocks that are not `present` stay where they are and take no part. Sinkhorn 1964; Mena et al. 2018,
    https://arxiv.org/abs/1802.08665
    """
    if present is not None:
        among = present[:, :, None] & present[:, None]
        stays = jnp.eye(logits.shape[-1], dtype=bool)[None] & ~among
        logits = jnp.where(among[:, None], logits, jnp.where(stays, 0, -jnp.inf)[:, None])
    for _ in range(iterations):
        logits = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        logits = logits - jax.nn.logsumexp(logits, axis=-2, keepdims=True)
    return jnp.exp(logits)


def sorting_logits(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    weight: Float[Array, "H E M"],
    *,
    block_size: int,
) -> Float[Array, "B H N N"]:
    """The sorting network: from the summary of a block to one logit for each of the N blocks; E = 2 K, M >= N.

    The summary is the sum of the block's real queries and of its real keys, divided by the root of their number, which
    keeps its scale whatever the block size. In float32 or wider.
    """
    wide = jnp.promote_types(q.dtype, jnp.float32)
    real = jnp.ones(q.shape[:2], bool) if mask is None else mask
    number = jnp.maximum(to_blocks(real, block_size).sum(2), 1)[..., None, None].astype(wide)
    both = (to_blocks(jnp.where(real[..., None, None], x, 0), block_size).sum(2, dtype=wide) for x in (q, k))
    summary = jnp.concatenate([*both], axis=-1) * jax.lax.rsqrt(number)
    return jnp.einsum("bnhe,hem->bhnm", summary, weight[:, :, : summary.shape[1]].astype(wide))


def sinkhorn_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    shares: Float[Array, "B H N N"],
    *,
    block_size: int,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """Every block of queries attends to itself and to a mixture of blocks, for block n with the weights `shares[n]`.

    Padding is mixed in as 0, and token t of a mixture is a real one if it is in the block of the largest share, as in
    sinkhorn-transformer. Tay et al. 2020, https://arxiv.org/abs/2002.11296
    """
    require_boolean(mask)
    if mask is not None:
        k, v = (jnp.where(mask[..., None, None], x, 0) for x in (k, v))
    real = to_blocks(jnp.ones(q.shape[:2], bool) if mask is None else mask, block_size)
    mixed_real = jax.vmap(lambda one, at: one[at])(real, shares.argmax(-1)) & real.any(2)[:, None, :, None]
    allowed = jnp.concatenate([mixed_real, jnp.broadcast_to(real[:, None], mixed_real.shape)], axis=3)
    bias = jnp.where(allowed, jnp.zeros((), shares.dtype), -jnp.inf)[..., None, None, :]

    def attend_head(
        number: Int[Array, ""], shares: Array, queries: Array, keys: Array, values: Array, bias: Array
    ) -> Sums:
        # By rows of a whole block: the gradient of `shares` is then a sum over one dimension, as in models/linear.py.
        mixed_keys, mixed_values = (
            (shares.astype(x.dtype) @ x.reshape(len(x), -1)).reshape(x.shape) for x in (keys, values)
        )
        both = (jnp.concatenate(pair, axis=1) for pair in ((mixed_keys, keys), (mixed_values, values)))
        one_head = (x[:, :, None] for x in (queries, *both))
        return softmax_sums(*one_head, bias=bias, drop=drop and drop.at(number))

    by_head = (to_blocks(x, block_size).transpose(0, 3, 1, 2, 4) for x in (q, k, v))
    return each_head(recomputed(attend_head), shares, *by_head, bias)[:, : q.shape[1]].astype(v.dtype)


class Sinkhorn(AttentionMixer):
    """Blocks of `block_size` attend to themselves and to the mixture of blocks that the sorting network gives them.

    The network is linear and its logits are those of exp(logits / temperature), as in the paper, so that every one has
    a gradient. They start small, where few iterations suffice. Gumbel noise is added in training, not in evaluation.
    Compute grows as the square of the number of blocks, each of which mixes all; the network's matrix is so small that
    memory does not show it up to 16K.
    """

    family = "learned"
    paper = "Tay et al. 2020, arXiv:2002.11296"
    growth = Growth(2, 1)
    cost = "L * (2 * block_size + L / block_size) * D"

    def __init__(
        self,
        sizes: Sizes,
        *,
        block_size: int = 64,
        iterations: int = 7,
        temperature: float = 0.75,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        self.block_size, self.iterations, self.temperature = block_size, iterations, temperature
        shape = (self.heads, 2 * self.head_dim, -(-sizes.max_length // block_size))
        init = nnx.initializers.variance_scaling(1 / 16, "fan_in", "normal", batch_axis=0)
        self.sorting = nnx.Param(init(rngs.params(), shape))

    def attend(self, q, k, v, mask, drop, noise=None):
        logits = sorting_logits(q, k, mask, self.sorting[...], block_size=self.block_size)
        if noise is not None:
            logits = logits + jax.random.gumbel(noise, logits.shape, logits.dtype)
        present = None if mask is None else to_blocks(mask, self.block_size).any(2)
        shares = sinkhorn(logits / self.temperature, present, iterations=self.iterations)
        return sinkhorn_attention(q, k, v, mask, shares, block_size=self.block_size, drop=drop)

    def __call__(
        self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B L D"]:
        noise = {} if rngs is None else {"noise": rngs.dropout()}
        q, k, v = self.inputs(x)
        return self.out(merge_heads(self.attend(q, k, v, mask, self.weight_dropout(rngs), **noise)))
