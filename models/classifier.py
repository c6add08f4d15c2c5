"""The classifier, written once: embedding, encoder, pooling and head, for one document or for two."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.embedding import Embedding
from models.encoder import Encoder, Variant
from models.mixer import Sizes


class Classifier(nnx.Module):
    """Token ids to class logits.

    One document [B, L] is pooled and classified. Two documents [B, 2, L] go through the same encoder, and the head sees
    [x1, x2, x1 * x2, x1 - x2] (Tay et al. 2020, section 2.2.3, https://arxiv.org/abs/2011.04006).
    """

    def __init__(
        self,
        variant: Variant,
        sizes: Sizes,
        *,
        layers: int,
        vocab_size: int,
        num_classes: int,
        pooling: str,
        positions: str,
        paired: bool,
        rematerialise: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        init: dict[str, Any] = {"kernel_init": nnx.initializers.xavier_uniform(), "dtype": sizes.dtype, "rngs": rngs}
        self.class_token = pooling == "cls"
        self.paired = paired
        self.embedding = Embedding(vocab_size, sizes, positions=positions, class_token=self.class_token, rngs=rngs)
        self.encoder = Encoder(variant, layers, sizes, rematerialise=rematerialise, rngs=rngs)
        self.hidden = nnx.Linear(sizes.dim * (4 if paired else 1), sizes.mlp_dim, **init)
        self.logits = nnx.Linear(sizes.mlp_dim, num_classes, **init)

    def encode(
        self, tokens: Int[Array, "B L"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B D"]:
        """One vector a document: the class token's, or the mean over real tokens."""
        x, mask = self.embedding(tokens, mask)
        x = self.encoder(x, mask, rngs=rngs)
        return x[:, 0] if self.class_token else mean_pooling(x, mask)

    def __call__(
        self, tokens: Int[Array, "*B L"], mask: Bool[Array, "B ... L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B C"]:
        """Logits in float32; `rngs` turns training on."""
        if self.paired:
            both = None if mask is None else mask.reshape(-1, mask.shape[-1])
            first, second = jnp.moveaxis(
                self.encode(tokens.reshape(-1, tokens.shape[-1]), both, rngs=rngs).reshape(tokens.shape[0], 2, -1), 1, 0
            )
            pooled = jnp.concatenate([first, second, first * second, first - second], axis=-1)
        else:
            pooled = self.encode(tokens, mask, rngs=rngs)
        return self.logits(jax.nn.relu(self.hidden(pooled))).astype(jnp.float32)


def mean_pooling(x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None) -> Float[Array, "B D"]:
    """Mean over real positions; 0 for an example without any."""
    if mask is None:
        return x.mean(1)
    count = mask.sum(1, keepdims=True)
    return jnp.where(mask[..., None], x, 0).sum(1) / jnp.maximum(count, 1).astype(x.dtype)
