"""Performer: random features whose products are, on average, the softmax kernel (FAVOR+)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import require_boolean
from models.kernels.kernel_attention import kernel_attention
from models.mixer import AttentionMixer, Drawn, Growth, Sizes

KERNELS = ("softmax", "relu")


def orthogonal_directions(key: Array, features: int, dim: int) -> Float[Array, "F K"]:
    """Random directions, orthogonal within each block of K rows, as long as K-dimensional Gaussian vectors are.

    Each row alone is a standard Gaussian vector; orthogonal ones lower the variance of the estimate
    (Choromanski et al. 2020, section 2.4, https://arxiv.org/abs/2009.14794).
    """
    for_directions, for_lengths = jax.random.split(key)
    blocks = -(-features // dim)
    rotations = jnp.linalg.qr(jax.random.normal(for_directions, (blocks, dim, dim)))[0]
    lengths = jnp.linalg.norm(jax.random.normal(for_lengths, (features, dim)), axis=1, keepdims=True)
    return rotations.swapaxes(1, 2).reshape(blocks * dim, dim)[:features] * lengths


def softmax_features(
    x: Float[Array, "B L H K"],
    directions: Float[Array, "F K"],
    *,
    shared_peak: bool,
    mask: Bool[Array, "B L"] | None = None,
    epsilon: float = 1e-4,
) -> Float[Array, "B L H F"]:
    """F^-1/2 (exp(w . x' - |x'|^2 / 2 - peak) + epsilon) for x' = x / K^1/4 and each direction w.

    The peak, which cancels out of attention but for epsilon, is the largest w . x' of a query, or with `shared_peak`
    that of all real keys of a head. Choromanski et al. 2020, lemma 1, https://arxiv.org/abs/2009.14794
    """
    wide = jnp.promote_types(x.dtype, jnp.float32)
    scaled = x.astype(wide) * x.shape[-1] ** -0.25
    along = jnp.einsum("blhk,fk->blhf", scaled, directions.astype(wide))
    seen = along if mask is None else jnp.where(mask[..., None, None], along, -jnp.inf)
    peak = jax.lax.stop_gradient(seen.max((1, 3) if shared_peak else 3, keepdims=True, initial=jnp.finfo(wide).min))
    exponent = along - (scaled**2).sum(-1, keepdims=True) / 2 - peak
    if mask is not None:  # padding may lie beyond the peak of the real keys
        exponent = jnp.where(mask[..., None, None], exponent, 0)
    features = (jnp.exp(exponent) + epsilon) * len(directions) ** -0.5
    return features if x.dtype == jnp.float16 else features.astype(x.dtype)  # gradients are beyond float16's range


def relu_features(
    x: Float[Array, "B L H K"], directions: Float[Array, "F K"] | None, *, epsilon: float = 1e-3
) -> Float[Array, "B L H F"]:
    """relu(w . x') + epsilon for x' = x / K^1/4 and each direction w, or for the coordinates without `directions`."""
    scaled = x * x.shape[-1] ** -0.25
    along = scaled if directions is None else jnp.einsum("blhk,fk->blhf", scaled, directions.astype(x.dtype))
    return jax.nn.relu(along) + epsilon


def performer_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None,
    directions: Float[Array, "F K"] | None,
    *,
    kernel: str = "softmax",
) -> Float[Array, "B L H K"]:
    """Kernel attention with the features of `kernel`, softmax or relu."""
    require_boolean(mask)
    if kernel == "relu":
        return kernel_attention(relu_features(q, directions), relu_features(k, directions), v, mask)
    assert directions is not None
    queries = softmax_features(q, directions, shared_peak=False)
    return kernel_attention(queries, softmax_features(k, directions, shared_peak=True, mask=mask), v, mask)


class Performer(AttentionMixer):
    """Attention with `features` random features a head of the softmax or the ReLU kernel.

    The directions are drawn once from the seed and saved with the model; `redraw` draws new ones every so many training
    steps. `features` 0 with the ReLU kernel does without directions.
    """

    family = "kernels"
    paper = "Choromanski et al. 2020, arXiv:2009.14794"
    growth = Growth(1, 1)
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
        self.directions = None if drawn is None else Drawn(drawn)
        self.steps = None if redraw is None else Drawn(jnp.zeros((), jnp.int32))

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
