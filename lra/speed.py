"""The child that measures one cell: `python -m lra.speed <work folder> <parent>`.

A cell is one variant, length, batch size, mode and precision, under one of two protocols:
`text`, byte-level text classification, as in Table 2 of the LRA paper (Tay et al. 2020,
https://arxiv.org/abs/2011.04006); `layer`, one mixer by itself. A process of its own, so that peak memory is this
cell's and nobody else's.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

from lra import child
from lra.build import build_classifier, build_mixer, layer_sizes, variant_class
from lra.config import BenchConfig
from lra.hardware import load_average
from lra.layer import layer_step, random_inputs
from lra.record import write_json
from lra.step import TrainState, make_predict, make_train_step, split_model
from lra.subject import fast_jit
from lra.timing import Program, compile_program, measure
from tasks.task import Batch

# Memory in use is then the cell's own, and not three quarters of the card; read when jax first asks for its devices.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

VOCAB_SIZE, NUM_CLASSES = 257, 2  # bytes and padding; positive or negative


def compile_cell(config: BenchConfig, mode: str, length: int) -> Program:
    """Builds what the protocol times and compiles the step `mode` (train or inference) for one length."""
    return (_compile_layer if config.protocol == "layer" else _compile_classifier)(config, mode, length)


def _compile_layer(config: BenchConfig, mode: str, length: int) -> Program:
    speed = config.speed
    extra_tokens = variant_class(config.model).extra_tokens
    sizes = layer_sizes(speed.encoder, length, speed.precision, extra_tokens)
    step, state = layer_step(build_mixer(config.model, sizes, seed=config.seed), mode)
    return compile_program(step, (*state, *random_inputs(sizes, speed.batch_size, length)))


def _compile_classifier(config: BenchConfig, mode: str, length: int) -> Program:
    build = partial(
        build_classifier,
        config.model,
        config.speed.encoder,
        max_length=length,
        vocab_size=VOCAB_SIZE,
        num_classes=NUM_CLASSES,
        precision=config.speed.precision,
        seed=config.seed,
    )
    optimiser = optax.adamw(1e-4)

    def begin() -> tuple[Any, tuple[Any, ...]]:
        graph, params, rest = split_model(build())
        batch = random_batch(config.speed.batch_size, length)
        if mode == "inference":
            return graph, (params, rest, batch)
        return graph, (TrainState(params, rest, optimiser.init(params), jnp.zeros((), jnp.int32)), batch)

    graph, arguments = fast_jit(begin)()
    if mode == "inference":
        return compile_program(make_predict(graph), arguments)
    return compile_program(make_train_step(graph, optimiser, jax.random.key(0)), arguments, advances=True)


def random_batch(batch_size: int, length: int) -> Batch:
    """Full-length random bytes, made on the device."""
    key = jax.random.key(0)
    return Batch(
        tokens=jax.random.randint(key, (batch_size, length), 1, VOCAB_SIZE),
        lengths=jnp.full((batch_size,), length, jnp.int32),
        labels=jax.random.randint(key, (batch_size,), 0, NUM_CLASSES),
    )


def measure_cell(config: BenchConfig, mode: str, length: int) -> dict[str, Any]:
    """One cell of the speed file."""
    program = compile_cell(config, mode, length)
    measured = measure(program, seconds=config.speed.seconds, dtype=jnp.dtype(config.speed.precision.value))
    return measured | {
        "sequences_per_second": config.speed.batch_size / measured["step_seconds"]["median"],
        "simulated": variant_class(config.model).simulated,
        "load_average": load_average(),
    }


def work(folder: Path, specification: dict[str, Any]) -> tuple[str, None]:
    """Measures the cell of `specification` and leaves result.json."""
    config = child.load_config(specification["config"])
    write_json(folder / child.RESULT_FILE, measure_cell(config, specification["mode"], specification["length"]))
    return "complete", None


if __name__ == "__main__":
    child.run(work)
