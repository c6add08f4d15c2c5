"""Mixers that each break one rule on purpose."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from models.attention import dense_attention, require_boolean
from models.mixer import AttentionMixer, Growth, Mixer, Sizes
from models.patterns.local import Local


class Sound(AttentionMixer):
    """Keeps every rule; the others differ from it in one place."""

    quadratic = True

    def attend(self, q, k, v, mask, drop):
        return dense_attention(q, k, v, mask, drop=drop)


class Shortens(Sound):
    def __call__(self, x, mask, *, rngs=None):
        y = super().__call__(x, mask, rngs=rngs)
        return y[:, : x.shape[1] // 4 * 4]


class IgnoresMask(Sound):
    def attend(self, q, k, v, mask, drop):
        require_boolean(mask)
        return dense_attention(q, k, v, drop=drop)


class TakesIntegerMask(Sound):
    def __call__(self, x, mask, *, rngs=None):
        return super().__call__(x, None if mask is None else mask.astype(bool), rngs=rngs)


class CountsPaddedLength(Sound):
    """Scales by the padded length: what stands in the padding has no influence, its amount has."""

    def attend(self, q, k, v, mask, drop):
        return dense_attention(q, k, v, mask, drop=drop) * np.log(q.shape[1])


class AveragesNothing(Sound):
    """Fills with a large negative number, so that no key at all becomes every key."""

    def attend(self, q, k, v, mask, drop):
        require_boolean(mask)
        bias = None if mask is None else jnp.where(mask, 0.0, -1e4)[:, None, None, :].astype(q.dtype)
        return dense_attention(q, k, v, bias=bias, drop=drop)


class NotFinite(Sound):
    """A softmax written out: 0 / 0 where there is no key."""

    def attend(self, q, k, v, mask, drop):
        require_boolean(mask)
        weights = jnp.exp(jnp.einsum("blhk,bmhk->bhlm", q, k) / q.shape[-1])
        weights = weights if mask is None else jnp.where(mask[:, None, None, :], weights, 0)
        out = jnp.einsum("bhlm,bmhv->blhv", weights / weights.sum(-1, keepdims=True), v)
        return jnp.where(jnp.isnan(out), 0, out)


class SharesStatistics(Sound):
    def attend(self, q, k, v, mask, drop):
        return dense_attention(q / jnp.std(q), k, v, mask, drop=drop)


class DeadParameter(Sound):
    """A bias of the keys, which softmax ignores."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        self.key_bias = nnx.Param(jnp.zeros((sizes.heads, sizes.head_dim)))

    def attend(self, q, k, v, mask, drop):
        return dense_attention(q, k + self.key_bias[None, None].astype(k.dtype), v, mask, drop=drop)


class CutOffGradient(Sound):
    def attend(self, q, k, v, mask, drop):
        return dense_attention(jax.lax.stop_gradient(q), k, v, mask, drop=drop)


class WrongPattern(Local):
    """Says a window of 4 and computes blocks of 4 with their neighbours."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, window=4, blocks=True, neighbours=1, rngs=rngs)

    def pattern(self, length):
        near = abs(np.arange(length)[:, None] - np.arange(length)) <= 4
        return np.broadcast_to(near, (self.heads, length, length))


class WrongWeights(Local):
    """The right pairs, but twice the temperature."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, window=4, rngs=rngs)

    def attend(self, q, k, v, mask, drop):
        return super().attend(q * 0.5, k, v, mask, drop)


class MixesHeads(Local):
    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, window=4, rngs=rngs)

    def attend(self, q, k, v, mask, drop):
        return super().attend(q, k, v + v[:, :, ::-1], mask, drop)


class DenseSoldAsEfficient(Sound):
    quadratic = False
    growth = Growth(1, 1)


class MasksDense(AttentionMixer):
    """A window cut out of the whole matrix, and not called simulated."""

    quadratic = True

    def pattern(self, length):
        near = abs(np.arange(length)[:, None] - np.arange(length)) <= 4
        return np.broadcast_to(near, (self.heads, length, length))

    def attend(self, q, k, v, mask, drop):
        return dense_attention(q, k, v, mask, pairs=jnp.asarray(self.pattern(q.shape[1]))[None], drop=drop)


class CountsInPython(Mixer):
    """Keeps a counter where jit can't see it."""

    quadratic = True

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.calls = 0

    def __call__(self, x, mask):
        self.calls += 1
        return x
