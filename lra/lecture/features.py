"""phi(q) . phi(k) in place of the softmax: how far the output of attention is from the exact one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from lra.lecture.trained import Projected, Trained, projections
from models.attention import dense_attention
from models.kernels.kernel_attention import kernel_attention
from models.kernels.linear_transformer import elu_plus_one
from models.kernels.performer import (
    along_directions,
    largest_of_real_keys,
    orthogonal_directions,
    performer_attention,
)

FEATURES = (16, 32, 64, 128, 256, 512, 1024)
DRAWS = 16
LENGTH, HEADS, HEAD_DIM = 512, 4, 32  # of queries, keys and values that are normal numbers
EXAMPLES = 8  # of a trained model's


@dataclass(frozen=True)
class Source:
    """Queries, keys and values, with a batch of them for each layer."""

    facts: dict[str, Any]
    layers: Sequence[Projected]
    real: Bool[Array, "B L"]


def sources(runs: Sequence[Trained]) -> list[Source]:
    """Normal numbers, and what each trained model makes of test examples."""
    return [normal_source(), *(trained_source(run) for run in runs)]


def normal_source() -> Source:
    """Independent normal numbers: logits with deviation 1."""
    keys = jax.random.split(jax.random.key(0), 3)
    q, k, v = (jax.random.normal(key, (1, LENGTH, HEADS, HEAD_DIM)) for key in keys)
    facts = {"inputs": "normal", "length": LENGTH, "head_dim": HEAD_DIM}
    return Source(facts, [(q, k, v)], jnp.ones((1, LENGTH), bool))


def trained_source(run: Trained) -> Source:
    """Those of the longest test documents."""
    tokens, mask = run.documents(run.by_length()[-1][-EXAMPLES:])
    graph, state = nnx.split(run.trained)
    layers, real = jax.jit(lambda s, *batch: projections(nnx.merge(graph, s), *batch))(state, tokens, mask)
    facts = {"inputs": "trained", "length": float(real.sum(-1).mean()), "head_dim": layers[0][0].shape[-1]}
    return Source(facts | {"title": run.facts["title"], "source": run.facts["source"]}, layers, real)


def errors(source: Source) -> dict[str, Any]:
    """Relative errors |approximate - exact| / |exact| of the outputs of all layers and heads together.

    With mean and range over draws of orthogonal random features: `performer`, as the variant and its authors' code
    compute it, and `plain`, as the paper writes it. `elu`: the Linear Transformer's feature map, in which nothing is
    random; `equal_weights`: every token's output is the mean of the values, for comparison; `order`: what the other
    order of the products alone changes, with the same feature map.
    """
    exact = [jax.jit(dense_attention)(*layer, source.real) for layer in source.layers]
    found: dict[str, list[dict[str, float]]] = {}
    for kind, attention in (("performer", performer_attention), ("plain", plain_attention)):
        found[kind] = []
        for count in FEATURES:
            program = jax.jit(attention)
            draws = []
            for seed in range(DRAWS):
                directions = orthogonal_directions(jax.random.key(seed), count, source.facts["head_dim"])
                outputs = [program(*layer, source.real, directions) for layer in source.layers]
                draws.append(relative_error(outputs, exact, source.real))
            mean = float(np.mean(draws))
            found[kind].append({"features": count, "mean": mean, "low": min(draws), "high": max(draws)})
    elu = [elu_attention(*layer, source.real) for layer in source.layers]
    dense_elu = [pairwise_elu_attention(*layer, source.real) for layer in source.layers]
    equal = [dense_attention(0 * q, k, v, source.real) for q, k, v in source.layers]
    return source.facts | {
        "draws": DRAWS,
        **found,
        "elu": relative_error(elu, exact, source.real),
        "equal_weights": relative_error(equal, exact, source.real),
        "order": relative_error(elu, dense_elu, source.real),
    }


def relative_error(
    outputs: Sequence[Float[Array, "B L H K"]], exact: Sequence[Float[Array, "B L H K"]], real: Bool[Array, "B L"]
) -> float:
    """Norm of the difference over the norm of the exact outputs, at real tokens."""
    real = real[..., None, None]
    off = sum(float((jnp.where(real, a - b, 0) ** 2).sum()) for a, b in zip(outputs, exact, strict=True))
    return (off / sum(float((jnp.where(real, b, 0) ** 2).sum()) for b in exact)) ** 0.5


def plain_attention(
    q: Float[Array, "B L H K"],
    k: Float[Array, "B L H K"],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"],
    directions: Float[Array, "F K"],
) -> Float[Array, "B L H K"]:
    """Performer without the 1e-4 that its code adds to every feature; the peaks cancel.

    Choromanski et al. 2020, lemma 1, https://arxiv.org/abs/2009.14794
    """

    def features(x: Float[Array, "H S K"], peak: Float[Array, "H S"] | None = None) -> Float[Array, "H S F"]:
        along, scaled = along_directions(x, directions)
        peak = along.max(-1) if peak is None else peak
        return jnp.exp(along - ((scaled**2).sum(-1) / 2 + peak)[..., None])

    peak = largest_of_real_keys(k, mask, directions)
    return kernel_attention(q, (k, peak), v, mask, features, lambda key: features(*key))


@jax.jit
def elu_attention(
    q: Float[Array, "B L H K"], k: Float[Array, "B L H K"], v: Float[Array, "B L H K"], mask: Bool[Array, "B L"]
) -> Float[Array, "B L H K"]:
    """The Linear Transformer's attention: keys times values first."""
    return kernel_attention(q, k, v, mask, elu_plus_one, elu_plus_one)


@jax.jit
def pairwise_elu_attention(
    q: Float[Array, "B L H K"], k: Float[Array, "B L H K"], v: Float[Array, "B L H K"], mask: Bool[Array, "B L"]
) -> Float[Array, "B L H K"]:
    """The same kernel in the order of the Transformer: queries times keys first, an L x L matrix."""
    weights = jnp.einsum("blhf,bmhf->bhlm", elu_plus_one(q), elu_plus_one(k)) * mask[:, None, None, :]
    return jnp.einsum("bhlm,bmhk->blhk", weights / weights.sum(-1, keepdims=True), v)
