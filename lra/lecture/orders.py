"""Q K^T V without a softmax in both orders of the products: operations counted, time measured, results compared."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lra.timing import compile_program, time_steps

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
DIMS = (32, 64, 128)
SECONDS = 0.2  # of each measurement, at least


def queries_first(q: Float[Array, "L D"], k: Float[Array, "L D"], v: Float[Array, "L D"]) -> Float[Array, "L D"]:
    """(Q K^T) V, through an L x L matrix: the Transformer's order."""
    return (q @ k.T) @ v


def values_first(q: Float[Array, "L D"], k: Float[Array, "L D"], v: Float[Array, "L D"]) -> Float[Array, "L D"]:
    """Q (K^T V), through a D x D matrix: the Linear Transformer's order."""
    return q @ (k.T @ v)


def orders() -> list[dict[str, Any]]:
    """A point for each length and width. `flops` counts a multiplication and an addition as two."""
    points = []
    for dim in DIMS:
        for length in LENGTHS:
            q, k, v = (jax.random.normal(key, (length, dim)) for key in jax.random.split(jax.random.key(0), 3))
            point: dict[str, Any] = {"length": length, "dim": dim}
            results = []
            for order in (queries_first, values_first):
                program = compile_program(order, (q, k, v))
                times = time_steps(program.runner(), SECONDS)
                median, p10, p90 = (float(np.quantile(times, at)) for at in (0.5, 0.1, 0.9))
                seconds = {"median": median, "p10": p10, "p90": p90}
                point[order.__name__] = {"flops": program.flops, "seconds": seconds}
                results.append(order(q, k, v))
            first, second = results
            point["difference"] = float(jnp.linalg.norm(second - first) / jnp.linalg.norm(first))
            points.append(point)
    return points
