"""Token and position embedding, and the class token."""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.mixer import Sizes


def sinusoidal_positions(length: int, dim: int) -> np.ndarray:
    """Fixed sines (even features) and cosines (odd features), float32 [length, dim].

    Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762
    """
    position = np.arange(length)[:, None]
    angle = position / 10_000 ** (np.arange(0, dim, 2) / dim)
    table = np.zeros((length, dim), np.float32)
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : dim // 2]
    return table


class Embedding(nnx.Module):
    """Token ids [B, L] to vectors [B, L (+1), D], with positions and, if asked for, a class token in front."""

    def __init__(self, vocab_size: int, sizes: Sizes, *, positions: str, class_token: bool, rngs: nnx.Rngs) -> None:
        normal = nnx.initializers.normal
        self.dtype, self.dim, self.max_length = sizes.dtype, sizes.dim, sizes.max_length
        self.tokens = nnx.Param(normal(1.0)(rngs.params(), (vocab_size, sizes.dim)))
        self.class_token = nnx.Param(normal(0.02)(rngs.params(), (1, 1, sizes.dim))) if class_token else nnx.data(None)
        learned = positions == "learned"
        self.positions = nnx.Param(normal(0.02)(rngs.params(), (self.max_length, sizes.dim))) if learned else None

    def __call__(
        self, tokens: Int[Array, "B L"], mask: Bool[Array, "B L"] | None
    ) -> tuple[Float[Array, "B M D"], Bool[Array, "B M"] | None]:
        """The vectors, and the mask grown by the class token, which is always real."""
        x = jnp.take(self.tokens[...], tokens, axis=0)
        if self.class_token is not None:
            front = jnp.broadcast_to(self.class_token[...], (x.shape[0], 1, self.dim))
            x = jnp.concatenate([front, x], axis=1)
            mask = None if mask is None else jnp.pad(mask, ((0, 0), (1, 0)), constant_values=True)
        length = x.shape[1]
        if length > self.max_length:
            raise ValueError(f"{length} tokens (class token included) are more than max_length {self.max_length}")
        table = sinusoidal_positions(length, self.dim) if self.positions is None else self.positions[:length]
        return (x + jnp.asarray(table)[None]).astype(self.dtype), mask
