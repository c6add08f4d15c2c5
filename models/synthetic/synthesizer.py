"""Synthesizer: an attention matrix that is a parameter, or made from each token alone, without comparing two tokens."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.attention import Drop, Sums, by_blocks, from_blocks, joined, require_boolean, sums_of_logits, to_blocks
from models.mixer import AttentionMixer, Growth, Sizes, split_heads

FORMS = ("random", "factorized_random", "dense", "factorized_dense", "dot")

Logits = Float[Array, "#B H S L"]
# What belongs to each query, along axis 1, and the function from a block of it to the logits of those queries.
Part = tuple[Float[Array, "_ L ..."], Callable[[Float[Array, "_ S ..."]], Logits]]


def synthesizer_attention(
    parts: Sequence[Part],
    v: Float[Array, "B L H K"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    block_size: int = 128,
    drop: Drop | None = None,
) -> Float[Array, "B L H K"]:
    """softmax(S) V over real keys, S the sum of the logits of all parts; a block of queries after the other.

    The paper mixes with learned weights that sum to 1; here they are 1, because each part's own scale is learned.
    Tay et al. 2020, https://arxiv.org/abs/2005.00743
    """
    require_boolean(mask)
    batch, length = v.shape[:2]
    count = -(-length // block_size)
    size = -(-length // count)
    rows = [to_blocks(row[:, :length], size) for row, _ in parts]
    wide = jnp.promote_types(v.dtype, jnp.float32)
    bias = jnp.zeros((batch, 1, 1, 1), wide) if mask is None else jnp.where(mask, 0.0, -jnp.inf)[:, None, None]

    def attend(i: Int[Array, ""]) -> Sums:
        logits = sum(part(row[:, i]) for row, (_, part) in zip(rows, parts, strict=True))
        return sums_of_logits(logits + bias.astype(wide), v, drop and drop.at(i))

    sums = by_blocks(attend, count)
    return joined([Sums(*(from_blocks(x, length) for x in sums))]).astype(v.dtype)


def random_logits(rows: Float[Array, "H S M"], length: int) -> Logits:
    """A learned matrix, the same for all examples."""
    return rows[None, :, :, :length]


def factorized_random_logits(rows: Float[Array, "H S R"], columns: Float[Array, "H M R"], length: int) -> Logits:
    """A learned matrix of rank R."""
    return jnp.einsum("hsr,hlr->hsl", rows, columns[:, :length])[None]


def dense_logits(
    x: Float[Array, "B S H E"],
    weight1: Float[Array, "H E F"],
    bias1: Float[Array, "H F"],
    weight2: Float[Array, "H F M"],
    bias2: Float[Array, "H M"],
    length: int,
) -> Logits:
    """Each token's own row, by a network of two layers."""
    return _linear(_hidden(x, weight1, bias1), weight2[..., :length], bias2[..., :length])


def factorized_dense_logits(
    x: Float[Array, "B S H E"],
    weight1: Float[Array, "H E F"],
    bias1: Float[Array, "H F"],
    weight_a: Float[Array, "H F P"],
    bias_a: Float[Array, "H P"],
    weight_b: Float[Array, "H F Q"],
    bias_b: Float[Array, "H Q"],
    length: int,
) -> Logits:
    """Each token's own row as an outer product: column j is a[j // Q] * b[j mod Q]."""
    hidden = _hidden(x, weight1, bias1)
    a, b = _linear(hidden, weight_a, bias_a), _linear(hidden, weight_b, bias_b)
    return (a[..., :, None] * b[..., None, :]).reshape(*a.shape[:-1], -1)[..., :length]


def dot_logits(q: Float[Array, "B S H K"], k: Float[Array, "B L H K"]) -> Logits:
    """The Transformer's logits, to be mixed with synthetic ones."""
    return jnp.einsum("bshk,blhk->bhsl", q * q.shape[-1] ** -0.5, k)


def _hidden(x: Float[Array, "B S H E"], weight: Float[Array, "H E F"], bias: Float[Array, "H F"]) -> Logits:
    return jax.nn.relu(_linear(x.swapaxes(1, 2), weight, bias))


def _linear(x: Float[Array, "B H S E"], weight: Float[Array, "H E F"], bias: Float[Array, "H F"]) -> Logits:
    return jnp.einsum("bhse,hef->bhsf", x, weight) + bias[None, :, None]


class Synthesizer(AttentionMixer):
    """The sum of one or more `forms`: random, factorized_random, dense, factorized_dense, and dot (queries and keys).

    `rank` is R of factorized_random and P of factorized_dense. By default the form whose parameters grow least.
    """

    family = "synthetic"
    paper = "Tay et al. 2020, arXiv:2005.00743"
    growth = Growth(2, 2)
    cost = "L * L * (D + H * rank) / 2"
    quadratic = True

    def __init__(
        self, sizes: Sizes, *, forms: Sequence[str] = ("factorized_random",), rank: int = 8, rngs: nnx.Rngs
    ) -> None:
        for form in forms:
            if form not in FORMS:
                raise ValueError(f"form {form!r} is none of {', '.join(FORMS)}")
        if not forms or len(set(forms)) < len(forms):
            raise ValueError(f"forms {list(forms)} must be one or more different ones of {', '.join(FORMS)}")
        if sizes.dim % sizes.heads:
            raise ValueError(f"dim {sizes.dim} is not a multiple of heads {sizes.heads}")
        self.forms = tuple(forms)
        self.projected = ("query", "key", "value") if "dot" in forms else ("value",)  # type: ignore[misc]
        super().__init__(sizes, rngs=rngs)
        self.tables = nnx.Dict({form: nnx.Dict(_parameters(form, sizes, rank, rngs)) for form in forms})

    def inputs(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B L H K"], ...]:
        return (split_heads(x, self.heads).astype(self.out.dtype), *super().inputs(x))

    def attend(self, x, *inputs):
        *compared, v, mask, drop = inputs
        length = v.shape[1]
        parts: list[Part] = []
        for form in self.forms:
            p = {name: value[...].astype(v.dtype) for name, value in self.tables[form].items()}
            if form == "random":
                parts.append((p["table"], lambda rows: random_logits(rows, length)))
            elif form == "factorized_random":
                parts.append((p["rows"], partial(factorized_random_logits, columns=p["columns"], length=length)))
            elif form == "dense":
                parts.append((x, partial(dense_logits, **p, length=length)))
            elif form == "factorized_dense":
                parts.append((x, partial(factorized_dense_logits, **p, length=length)))
            else:
                parts.append((compared[0], lambda q: dot_logits(q, compared[1])))
        return synthesizer_attention(parts, v, mask, drop=drop)


def _parameters(form: str, sizes: Sizes, rank: int, rngs: nnx.Rngs) -> dict[str, nnx.Param]:
    """The parameters of one form; at the start its logits have a variance of about 1."""
    heads, length, hidden = sizes.heads, sizes.max_length, sizes.head_dim

    def table(*shape: int, deviation: float) -> nnx.Param:
        return nnx.Param(nnx.initializers.normal(deviation)(rngs.params(), (heads, *shape)))

    def linear(inputs: int, outputs: int) -> tuple[nnx.Param, nnx.Param]:
        return table(inputs, outputs, deviation=(2 / inputs) ** 0.5), nnx.Param(jnp.zeros((heads, outputs)))

    if form == "random":
        return {"table": table(length, length, deviation=1.0)}
    if form == "factorized_random":
        return {name: table(length, rank, deviation=rank**-0.25) for name in ("rows", "columns")}
    if form == "dot":
        return {}
    weight1, bias1 = linear(sizes.dim // heads, hidden)
    names = {"dense": [("weight2", "bias2", length)]}.get(
        form, [("weight_a", "bias_a", rank), ("weight_b", "bias_b", -(-length // rank))]
    )
    layers = {}
    for weight, bias, outputs in names:
        layers[weight], layers[bias] = linear(hidden, outputs)
    return {"weight1": weight1, "bias1": bias1, **layers}
