"""Synthesizer: an attention matrix that is a parameter, or made from each token alone, without comparing two tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from models.attention import (
    Drop,
    Sums,
    each,
    even_block_size,
    joined,
    recomputed,
    require_boolean,
    sums_of_logits,
    to_blocks,
)
from models.mixer import AttentionMixer, Growth, Sizes, split_heads

FORMS = ("random", "factorized_random", "dense", "factorized_dense", "dot")


class Part(NamedTuple):
    """One form's logits of a head of an example: `logits(rows of a block of queries, *shared)` are [S, L].

    Attributes:
        rows: what belongs to each query, [#B, H, M, ...]; the first axis is 1 where all examples have the same.
        shared: what the queries of a head share, each [#B, H, ...].
    """

    logits: Callable[..., Float[Array, "S L"]]
    rows: Float[Array, "#B H M *rest"]
    shared: tuple[Float[Array, "#B H *rest"], ...] = ()


def synthesizer_attention(
    parts: Sequence[Part],
    v: Float[Array, "B L H V"],
    mask: Bool[Array, "B L"] | None = None,
    *,
    block_size: int = 128,
    drop: Drop | None = None,
) -> Float[Array, "B L H V"]:
    """softmax(S) V over real keys, S the sum of the logits of all parts; head by head, block by block of queries.

    The paper mixes with learned weights that sum to 1; here they are 1, because each part's own scale is learned.
    Tay et al. 2020, https://arxiv.org/abs/2005.00743
    """
    require_boolean(mask)
    batch, length, heads, width = v.shape
    size = even_block_size(length, block_size)
    count = -(-length // size)
    wide = jnp.promote_types(v.dtype, jnp.float32)
    real = jnp.ones((batch, length), bool) if mask is None else mask
    bias = jnp.where(real, jnp.zeros((), wide), -jnp.inf)

    values = v.transpose(2, 0, 3, 1)
    rows = [jax.vmap(lambda one: to_blocks(one[:, :length], size), out_axes=2)(part.rows) for part in parts]
    shared = [tuple(jnp.swapaxes(x, 0, 1) for x in part.shared) for part in parts]

    def attend_block(number: Int[Array, ""]) -> Sums:
        head, i = jnp.divmod(number, count)

        def attend(example: tuple[Array, Array, Array, list[Array], list[tuple[Array, ...]]]) -> Sums:
            which, bias, values, rows, shared = example
            logits = sum(part.logits(row, *more) for part, row, more in zip(parts, rows, shared, strict=True))
            return sums_of_logits("sj,vj->sv", logits + bias[None], values, drop and drop.at(number * batch + which))

        own = ([x[head, i] for x in rows], jax.tree.map(lambda x: x[head], shared))
        of_all = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape[1:])), own)
        return each(attend, (jnp.arange(batch), bias, values[head], *of_all))

    sums = each(recomputed(attend_block), jnp.arange(heads * count))
    out = joined([sums]).reshape(heads, count, batch, size, width).transpose(2, 1, 3, 0, 4)
    return out.reshape(batch, -1, heads, width)[:, :length].astype(v.dtype)


def random(table: Float[Array, "H M M"], length: int) -> Part:
    """A learned matrix, the same for all examples."""
    return Part(lambda rows: rows, table[None, :, :, :length])


def factorized_random(rows: Float[Array, "H M R"], columns: Float[Array, "H M R"], length: int) -> Part:
    """A learned matrix of rank R."""
    return Part(jnp.matmul, rows[None], (columns[None, :, :length].mT,))


def dense(
    x: Float[Array, "B L H E"],
    weight1: Float[Array, "H E F"],
    bias1: Float[Array, "H F"],
    weight2: Float[Array, "H F M"],
    bias2: Float[Array, "H M"],
) -> Part:
    """Each token's own row, by a network of two layers."""
    length = x.shape[1]

    def logits(x, weight1, bias1, weight2, bias2):
        return _linear(jax.nn.relu(_linear(x, weight1, bias1)), weight2, bias2)

    return _of_tokens(logits, x, weight1, bias1, weight2[..., :length], bias2[..., :length])


def factorized_dense(
    x: Float[Array, "B L H E"],
    weight1: Float[Array, "H E F"],
    bias1: Float[Array, "H F"],
    weight_a: Float[Array, "H F P"],
    bias_a: Float[Array, "H P"],
    weight_b: Float[Array, "H F Q"],
    bias_b: Float[Array, "H Q"],
) -> Part:
    """Each token's own row as an outer product: column j is a[j // Q] * b[j mod Q]."""
    length = x.shape[1]

    def logits(x, weight1, bias1, weight_a, bias_a, weight_b, bias_b):
        hidden = jax.nn.relu(_linear(x, weight1, bias1))
        a, b = _linear(hidden, weight_a, bias_a), _linear(hidden, weight_b, bias_b)
        return (a[:, :, None] * b[:, None]).reshape(len(x), -1)[:, :length]

    return _of_tokens(logits, x, weight1, bias1, weight_a, bias_a, weight_b, bias_b)


def dot(q: Float[Array, "B L H K"], k: Float[Array, "B L H K"]) -> Part:
    """The Transformer's logits, to be mixed with synthetic ones."""
    return Part(lambda q, k: q @ k.T, q.swapaxes(1, 2) * q.shape[-1] ** -0.5, (k.swapaxes(1, 2),))


def _of_tokens(logits: Callable[..., Array], x: Float[Array, "B L H E"], *weights: Float[Array, "H ..."]) -> Part:
    return Part(logits, x.swapaxes(1, 2), tuple(weight[None] for weight in weights))


def _linear(x: Float[Array, "S E"], weight: Float[Array, "E F"], bias: Float[Array, " F"]) -> Float[Array, "S F"]:
    return x @ weight + bias[None]


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
        parts = []
        for form in self.forms:
            p = {name: value[...].astype(v.dtype) for name, value in self.tables[form].items()}
            if form == "random":
                parts.append(random(p["table"], length))
            elif form == "factorized_random":
                parts.append(factorized_random(p["rows"], p["columns"], length))
            elif form == "dense":
                parts.append(dense(x, **p))
            elif form == "factorized_dense":
                parts.append(factorized_dense(x, **p))
            else:
                parts.append(dot(*compared))
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
