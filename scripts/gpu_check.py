#!/usr/bin/env python3
"""Times layers, dense forms and a training step on an accelerator by the code that measures everywhere else.

Called by gpu_check.sh. Needs jax, flax, optax and numpy. Cells have the fields of a speed file; one that fails, or
finds no memory, says so and the rest goes on.
"""

import argparse
import importlib
import itertools
import json
import subprocess
import sys
import types
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

VARIANTS = {
    "transformer": "models.dense.transformer.Transformer",
    "local": "models.patterns.local.Local",
    "bigbird": "models.patterns.bigbird.BigBird",
    "linear_transformer": "models.kernels.linear_transformer.LinearTransformer",
    "performer": "models.kernels.performer.Performer",
}
MINUTES = 10  # after which a cell is stopped
LAYER = {"dim": 256, "heads": 4, "qkv_dim": 256, "mlp_dim": 1024}  # as in the presets lra and paper
LAYERS, VOCAB_SIZE = 4, 257


def provide_annotations() -> None:
    """Lets the models be imported where jaxtyping, which only writes shapes into annotations, is not installed."""
    try:
        import jaxtyping  # noqa: F401
    except ImportError:
        anything = type("Anything", (), {"__class_getitem__": classmethod(lambda cls, item: Any)})
        stand_in: Any = types.ModuleType("jaxtyping")
        stand_in.__getattr__ = lambda name: anything
        sys.modules["jaxtyping"] = stand_in


def main() -> None:
    """Measures the cell that the command line gives, or starts every cell and prints all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="1024,4096,16384", help="of layers and dense forms")
    parser.add_argument("--step-lengths", default="1024,4096", help="of the training step")
    parser.add_argument("--batch-size", type=int, default=32, help="of the training step")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seconds", type=float, default=2.0, help="to repeat each cell for")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        provide_annotations()
        print(json.dumps(measure_cell(json.loads(options.cell), options.seconds)))
        return
    packages = ("jax", "jaxlib", "flax", "optax", "numpy")
    found = {"software": {name: version(name) for name in packages}, "cells": []}
    for cell in cells(options):
        found["cells"].append(cell | run_cell(cell, options.seconds))
        print(json.dumps(found["cells"][-1]), file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))
    sys.exit(0 if all(cell["status"] == "complete" for cell in found["cells"]) else 3)


def cells(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Layers of all variants, ways to write dense attention, one classifier's training step; in both precisions."""
    lengths, step_lengths = ([int(n) for n in text.split(",")] for text in (options.lengths, options.step_lengths))
    variants = options.variants.split(",")
    forms = ("dot_product_attention", "cudnn", "einsum", "blocks", "blocks in turn")
    for length, precision in itertools.product(lengths, ("float32", "bfloat16")):
        work: dict[str, Any] = {"mode": "train", "length": length, "precision": precision, "batch_size": 1}
        yield from ({"protocol": "layer", "variant": name, **work} for name in variants)
        yield from ({"protocol": "dense form", "variant": name, **work} for name in forms if fits(name, precision))
    for length, precision, name in itertools.product(step_lengths, ("float32", "bfloat16"), variants):
        work = {"mode": "train", "length": length, "precision": precision, "batch_size": options.batch_size}
        yield {"protocol": "text", "variant": name, **work}


def fits(form: str, precision: str) -> bool:
    """Whether a dense form exists in this precision and on this machine: cuDNN's is for half precision on a GPU."""
    return form != "cudnn" or (precision == "bfloat16" and Path("/dev/nvidiactl").exists())


def run_cell(cell: dict[str, Any], seconds: float) -> dict[str, Any]:
    """One cell in a process of its own."""
    command = [sys.executable, __file__, "--cell", json.dumps(cell), "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * MINUTES)
    except subprocess.TimeoutExpired:
        return {"status": "timed_out"}
    if done.returncode == 0:
        return {"status": "complete", **json.loads(done.stdout.splitlines()[-1])}
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    out_of_memory = "RESOURCE_EXHAUSTED" in done.stderr or "Out of memory" in done.stderr
    return {"status": "out_of_memory" if out_of_memory else "failed", "error": last[:300]}


def measure_cell(cell: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Compiles and measures one cell in this process."""
    import jax.numpy as jnp

    from lra.timing import measure

    program = compile_step(cell) if cell["protocol"] == "text" else compile_layer(cell)
    measured = measure(program, seconds=seconds, dtype=jnp.dtype(cell["precision"]))
    return measured | {"sequences_per_second": cell["batch_size"] / measured["step_seconds"]["median"]}


def variant_class(name: str) -> Any:
    """The class of a variant."""
    module, _, found = VARIANTS[name].rpartition(".")
    return getattr(importlib.import_module(module), found)


def compile_layer(cell: dict[str, Any]) -> Any:
    """One mixer, or one way to write dense attention, forward and backward."""
    import jax.numpy as jnp
    from flax import nnx

    from lra.layer import layer_step, random_inputs
    from lra.timing import compile_program
    from models.mixer import Sizes

    sizes = Sizes(**LAYER, max_length=cell["length"], dtype=jnp.dtype(cell["precision"]))
    make = dense_form(cell["variant"]) if cell["protocol"] == "dense form" else variant_class(cell["variant"])
    step, state = layer_step(make(sizes, rngs=nnx.Rngs(0)))
    return compile_program(step, (*state, *random_inputs(sizes, cell["batch_size"], cell["length"])))


def dense_form(name: str) -> Any:
    """A mixer around one way to write dense attention."""
    import jax
    from dense_forms import Form

    from models.attention import attend_by_blocks, dense_attention

    forms = {
        "dot_product_attention": jax.nn.dot_product_attention,
        "cudnn": partial(jax.nn.dot_product_attention, implementation="cudnn"),
        "einsum": dense_attention,
        "blocks": attend_by_blocks,
        "blocks in turn": partial(attend_by_blocks, in_turn=True),
    }
    return partial(Form, attention=forms[name])


def compile_step(cell: dict[str, Any]) -> Any:
    """The training step of a classifier of bytes, as a speed cell of the presets lra and paper times it."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    from lra.step import TrainState, make_train_step, split_model
    from lra.timing import compile_program
    from models.classifier import Classifier
    from models.mixer import Sizes
    from tasks.task import Batch

    length, batch_size, key = cell["length"], cell["batch_size"], jax.random.key(0)
    rates = {"dropout": 0.1, "attention_dropout": 0.1}
    sizes = Sizes(**LAYER, **rates, max_length=length + 1, dtype=jnp.dtype(cell["precision"]))
    outside = {"layers": LAYERS, "vocab_size": VOCAB_SIZE, "num_classes": 2, "pooling": "cls", "paired": False}
    model = Classifier(
        variant_class(cell["variant"]), sizes, **outside, positions="sinusoidal", rngs=nnx.Rngs(params=key)
    )
    graph, params, rest = split_model(model)
    batch = Batch(
        tokens=jax.random.randint(key, (batch_size, length), 1, VOCAB_SIZE),
        lengths=jnp.full((batch_size,), length, jnp.int32),
        labels=jax.random.randint(key, (batch_size,), 0, 2),
    )
    optimiser = optax.adamw(1e-4)
    state = TrainState(params, rest, optimiser.init(params), jnp.zeros((), jnp.int32))
    return compile_program(make_train_step(graph, optimiser, key), (state, batch), advances=True)


if __name__ == "__main__":
    main()
