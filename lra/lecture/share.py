"""How much of a Transformer's training step the attention itself takes, against the length."""

from typing import Any

import numpy as np

from lra.config import Pooling, compose_run
from lra.speed import compile_cell
from lra.timing import time_steps
from models.mixer import AttentionMixer, Growth

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
SECONDS = 0.5  # of each measurement, at least


class WithoutAttention(AttentionMixer):
    """The Transformer's mixer with all its projections, but no token sees another."""

    family = "user"
    growth = Growth(1, 1)
    drops_weights = False

    def attend(self, q, k, v, mask, drop):
        return q + k + v


def shares(preset: str, lengths: tuple[int, ...] = LENGTHS, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Training steps of the speed protocol, with attention and without: a step's seconds and matrix operations.

    The projections stay in both, so that the difference is what grows with the square of the length.
    """
    names = {
        "with_attention": "models.dense.transformer.Transformer",
        "without_attention": f"{WithoutAttention.__module__}.{WithoutAttention.__name__}",
    }
    config = compose_run(["model=transformer", "task=listops", f"preset={preset}", "seed=0"])
    config.speed.encoder.pooling = Pooling.mean  # a class token would need one more block of queries for itself
    points = []
    for length in lengths:
        point: dict[str, Any] = {"length": length}
        for name, target in names.items():
            config.model = {"_target_": target}
            program = compile_cell(config, "train", length)
            times = time_steps(program.runner(), seconds)
            median, p10, p90 = (float(np.quantile(times, at)) for at in (0.5, 0.1, 0.9))
            point[name] = {"flops": program.flops, "seconds": {"median": median, "p10": p10, "p90": p90}}
        points.append(point)
    encoder = config.speed.encoder
    sizes = {"layers": encoder.layers, "dim": encoder.dim, "heads": encoder.heads, "mlp_dim": encoder.mlp_dim}
    return {"batch_size": config.speed.batch_size, "encoder": sizes, "points": points}
