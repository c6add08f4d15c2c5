"""`python -m lra.plan model=bigbird preset=lra`: compiles the full-size step and does not run it.

Parameters, matrix operations a step, and the memory of the program that this machine's compiler makes; no array of the
model is ever allocated. `growth=true` compiles one layer at 1K to 16K instead (`lra.growth`).
"""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from lra import child, growth
from lra.build import build_classifier, parameter_count
from lra.config import BenchConfig, compose_run, parse
from lra.console import console, table
from lra.errors import BadInput
from lra.flops import program_flops
from lra.optimiser import build_optimiser
from lra.options import take
from lra.step import TrainState, make_train_step, split_model
from lra.timing import compiled_bytes
from tasks.errors import DataError
from tasks.task import Batch


class Plan(NamedTuple):
    """What one training step takes: parameters, matrix operations, bytes of temporary and of all memory."""

    parameters: int
    flops: float
    temp_bytes: int | None
    total_bytes: int | None


def plan(config: BenchConfig, sizes: dict[str, Any]) -> Plan:
    """Compiles the training step of one run for inputs of `sizes` (max_length, vocab_size, num_classes, paired)."""
    train = config.train
    options: dict[str, Any] = {"precision": train.precision, "rematerialise": train.rematerialise}
    model = nnx.eval_shape(lambda: build_classifier(config.model, config.encoder, **options, **sizes))
    graph, params, rest = split_model(model)
    optimiser = build_optimiser(config.train)
    state = TrainState(params, rest, jax.eval_shape(optimiser.init, params), jax.ShapeDtypeStruct((), jnp.int32))
    documents = (config.train.batch_size, *((2,) if sizes["paired"] else ()))
    batch = Batch(
        tokens=jax.ShapeDtypeStruct((*documents, sizes["max_length"]), jnp.int32),
        lengths=jax.ShapeDtypeStruct(documents, jnp.int32),
        labels=jax.ShapeDtypeStruct(documents[:1], jnp.int32),
    )
    step = jax.jit(make_train_step(graph, optimiser, jax.random.key(0), train.accumulate), donate_argnums=0)
    traced = step.trace(state, batch)
    return Plan(parameter_count(model), program_flops(traced), *compiled_bytes(traced.lower().compile()))


def main(arguments: Sequence[str]) -> int:
    """Plans every run of a command line; returns the exit code."""
    try:
        options, others = take(arguments, {"growth": bool})
        if options["growth"]:
            return growth.main(others)
        request = parse(others)
        runs = [(overrides, compose_run(overrides)) for overrides in request.runs()]
        figures = ("length", "batch", "parameters", "GFLOP a step", "MiB temporary", "MiB in all")
        title = f"One training step, compiled for {jax.default_backend()} and not run"
        plans = table(title, ("variant", "task", "preset"), figures)
        for overrides, config in runs:
            variant, task, preset = (text.partition("=")[2] for text in overrides[:3])
            sizes = {**child.task_shape(config.task), "max_length": config.task["max_length"]}
            took = plan(config, sizes)
            memory = ("" if size is None else f"{size / 2**20:,.0f}" for size in (took.temp_bytes, took.total_bytes))
            size = (f"{sizes['max_length']:,}", str(config.train.batch_size), f"{took.parameters:,}")
            plans.add_row(variant, task, preset, *size, f"{took.flops / 1e9:,.1f}", *memory)
    except (BadInput, DataError) as problem:
        print(f"lra.plan: {problem}", file=sys.stderr)
        return 2
    console().print(plans)
    console().print("Memory is that of the program this backend's compiler makes; another backend's will differ.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
