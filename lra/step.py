"""The two pure functions that everything runs: one training step and one prediction."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from tasks.task import Batch


class TrainState(NamedTuple):
    """All that training changes: parameters, other state of the model, the optimiser's state, steps done."""

    params: Any
    rest: Any
    optimiser: Any
    step: Any


def split_model(model: nnx.Module) -> tuple[Any, Any, Any]:
    """A model as (graph definition, parameters, other state)."""
    parts: Any = nnx.split(model, nnx.Param, ...)
    return parts


def real_tokens(batch: Batch) -> Bool[Array, "*B L"]:
    """The mask that follows from the lengths."""
    return jnp.arange(batch.tokens.shape[-1])[(None,) * batch.lengths.ndim] < batch.lengths[..., None]


def make_train_step(
    graph: Any, optimiser: optax.GradientTransformation, key: Array, accumulate: int = 1
) -> Callable[[TrainState, Batch], tuple[TrainState, Float[Array, ""]]]:
    """The step `(state, batch) -> (state, mean cross-entropy)`; its noise follows from `key` and the step's number.

    The batch is gone through in `accumulate` pieces, one after the other, so that only one is in memory.
    """

    def loss_of(params: Any, rest: Any, batch: Batch, noise: Array) -> tuple[Float[Array, ""], Any]:
        model = nnx.merge(graph, params, rest, copy=True)
        logits = model(batch.tokens, real_tokens(batch), rngs=nnx.Rngs(noise))
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch.labels).mean()
        return loss, split_model(model)[2]

    differentiate = jax.value_and_grad(loss_of, has_aux=True)

    def in_pieces(params: Any, rest: Any, batch: Batch, noise: Array) -> tuple[tuple[Array, Any], Any]:
        # A piece takes every `accumulate`-th example: of a batch spread over devices a part of each device's.
        pieces = jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)

        def add(total: Any, piece: Any) -> tuple[Any, None]:
            (loss, rest), gradients = differentiate(params, total[1], *piece)
            return (total[0] + loss, rest, jax.tree.map(jnp.add, total[2], gradients)), None

        start = (jnp.zeros(()), rest, jax.tree.map(jnp.zeros_like, params))
        (loss, rest, gradients), _ = jax.lax.scan(add, start, (pieces, jax.random.split(noise, accumulate)))
        return (loss / accumulate, rest), jax.tree.map(lambda gradient: gradient / accumulate, gradients)

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Float[Array, ""]]:
        noise = jax.random.fold_in(key, state.step)
        compute = differentiate if accumulate == 1 else in_pieces
        (loss, rest), gradients = compute(state.params, state.rest, batch, noise)
        updates, moments = optimiser.update(gradients, state.optimiser, state.params)
        return TrainState(optax.apply_updates(state.params, updates), rest, moments, state.step + 1), loss

    return train_step


def make_predict(graph: Any) -> Callable[[Any, Any, Batch], tuple[Int[Array, " B"], Float[Array, " B"]]]:
    """The prediction `(params, rest, batch) -> (most likely class, cross-entropy)`, one of each an example."""

    def predict(params: Any, rest: Any, batch: Batch) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
        model = nnx.merge(graph, params, rest)
        logits = model(batch.tokens, real_tokens(batch))
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch.labels)
        return logits.argmax(-1).astype(jnp.int32), loss

    return predict
