"""Performer: random features whose products are, on average, the softmax kernel (FAVOR+)."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import require_boolean
from models.kernels.kernel_attention import kernel_attention, tokens_at_once
from models.mixer import AttentionMixer, Drawn, Growth, Sizes

KERNELS = ("softmax", "relu")
SOFTMAX_OFFSET, RELU_OFFSET = 1e-4, 1e-3  # keep features above 0, as in the authors' code


def orthogonal_directions(key: Array, features: int, dim: int) -> Float[Array, "F K"]:
    """Random directions, orthogonal within each block of K rows, as long as K-dimensional Gaussian vectors are.

    Each row alone is a standard Gaussian vector; orthogonal ones lower the variance of the estimate
    (Choromanski et al. 2020, section 2.4, https://arxiv.org/abs/2009.14794).
    """
    for_directions, for_lengths = jax.random.split(key)
    blocks = -(-features // dim)
    rotations, triangle = jnp.linalg.qr(jax.random.normal(for_directions, (blocks, dim, dim)))
    # QR leaves the signs to the method, which makes some coordinates always negative; these make Q uniform.
    rotations = rotations * jnp.sign(jnp.diagonal(triangle, axis1=1, axis2=2))[:, None, :]
    lengths = jnp.linalg.norm(jax.random.normal(for_lengths, (features, dim)), axis=1, keepdims=True)
    return rotations.swapaxes(1, 2).reshape(blocks * dim, dim)[:features] * lengths


def softmax_features(
    x: Float[Array, "*N K"], directions: Float[Array, "F K"], peak: Float[Array, "*N"] | None = None
) -> Float[Array, "*N F"]:
    """F^-1/2 (exp(w . x' - |x'|^2 / 2 - peak) + 1e-4) for x' = x / K^1/4 and each direction w.

    The peak, by default the largest w . x' of each token, cancels out of attention but for the 1e-4.
    Choromanski et al. 2020, lemma 1, https://arxiv.org/abs/2009.14794
    """
    along, scaled = along_directions(x, directions)
    if peak is None:
        peak = jax.lax.stop_gradient(along.max(-1))
    exponent = along - ((scaled**2).sum(-1) / 2 + peak)[..., None]
    features = (jnp.exp(exponent) + SOFTMAX_OFFSET) * len(directions) ** -0.5
    return features if x.dtype == jnp.float16 else features.astype(x.dtype)  # gradients are beyond float16's range


def relu_features(x: Float[Array, "*N K"], directions: Float[Array, "F K"] | None) -> Float[Array, "*N F"]:
    """relu(w . x') + 1e-3 for x' = x / K^1/4 and each direction w, or for the coordinates without `directions`."""
    along = x * x.shape[-1] ** -0.25 if directions is None else along_directions(x, directions)[0].astype(x.dtype)
    return jax.nn.relu(along) + RELU_OFFSET


def along_directions(
    x: Float[Array, "*N K"], directions: Float[Array, "F K"]
) -> tuple[Float[Array, "*N F"], Float[Array, "*N K"]]:
    """w . x' for each direction w, and x' = x / K^1/4, in float32 or wider."""
    scaled = x.astype(jnp.promote_types(x.dtype, jnp.float32)) * x.shape[-1] ** -0.25
    return jnp.einsum("...k,fk->...f", scaled, directions.astype(scaled.dtype)), scaled


def largest_of_real_keys(
    k: Float[Array, "B L H K"], mask: Bool[Array, "B L"] | None, directions: Float[Array, "F K"]
) -> Float[Array, "B L H"]:
    """The largest w . x' of all real keys of a head, at every real key; without gradient."""
    tokens = jax.lax.stop_gradient(k).swapaxes(0, 1)
    own = jax.lax.map(
        lambda k: along_directions(k, directions)[0].max(-1), tokens, batch_size=tokens_at_once(k.shape[1])
    ).swapaxes(0, 1)
    if mask is None:
        return jnp.broadcast_to(own.max(1, keepdims=True), own.shape)
    peak = jnp.where(mask[..., None], own, -jnp.inf).max(1, keepdims=True)
    return jnp.where(mask[..., None], peak, own)  # its own at padding, which may lie beyond the peak


def performer_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    directions: Float[Array, "F K"] | None,
    *,
    kernel: str = "softmax",
) -> Float[Array, "B L H K"]:
    """Kernel attention with random features of the softmax kernel exp(q . k / sqrt(K)), or with ReLU features."""
    require_boolean(mask)
    if kernel == "relu":
        features = partial(relu_features, directions=directions)
        return kernel_attention(q, k, v, mask, features, features)
    assert directions is not None
    peak = largest_of_real_keys(k, mask, directions)
    return kernel_attention(
        q,
        (k, peak),
        v,
        mask,
        lambda q: softmax_features(q, directions),
        lambda key: softmax_features(key[0], directions, key[1]),
    )


class Performer(AttentionMixer):
    """Attention with `features` random features a head of the softmax or the ReLU kernel.

    The directions are drawn once from the seed and saved with the model; `redraw` draws new ones every so many training
    steps. `features` 0 with the ReLU kernel does without directions.
    """

    family = "kernels"
    paper = "Choromanski et al. 2020, arXiv:2009.14794"
    growth = Growth(1, 1)
    cost = "2.5 * L * features * D"
    drops_weights = False

    def __init__(
        self,
        sizes: Sizes,
        *,
        kernel: str = "softmax",
        features: int = 256,
        redraw: int | None = None,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(sizes, rngs=rngs)
        if kernel not in KERNELS:
            raise ValueError(f"kernel {kernel!r} is none of {', '.join(KERNELS)}")
        if features < (kernel == "softmax") or (redraw is not None and (redraw < 1 or not features)):
            raise ValueError(f"kernel {kernel} can't do with features {features} and redraw {redraw}")
        self.kernel, self.features, self.redraw = kernel, features, redraw
        drawn = orthogonal_directions(rngs.params(), features, self.head_dim) if features else None
        self.directions: Any = None if drawn is None else Drawn(drawn)
        self.steps: Any = None if redraw is None else Drawn(jnp.zeros((), jnp.int32))

    def attend(self, q, k, v, mask, drop):
        directions = None if self.directions is None else self.directions[...]
        return performer_attention(q, k, v, mask, directions, kernel=self.kernel)

    def __call__(
        self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B L D"]:
        if rngs is not None and self.redraw is not None:
            self.draw_again(rngs.features())
        return super().__call__(x, mask, rngs=rngs)

    def draw_again(self, key: Array) -> None:
        """Counts a training step, and draws new directions when `redraw` of them have passed."""
        self.steps[...] += 1
        self.directions[...] = jax.lax.cond(
            self.steps[...] % self.redraw == 0,
            lambda: orthogonal_directions(key, self.features, self.head_dim),
            lambda: self.directions[...],
        )
