#!/usr/bin/env python3
"""Times the ways to write exact dense attention beside each other: one layer, forward and backward, batch 1, float32.

    python scripts/dense_forms.py [length ...]        # 1024 2048 4096 unless given

The forms take turns, so that a machine that slows down slows all of them. Where PyTorch is installed (it is no
dependency), its scaled_dot_product_attention layer is timed too. All use as many threads as this process may use cores.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import jax
from flax import nnx

from lra.layer import layer_step, random_inputs
from lra.timing import compile_program
from models.attention import attend_by_blocks, dense_attention
from models.dense.transformer import Transformer
from models.mixer import AttentionMixer, Sizes

ROUNDS = 7
DIM, HEADS = 256, 4


class Form(AttentionMixer):
    """Projections around one way to write softmax(Q K^T) V."""

    def __init__(self, sizes: Sizes, attention: Callable[..., jax.Array], *, rngs: nnx.Rngs) -> None:
        super().__init__(sizes, rngs=rngs)
        self.attention = attention

    def attend(self, q: Any, k: Any, v: Any, mask: Any, drop: Any) -> jax.Array:
        """All of them without a mask: full length, and PyTorch's has none either."""
        return self.attention(q, k, v)


FORMS: dict[str, Callable[..., jax.Array]] = {
    "jax.nn.dot_product_attention": jax.nn.dot_product_attention,
    "einsum": dense_attention,
    **{f"blocks of {size} queries": partial(attend_by_blocks, block_size=size) for size in (64, 128, 256, 512)},
}


def jax_forms(length: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """By name: one call, waited for, and its bytes of temporary memory."""
    sizes = Sizes(dim=DIM, heads=HEADS, qkv_dim=DIM, mlp_dim=4 * DIM, max_length=length)
    x, mask, cotangent = random_inputs(sizes, 1, length)
    models = {name: Form(sizes, attention, rngs=nnx.Rngs(0)) for name, attention in FORMS.items()}
    made = {}
    for name, model in {**models, "transformer (with mask)": Transformer(sizes, rngs=nnx.Rngs(0))}.items():
        step, state = layer_step(model)
        program = compile_program(step, (*state, x, mask, cotangent))
        run = program.runner()
        temporary = program.compiled.memory_analysis().temp_size_in_bytes
        made[name] = (lambda run=run: jax.block_until_ready(run()), temporary)
    return made


def torch_form(length: int) -> Callable[[], Any] | None:
    """The same layer in PyTorch, None where that is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    projections = [torch.nn.Linear(DIM, DIM, bias=False) for _ in range(4)]
    x, cotangent = torch.randn(1, length, DIM, requires_grad=True), torch.randn(1, length, DIM)

    def run() -> None:
        for tensor in (x, *(projection.weight for projection in projections)):
            tensor.grad = None
        q, k, v = (layer(x).view(1, length, HEADS, -1).transpose(1, 2) for layer in projections[:3])
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        projections[3](attended.transpose(1, 2).reshape(1, length, DIM)).backward(cotangent)

    return run


def main(lengths: list[int]) -> None:
    """Prints one line a form and length."""
    print(f"{jax.devices()[0].device_kind}, {len(os.sched_getaffinity(0))} cores, median of {ROUNDS} interleaved calls")
    for length in lengths:
        forms = jax_forms(length)
        runs = {name: run for name, (run, _) in forms.items()}
        if in_torch := torch_form(length):
            runs["PyTorch SDPA layer"] = in_torch
        times: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(ROUNDS + 1):
            for name, run in runs.items():
                started = time.perf_counter()
                run()
                if number:  # the first round warms up
                    times[name].append(time.perf_counter() - started)
        medians = {name: statistics.median(found) for name, found in times.items()}
        base = medians["einsum"]
        for name, median in medians.items():
            memory = f"{forms[name][1] / 2**20:8,.0f} MiB temporary" if name in forms else ""
            print(
                f"{length:>7,} {name:<30} {1000 * median:8.0f} ms  {median / base:5.2f} x einsum  {memory}", flush=True
            )


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1024, 2048, 4096])
