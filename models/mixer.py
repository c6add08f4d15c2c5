"""What a variant supplies: a mixer, or a whole layer, and the facts that it states about itself."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from models.attention import Drop, require_boolean
from models.linear import Linear


@dataclass(frozen=True)
class Sizes:
    """The sizes of one encoder layer, the same for every variant.

    Attributes:
        dim: width D of the residual stream.
        heads: number of heads H.
        qkv_dim: width of queries, keys and values over all heads.
        mlp_dim: hidden width of the feed-forward part.
        max_length: longest sequence the layer will ever see, class token included.
        dropout: rate on embeddings, mixer output and feed-forward.
        attention_dropout: rate on attention weights, where a variant has weights to drop.
        dtype: type of the computation; parameters are always float32.
    """

    dim: int
    heads: int
    qkv_dim: int
    mlp_dim: int
    max_length: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    dtype: Any = jnp.float32

    def __post_init__(self) -> None:
        if self.qkv_dim % self.heads:
            raise ValueError(f"qkv_dim {self.qkv_dim} is not a multiple of heads {self.heads}")

    @property
    def head_dim(self) -> int:
        """Width K of one head."""
        return self.qkv_dim // self.heads


class Growth(NamedTuple):
    """Exponents in the length of compute and of temporary memory, forward and backward."""

    compute: float
    memory: float


class Drawn(nnx.Variable):
    """Random state that is drawn once from the seed, saved with the model and never trained."""


class Facts:
    """What a variant states about itself; the defaults suit most.

    Attributes:
        family: the folder of the taxonomy, which is also the colour in the chart.
        paper: authors, year and arXiv number.
        growth: declared exponents, held against compiled programs by `lra.check`.
        cost: half the multiplications of mixing L tokens by default, the projections around it left out, in the letters
            of CONTRIBUTING and the variant's own keywords; L * L * D is a query times a key, and again a weight times a
            value, for all pairs.
        padding_invariant: padding never changes outputs at real positions.
        quadratic: builds the L x L matrix.
        simulated: imitates its pattern by masking a dense matrix; its speed is then not reported.
        extra_tokens: tokens that the variant puts before the sequence, itself included in `max_length`.
        drops_weights: has attention weights to which attention dropout applies.
        stochastic: takes `rngs` in training (None in evaluation).
        version: rises whenever the same parameters would compute something else.
    """

    family: ClassVar[str] = "user"
    paper: ClassVar[str] = ""
    growth: ClassVar[Growth] = Growth(2, 2)
    cost: ClassVar[str] = ""
    padding_invariant: ClassVar[bool] = True
    quadratic: ClassVar[bool] = False
    simulated: ClassVar[bool] = False
    extra_tokens: ClassVar[int] = 0
    drops_weights: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    version: ClassVar[int] = 1


class Mixer(nnx.Module, Facts):
    """Mixes information along the length: `mixer(x, mask) -> y`.

    A subclass has the constructor `(sizes, *, rngs, **own keywords)` and the call
    `(x: [B, L, D], mask: bool [B, L] | None) -> [B, L, D]`, with one more keyword `rngs` if it is `stochastic`.
    """

    def __call__(self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None) -> Float[Array, "B L D"]:
        raise NotImplementedError


class AttentionMixer(Mixer):
    """Projections around `attend`, the one thing that an attention variant supplies.

    The key projection has no bias, because softmax ignores it; the others do without one too.
    """

    projected: ClassVar[tuple[str, ...]] = ("query", "key", "value")
    drops_weights: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    query: Linear
    key: Linear
    value: Linear

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.heads, self.head_dim = sizes.heads, sizes.head_dim
        self.dropout_rate = sizes.attention_dropout if self.drops_weights else 0.0
        for name in self.projected:
            setattr(self, name, projection(sizes.dim, sizes.qkv_dim, sizes, rngs))
        self.out = projection(sizes.qkv_dim, sizes.dim, sizes, rngs)

    def inputs(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B L H K"], ...]:
        """What `attend` is given of the sequence: its projections, cut into heads."""
        return tuple(split_heads(getattr(self, name)(x), self.heads) for name in self.projected)

    def weight_dropout(self, rngs: nnx.Rngs | None) -> Drop | None:
        """Dropout of attention weights in training, None in evaluation or at rate 0."""
        return Drop(self.dropout_rate, rngs.dropout()) if rngs is not None and self.dropout_rate else None

    def attend(
        self,
        q: Float[Array, "B L H K"],
        k: Float[Array, "B L H K"],
        v: Float[Array, "B L H K"],
        mask: Bool[Array, "B L"] | None,
        drop: Drop | None,
    ) -> Float[Array, "B L H K"]:
        """The variant's maths; `drop` is applied to attention weights when it is not None."""
        raise NotImplementedError

    def __call__(
        self, x: Float[Array, "B L D"], mask: Bool[Array, "B L"] | None, *, rngs: nnx.Rngs | None = None
    ) -> Float[Array, "B L D"]:
        require_boolean(mask)
        attend: Any = self.attend  # a variant may project to more or fewer than three inputs
        return self.out(merge_heads(attend(*self.inputs(x), mask, self.weight_dropout(rngs))))


class Layer(nnx.Module, Facts):
    """A whole encoder layer: `layer(x, mask, carry, *, deterministic, rngs) -> (x, carry)`.

    Most variants supply a mixer and take `EncoderLayer`; those that pass something between layers, or have no separate
    feed-forward part, supply a subclass of this with the constructor `(sizes, *, rngs, **own keywords)`.
    """

    def __call__(
        self,
        x: Float[Array, "B L D"],
        mask: Bool[Array, "B L"] | None,
        carry: Any,
        *,
        deterministic: bool,
        rngs: nnx.Rngs | None,
    ) -> tuple[Float[Array, "B L D"], Any]:
        raise NotImplementedError


def projection(inputs: int, outputs: int, sizes: Sizes, rngs: nnx.Rngs) -> Linear:
    """A linear map without bias, Glorot-uniform."""
    return Linear(
        inputs,
        outputs,
        use_bias=False,
        kernel_init=nnx.initializers.xavier_uniform(),
        dtype=sizes.dtype,
        rngs=rngs,
    )


def split_heads(x: Float[Array, "B L D"], heads: int) -> Float[Array, "B L H K"]:
    """Cuts the features into heads."""
    return x.reshape(*x.shape[:-1], heads, -1)


def merge_heads(x: Float[Array, "B L H K"]) -> Float[Array, "B L D"]:
    """Puts the heads side by side."""
    return x.reshape(*x.shape[:-2], -1)
