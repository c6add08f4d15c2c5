"""A variant as the rules of `lra.conformance` see it: built at some sizes, its programs compiled once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, ArrayLike

from lra.build import variant_class
from lra.layer import apply
from lra.variants import Variant
from models.mixer import Sizes


class Exempt(Exception):
    """A rule does not apply; the message gives the reason."""


@dataclass(frozen=True)
class Scale:
    """The sizes at which the rules are held.

    Attributes:
        sizes: of the layer; `max_length` is the full length.
        lengths: rules 1 and 6.
        real, padded: rule 2; the first of `real` tokens are padded to `padded` and to the full length.
        jacobian: lengths for the Jacobian of rule 6.
        growth: lengths for rule 7.
        dtypes: rule 3.
    """

    sizes: Sizes
    lengths: tuple[int, ...]
    real: tuple[int, ...]
    padded: int
    jacobian: tuple[int, ...]
    growth: tuple[int, ...]
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")


# One token more than 64, so that no block and no factor divides the full length; of the short types, the one whose
# numbers end first.
TOY = Scale(Sizes(32, 2, 16, 32, 65), (1, 64, 65), (37,), 50, (12,), (1024, 4096), ("float32", "float16"))
FULL = Scale(
    Sizes(32, 2, 16, 32, 1024),
    (1, 2, 63, 64, 65, 777, 1000, 1024),
    (37, 777),
    800,
    (12, 333),
    (1024, 2048, 4096, 8192, 16384),
)


class Subject:
    """A variant built at some sizes, with the programs that several rules share compiled once."""

    def __init__(self, variant: Variant, scale: Scale, keywords: dict[str, Any] | None = None) -> None:
        self.keywords = {**variant.keywords, **(keywords or {})}
        self.cls: Any = variant_class({"_target_": variant.target, **self.keywords})
        self.scale = scale

    @cached_property
    def graph_and_state(self) -> tuple[Any, Any]:
        """The model of these sizes, split."""
        return nnx.split(self.build(self.scale.sizes))

    def graph(self, **sizes: Any) -> Any:
        """The model's definition for other types or rates; its state is the same."""
        return nnx.split(nnx.eval_shape(lambda: self.build(replace(self.scale.sizes, **sizes))))[0]

    def build(self, sizes: Sizes) -> Any:
        """The mixer or layer, its parameters drawn from seed 0."""
        return self.cls(sizes, **self.keywords, rngs=nnx.Rngs(0))

    @cached_property
    def forward(self) -> Callable[[ArrayLike, ArrayLike | None], Array]:
        """`(x, mask) -> y` in evaluation, compiled."""
        graph, state = self.graph_and_state
        program = fast_jit(lambda state, x, mask: apply(nnx.merge(graph, state), x, mask))
        return lambda x, mask: program(state, x, mask)

    @cache  # noqa: B019 - a subject lives as long as its rules run
    def x(self, batch: int, seed: int = 0) -> np.ndarray:
        """Random input of the full length."""
        return normal((batch, self.scale.sizes.max_length, self.scale.sizes.dim), seed)

    @cached_property
    def attend(self) -> Callable[..., Array]:
        """`(inputs, mask) -> out`, the pure function of an attention mixer, compiled; raises Exempt without one."""
        graph, state = self.graph_and_state
        program = fast_jit(lambda state, inputs, mask: nnx.merge(graph, state).attend(*inputs, mask, None))
        return lambda inputs, mask: program(state, inputs, mask)


def fast_jit(function: Callable[..., Any], **keywords: Any) -> Any:
    """Like jax.jit; on the CPU it compiles sooner to slower code, because each program here runs a few times only."""
    options: Any = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return jax.jit(function, compiler_options=options, **keywords)


def normal(shape: Sequence[int], seed: int) -> np.ndarray:
    """Standard normal numbers, made by NumPy because JAX compiles a program for every shape."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def real_tokens(lengths: Sequence[int], padded: int) -> np.ndarray:
    """The mask of examples with these real lengths, bool [B, L]."""
    return np.arange(padded) < np.array(lengths)[:, None]


def attend_inputs(subject: Subject, batch: int, length: int, dtype: Any = jnp.float32) -> list[tuple[str, Any]]:
    """Names and shapes of what the mixer hands to `attend` before the mask; the last is values, whatever its name."""
    if not hasattr(subject.cls, "attend"):
        raise Exempt("no pure function `attend` over queries, keys and values")
    seen: list[Any] = []

    def attend(self: Any, *inputs: Any) -> Array:
        seen.append([jax.ShapeDtypeStruct(a.shape, a.dtype) for a in inputs[:-2]])
        return inputs[-3]

    spying = type("Spying", (subject.cls,), {"attend": attend})
    sizes = replace(subject.scale.sizes, dtype=dtype)
    x = jax.ShapeDtypeStruct((batch, length, sizes.dim), jnp.float32)
    jax.eval_shape(lambda x: apply(spying(sizes, **subject.keywords, rngs=nnx.Rngs(0)), x, None), x)
    if not seen:
        raise Exempt("its call does not go through `attend`")
    names = getattr(subject.cls, "projected", ())
    if len(names) != len(seen[0]):
        names = ["query", *["key"] * (len(seen[0]) > 2), *range(len(seen[0]) - 3), "value"]
    return [(str(name), shape) for name, shape in zip(names, seen[0], strict=True)]


def kind(name: str) -> str:
    """`global_query` is a query too."""
    return name.rpartition("_")[2]


def random_inputs(shapes: list[tuple[str, Any]], spread: float = 1.0, dtype: Any = jnp.float32) -> list[np.ndarray]:
    """Random arrays for `attend`; global queries are equal to queries, and so on."""
    seeds = {"query": 0, "key": 1, "value": 2}
    return [(spread * normal(shape.shape, seeds.get(kind(name), 3))).astype(dtype) for name, shape in shapes]
