"""The rules that every variant keeps, one function each. `lra.check` calls them for the command line and for the tests.

A rule returns what it measured, or raises Violation with the figures, or Exempt with the reason why it does not apply.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, ArrayLike, Float

from lra.growth import LAYER, SLACK, costs
from lra.layer import apply
from lra.step import split_model
from lra.subject import Exempt, Subject, attend_inputs, fast_jit, kind, normal, random_inputs, real_tokens
from models.encoder import Encoder

CLOSE = 1e-5  # outputs are of order 1


class Violation(Exception):
    """A rule is broken; the message gives the figures."""


def difference(a: ArrayLike, b: ArrayLike) -> float:
    """Largest absolute difference; NaN and infinities count as infinite."""
    worst = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max(initial=0)
    return float(worst) if np.isfinite(worst) else float("inf")


def require_close(a: ArrayLike, b: ArrayLike, what: str, tolerance: float = CLOSE) -> float:
    """The largest difference; raises Violation beyond the tolerance."""
    off = difference(a, b)
    if off > tolerance:
        raise Violation(f"{what}: outputs differ by {off:.1e}, allowed {tolerance:.0e}")
    return off


def rule_1_any_length(subject: Subject) -> str:
    """Any length up to max_length; a longer input is an error before anything compiles."""
    sizes = subject.scale.sizes
    graph, state = subject.graph_and_state
    for length in subject.scale.lengths:
        x = jax.ShapeDtypeStruct((1, length, sizes.dim), jnp.float32)
        y = jax.eval_shape(lambda x: apply(nnx.merge(graph, state), x, None), x)
        if y.shape != x.shape:
            raise Violation(f"length {length}: the output has shape {y.shape}, the input {x.shape}")
    encoder = nnx.eval_shape(lambda: Encoder(partial(subject.cls, **subject.keywords), 1, sizes, rngs=nnx.Rngs(0)))
    longer = sizes.max_length + 1
    try:
        jax.eval_shape(lambda x: encoder(x, None), jax.ShapeDtypeStruct((1, longer, sizes.dim), jnp.float32))
    except ValueError as error:
        if str(longer) not in str(error) or str(sizes.max_length) not in str(error):
            raise Violation(f"{longer} tokens: the error does not name both lengths: {error}") from None
    else:
        raise Violation(f"{longer} tokens pass, although max_length is {sizes.max_length}")
    return f"lengths {', '.join(map(str, subject.scale.lengths))}; {longer} is refused"


def rule_2_padding(subject: Subject) -> str:
    """Neither what stands in padding nor its amount changes outputs at real positions; masks are boolean."""
    require_boolean_masks(subject)
    full = subject.scale.sizes.max_length
    cases = [([*subject.scale.real, 1, full], full), (subject.scale.real[:1], subject.scale.padded)]
    worst = 0.0
    for lengths, padded in cases:
        x, mask = subject.x(len(lengths))[:, :padded], real_tokens(lengths, padded)
        noise = np.where(mask[..., None], x, 1e3 * subject.x(len(lengths), seed=1)[:, :padded])
        clean, noisy = (np.asarray(subject.forward(given, mask)) for given in (x, noise))
        for row, length in enumerate(lengths):
            what = f"batch {len(lengths)}, {length} tokens padded to {padded}, noise of 1e3 in the padding"
            worst = max(worst, require_close(clean[row, :length], noisy[row, :length], what))
            if subject.cls.padding_invariant and length in subject.scale.real:
                alone = subject.forward(x[row : row + 1, :length], None)[0]
                what = f"{length} tokens alone and padded to {padded}"
                worst = max(worst, require_close(clean[row, :length], alone, what))
    note = "" if subject.cls.padding_invariant else "; its amount may (padding_invariant is False)"
    return f"at most {worst:.1e}{note}"


def require_boolean_masks(subject: Subject) -> None:
    """Raises Violation when an integer or float mask passes."""
    graph, state = subject.graph_and_state
    for dtype in (jnp.int32, jnp.float32):
        try:
            jax.eval_shape(
                lambda x, mask: apply(nnx.merge(graph, state), x, mask),
                subject.x(1),
                jax.ShapeDtypeStruct((1, subject.scale.sizes.max_length), dtype),
            )
        except TypeError:
            continue
        raise Violation(f"a mask of {jnp.dtype(dtype)} passes; only boolean masks have one reading")


def rule_3_nothing_to_attend_to(subject: Subject) -> str:
    """Where an example has no real token the pure function yields exactly 0, and gradients are finite everywhere."""
    length = subject.scale.jacobian[0]
    mask = real_tokens([0, 3, length], length)
    for name in subject.scale.dtypes:
        dtype = jnp.dtype(name)
        graph, state = subject.graph(dtype=dtype), subject.graph_and_state[1]
        has_attend = hasattr(subject.cls, "attend")
        if has_attend:
            inputs = random_inputs(attend_inputs(subject, 3, length, dtype), 3.0, dtype)
        else:
            inputs = [subject.x(3)[:, :length].astype(dtype)]

        def forward(
            state: Any, inputs: Any, mask: Array, graph: Any = graph, has_attend: bool = has_attend
        ) -> tuple[Float[Array, ""], Array]:
            model = nnx.merge(graph, state)
            out = model.attend(*inputs, mask, None) if has_attend else apply(model, inputs[0], mask)
            return out.astype(jnp.float32).sum(), out

        differentiate = jax.value_and_grad(forward, argnums=(0, 1), has_aux=True, allow_int=True)
        (_, out), gradients = fast_jit(differentiate)(state, inputs, mask)
        if has_attend and np.asarray(out[0]).any():
            raise Violation(f"{name}: an example without a real token yields {float(abs(out[0]).max()):.1e}, not 0")
        if out.dtype != dtype:
            raise Violation(f"{name}: the output is {out.dtype}")
        for what, arrays in (("outputs", [out]), ("gradients", jax.tree.leaves(gradients))):
            if not all(np.isfinite(np.asarray(a, np.float32)).all() for a in arrays if a.dtype != jax.dtypes.float0):
                raise Violation(f"{name}: {what} are not finite with an example of 0 and one of 3 tokens")
    return ", ".join(subject.scale.dtypes)


def rule_4_examples_apart(subject: Subject) -> str:
    """One example never influences another, and evaluation is deterministic."""
    full = subject.scale.sizes.max_length
    count = len(subject.scale.real) + 2  # the shape that rule 2 has compiled
    x, mask = subject.x(count), real_tokens([full] * count, full)
    first = subject.forward(x, mask)
    others = subject.forward(np.concatenate([x[:1], 100 * x[1:]]), mask)
    off = require_close(first[0], others[0], "example 0 beside others multiplied by 100", 1e-6)
    if difference(first, subject.forward(x, mask)):
        raise Violation("evaluating twice gives two results")
    return f"at most {off:.1e}"


def rule_5_gradients(subject: Subject) -> str:
    """At full length every parameter gets a gradient that is not rounding noise."""
    with jax.enable_x64(True):  # noise is then 1e-16 of the largest gradient, so that nothing real is near it
        model = nnx.merge(subject.graph(dtype=jnp.float64), subject.graph_and_state[1])
        graph, params, rest = split_model(model)
        params, rest = jax.tree.map(
            lambda a: np.asarray(a, np.float64) if jnp.issubdtype(a.dtype, jnp.floating) else a, (params, rest)
        )
        x, weight = (subject.x(2, seed).astype(np.float64) for seed in (0, 1))

        def loss(params: Any, rest: Any) -> Float[Array, ""]:
            return (apply(nnx.merge(graph, params, rest), x, None) * weight).sum()

        gradients = fast_jit(jax.grad(loss))(params, rest)
        sizes = {
            jax.tree_util.keystr(path): float(abs(np.asarray(gradient)).max())
            for path, gradient in jax.tree_util.tree_leaves_with_path(gradients)
        }
    if not sizes:
        raise Exempt("no parameters")
    largest = max(sizes.values())
    for name, size in sizes.items():
        if not size > 1e-6 * largest:
            raise Violation(f"parameter {name} gets a gradient of {size:.1e}, the largest of all is {largest:.1e}")
    return f"{len(sizes)} parameters; from {min(sizes.values()):.1e} to {largest:.1e}"


def rule_6_pattern(subject: Subject) -> str:
    """The pairs that are computed are those of `pattern(length)`, and the output is dense attention under it."""
    if not hasattr(subject.cls, "pattern"):
        raise Exempt("no fixed pattern")
    graph, state = subject.graph_and_state
    model = nnx.merge(graph, state)
    for length in subject.scale.jacobian:
        depends, pattern = value_dependence(subject, length), np.asarray(model.pattern(length))
        for wrong, text in ((depends & ~pattern, "is used but not in"), (pattern & ~depends, "is not used but in")):
            if wrong.any():
                head, query, key = np.argwhere(wrong)[0]
                raise Violation(
                    f"length {length}: {wrong.sum()} of {wrong.size} pairs disagree; "
                    f"head {head}, query {query}, key {key} {text} pattern({length})"
                )
    worst = 0.0
    for length in subject.scale.lengths:
        shapes = attend_inputs(subject, 2, length)
        inputs = random_inputs(shapes)
        by_kind = {kind(name): np.asarray(array) for (name, _), array in zip(shapes, inputs, strict=True)}
        expected = attention_under(
            np.asarray(model.pattern(length)), by_kind.get("query", by_kind["key"]), by_kind["key"], by_kind["value"]
        )
        what = f"length {length}, against dense attention under the pattern"
        worst = max(worst, require_close(subject.attend(inputs, None), expected, what))
    return f"at most {worst:.1e} from dense attention at lengths {', '.join(map(str, subject.scale.lengths))}"


def value_dependence(subject: Subject, length: int) -> np.ndarray:
    """Which outputs depend on which values, bool [heads, query, key]; raises Violation where a head sees another's."""
    graph, state = subject.graph_and_state
    shapes = attend_inputs(subject, 1, length)
    is_value = [kind(name) == "value" for name, _ in shapes]
    heads = shapes[-1][1].shape[2]

    @fast_jit
    def jacobian(state: Any, inputs: list[Array]) -> Float[Array, "N L H"]:
        model = nnx.merge(graph, state)

        def attend(values: list[Array]) -> Array:
            left = iter(values)
            chosen = [next(left) if own else array for own, array in zip(is_value, inputs, strict=True)]
            return model.attend(*chosen, None, None)

        out, pull_back = jax.vjp(attend, [array for own, array in zip(is_value, inputs, strict=True) if own])

        def derivative(query: Array, head: Array) -> Float[Array, "L H"]:
            gradients = pull_back(jnp.zeros_like(out).at[0, query, head].set(1))
            return sum(abs(gradient[0]).max(-1) for gradient in jax.tree.leaves(gradients))

        pairs = jnp.tile(jnp.arange(length), heads), jnp.repeat(jnp.arange(heads), length)
        return jax.lax.map(lambda pair: derivative(*pair), pairs, batch_size=min(32, heads * length))

    rows = np.asarray(jacobian(state, random_inputs(shapes)))
    result = rows.reshape(heads, length, length, heads)  # head of the output, query, key, head of the value
    for target, source in itertools.permutations(range(heads), 2):
        if result[target, :, :, source].any():
            raise Violation(f"length {length}: head {target} depends on values of head {source}")
    return np.stack([result[head, :, :, head] != 0 for head in range(heads)])


def attention_under(pattern: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Dense attention under a pattern, in float64 and without JAX."""
    logits = np.einsum("blhk,bmhk->bhlm", q.astype(np.float64), k) / np.sqrt(q.shape[-1])
    logits = np.where(pattern, logits, -np.inf)
    peak = logits.max(-1, keepdims=True, initial=-1e300)
    weights = np.exp(logits - peak)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bhlm,bmhv->blhv", weights / np.where(total == 0, 1, total), v)


def rule_7_cost(subject: Subject) -> str:
    """Operations and temporary memory, forward and backward, grow no faster than declared."""
    facts, lengths = subject.cls, subject.scale.growth
    if facts.quadratic != (facts.growth.memory >= 2):
        raise Violation(f"quadratic is {facts.quadratic}, but memory is declared to grow as L^{facts.growth.memory:g}")
    measured = costs(subject, lengths)
    exponents = measured.exponents()
    for what, declared, exponent, figures in zip(
        ("compute", "memory"), facts.growth, exponents, (measured.compute, measured.memory), strict=True
    ):
        if exponent > declared + SLACK:
            listed = ", ".join(f"{figure:.3g} at {length}" for length, figure in zip(lengths, figures, strict=True))
            raise Violation(f"{what} grows as L^{exponent:.2f}, declared {declared:g}: {listed}")
    require_no_dense_imitation(subject, measured.memory[-1], lengths[-1])
    compute, memory = exponents
    return f"compute L^{compute:.2f} of {facts.growth.compute:g}, memory L^{memory:.2f} of {facts.growth.memory:g}"


def require_no_dense_imitation(subject: Subject, temporary: float, length: int) -> None:
    """Raises Violation for a sparse pattern whose program holds a whole L x L matrix and is not called simulated."""
    if subject.cls.simulated or not hasattr(subject.cls, "pattern"):
        return
    graph, state = subject.graph_and_state
    density = np.mean(nnx.merge(graph, state).pattern(subject.scale.sizes.max_length))
    dense = 4 * LAYER.heads * length**2
    if density < 0.5 and temporary >= dense:
        raise Violation(
            f"{temporary:.3g} bytes at length {length} hold the whole matrix ({dense:.3g}), although the pattern has "
            f"{density:.0%} of it: what masks a dense matrix declares `simulated`"
        )


def rule_8_one_trace(subject: Subject) -> str:
    """50 training steps trace once, and nothing outside the model's variables changes on the way."""
    length, traces = subject.scale.jacobian[0], 0
    graph, state = subject.graph(dropout=0.1, attention_dropout=0.1), subject.graph_and_state[1]

    def step(state: Any, x: Array, mask: Array, key: Array) -> tuple[Array, Any]:
        nonlocal traces
        traces += 1
        model = nnx.merge(graph, state, copy=True)
        y = apply(model, x, mask, nnx.Rngs(key))
        after, state = nnx.split(model)
        if after != graph:
            raise Violation("a training step changes the model outside of its variables, which jit can't see")
        return y, state

    compiled = fast_jit(step)
    for number in range(50):
        x, mask = (
            normal((2, length, subject.scale.sizes.dim), number),
            real_tokens([1 + number % length, length], length),
        )
        y, state = compiled(state, x, mask, jax.random.key(number))
    if traces != 1:
        raise Violation(f"50 training steps of one shape traced {traces} times")
    if not np.isfinite(np.asarray(y)).all():
        raise Violation("outputs are not finite in training")
    return "1 trace in 50 training steps"


RULES: dict[int, tuple[str, Callable[[Subject], str]]] = {
    1: ("any length", rule_1_any_length),
    2: ("padding changes nothing", rule_2_padding),
    3: ("nothing to attend to gives 0", rule_3_nothing_to_attend_to),
    4: ("examples stay apart", rule_4_examples_apart),
    5: ("every parameter learns", rule_5_gradients),
    6: ("the pattern is real", rule_6_pattern),
    7: ("the cost is real", rule_7_cost),
    8: ("one trace per shape", rule_8_one_trace),
}


@contextmanager
def exact_products() -> Iterator[None]:
    """Full float32 in matrix products, which accelerators round by default."""
    with jax.default_matmul_precision("highest"):
        yield
