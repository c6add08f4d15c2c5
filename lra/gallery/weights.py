"""Which query-key pairs a variant computes and with what weight: its pattern, or how outputs depend on values."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lra.build import build_classifier
from lra.config import EncoderConfig
from lra.subject import apply, fast_jit, kind
from models.classifier import Classifier
from models.encoder import EncoderLayer

AT_ONCE = 256  # rows of a Jacobian


@dataclass(frozen=True)
class Mixing:
    """What a variant mixes.

    Attributes:
        name, family, cost, paper: what the variant states.
        weights: of every query (row) and key, [layers, heads, L, L]; 0 where a pair is not computed. A pattern has 1.
        is_pattern: the weights are a pattern, which needs no input.
        heads: what the heads are called.
        input: what the weights were taken of.
        file: name of the picture of a trained run.
    """

    name: str
    family: str
    cost: str
    paper: str
    weights: np.ndarray
    is_pattern: bool
    heads: tuple[str, ...]
    input: str
    file: str = ""

    @property
    def computed(self) -> float:
        """Share of all pairs, over all heads and layers."""
        return float((self.weights != 0).mean())


def at_initialisation(
    name: str, model: dict[str, Any], encoder: EncoderConfig, *, length: int, kinds: int, run: int
) -> Mixing:
    """The pattern of a variant, or its weights for a made-up sequence: `kinds` of tokens in turn, `run` of each.

    Raises BadInput for keywords that the variant refuses.
    """
    sizes: dict[str, Any] = {"max_length": length, "vocab_size": kinds, "num_classes": 2}
    classifier = build_classifier(model, replace(encoder, layers=1), **sizes)
    mixer = mixer_of(classifier.encoder.layers[0])
    pattern = mixer.pattern(length) if hasattr(mixer, "pattern") else None
    if pattern is None:
        weights = layer_weights(classifier, np.arange(length) // run % kinds)
        taken = f"at initialisation (seed 0), of {length} tokens: {kinds} kinds in turn, {run} of a kind in a row"
        return _mixing(name, mixer, weights, taken)
    return replace(_mixing(name, mixer, np.asarray(pattern, float)[None], "any"), is_pattern=True)


def trained(folder: Path, length: int) -> Mixing:
    """The weights in every layer of a run's best parameters, of the first tokens of a validation example.

    Raises BadInput when `folder` is not the work folder of a run that has a checkpoint. Nothing in it is changed.
    """
    from lra.restored import restored  # brings orbax, which nothing else here needs

    run = restored(folder)
    task, classifier = run.task, run.trained
    lengths = np.minimum(task.validation.lengths, min(length, task.max_length))
    example = int(lengths.argmax())  # the first that fills the picture, else the longest
    tokens = np.asarray(task.validation.sequence(example)[: lengths[example]], np.int32)
    front = " behind the class token" if classifier.class_token else ""
    which = f"after step {run.best.step:,}, of the first {len(tokens)} tokens{front} of validation example {example}"
    weights = layer_weights(classifier, tokens)
    mixing = _mixing(run.title, mixer_of(classifier.encoder.layers[0]), weights, which)
    return replace(mixing, file="trained-" + re.sub(r"[^\w@.]+", "-", run.title))


def _mixing(name: str, mixer: Any, weights: np.ndarray, taken: str) -> Mixing:
    count = weights.shape[1]
    names = next((found for key in ("patterns", "parts") if _name(found := getattr(mixer, key, None), count)), None)
    heads = tuple(f"head {i + 1}" + (f": {names[i]}" if names else "") for i in range(count))
    return Mixing(name, mixer.family, mixer.cost, mixer.paper, weights, False, heads if count > 1 else ("",), taken)


def _name(found: Any, heads: int) -> bool:
    """Whether these are the patterns of a mixer's heads."""
    return isinstance(found, tuple) and len(found) == heads and all(isinstance(one, str) for one in found)


def mixer_of(layer: Any) -> Any:
    """The variant's own part of a layer: its mixer, or the whole layer."""
    return layer.mixer if isinstance(layer, EncoderLayer) else layer


def layer_weights(classifier: Classifier, tokens: np.ndarray) -> np.ndarray:
    """The weights in every layer for one sequence of token ids [L], [layers, heads, L, L], class token included."""
    x, _ = classifier.embedding(jnp.asarray(tokens)[None], None)
    weights, carry = [], None
    for layer in classifier.encoder.layers:
        seen = layer.mixer_norm(x) if isinstance(layer, EncoderLayer) else x
        weights.append(mixing_weights(mixer_of(layer), seen))
        x, carry = layer(x, None, carry, deterministic=True, rngs=None)
    return np.stack(weights)


def mixing_weights(mixer: Any, x: Float[Array, "1 L D"]) -> np.ndarray:
    """How strongly the output at every position depends on the value at every other, [heads, L, L].

    That is the Frobenius norm of the block of the Jacobian that belongs to the two positions, over that of what the
    values pass on the way: of an attention weight a, whose block is a times the identity, just a. What the weights are
    made of is held fixed. A mixer that has no `attend` is one head, and its values are its input.
    """
    if not hasattr(mixer, "attend"):
        return dependence(lambda given: apply(mixer, given[0], None)[:, :, None], [x]) / x.shape[-1] ** 0.5
    inputs = attend_inputs(mixer, x)
    is_value = [kind(name) == "value" for name in _input_names(mixer, len(inputs))]
    of_tokens = [_length(mixer, x, cut) for cut in (0, 1)] == [x.shape[1], x.shape[1] - 1]
    if of_tokens:
        values = [array for array, own in zip(inputs, is_value, strict=True) if own]
        return dependence(partial(_attend, mixer, inputs, is_value), values) / inputs[-1].shape[-1] ** 0.5

    def attended(given: Sequence[Array]) -> Array:
        """The heads' output as a function of the mixer's input, through values only."""
        whole = attend_inputs(mixer, given[0])
        fixed = [a if own else jax.lax.stop_gradient(a) for a, own in zip(whole, is_value, strict=True)]
        return mixer.attend(*fixed, None, None)

    kernel = mixer.value.kernel[...].reshape(x.shape[-1], inputs[0].shape[2], -1)
    norms = np.sqrt(np.square(np.asarray(kernel)).sum((0, 2)))
    return dependence(attended, [x]) / norms[:, None, None]


def attend_inputs(mixer: Any, x: Float[Array, "1 L D"]) -> list[Array]:
    """What a mixer hands to `attend` before the mask."""
    seen: list[Array] = []

    def attend(self: Any, *inputs: Any) -> Array:
        seen.extend(inputs[:-2])
        return jnp.zeros((*x.shape[:2], *inputs[-3].shape[2:]), x.dtype)

    with patch.object(type(mixer), "attend", attend):
        apply(mixer, x, None)
    return seen


def _length(mixer: Any, x: Float[Array, "1 L D"], cut: int) -> int:
    """Along which length the values lie when the sequence is shorter by `cut`."""
    return jax.eval_shape(lambda x: attend_inputs(mixer, x)[-1], x[:, : x.shape[1] - cut]).shape[1]


def _input_names(mixer: Any, count: int) -> Sequence[str]:
    """The last input is values, whatever its name."""
    names = mixer.projected
    return names if len(names) == count else [*map(str, range(count - 1)), "value"]


def _attend(mixer: Any, inputs: Sequence[Array], is_value: Sequence[bool], values: Sequence[Array]) -> Array:
    left = iter(values)
    chosen = [next(left) if own else array for array, own in zip(inputs, is_value, strict=True)]
    return mixer.attend(*chosen, None, None)


def dependence(
    function: Callable[[Sequence[Array]], Float[Array, "1 L H K"]], given: Sequence[Float[Array, "1 M ..."]]
) -> np.ndarray:
    """Frobenius norms of the blocks of a Jacobian, one for every head, query and key: [heads, L, M]."""

    @fast_jit
    def squares(given: Sequence[Array]) -> Float[Array, "N M"]:
        out, pull_back = jax.vjp(function, given)

        def row(number: Array) -> Float[Array, " M"]:
            one = jnp.zeros(out.size, out.dtype).at[number].set(1).reshape(out.shape)
            return sum(jnp.square(g).reshape(g.shape[1], -1).sum(1) for g in pull_back(one)[0])  # type: ignore[return-value]

        return jax.lax.map(row, jnp.arange(out.size), batch_size=min(AT_ONCE, out.size))

    _, length, heads, width = jax.eval_shape(function, given).shape
    rows = np.asarray(squares(list(given))).reshape(length, heads, width, -1)
    return np.sqrt(rows.sum(2)).swapaxes(0, 1)
