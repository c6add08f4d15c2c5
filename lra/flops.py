"""Floating point operations of a program, counted from its own operations with the trip counts of its loops.

XLA's count takes the body of a loop once, so a scanned or chunked variant would look cheaper than it is. Counted here
are matrix products, convolutions and Fourier transforms: what the peak of a device is stated in.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def program_flops(traced: jax.stages.Traced) -> float:
    """Operations of one call of a traced program, `jax.jit(f).trace(*arguments)`.

    A branch counts as its dearest side; raises ValueError for a loop whose trip count the program does not state.
    """
    return _flops(traced.jaxpr.jaxpr)


def _flops(jaxpr: Jaxpr) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "dot_general":
            total += _dot(equation)
        elif name == "conv_general_dilated":
            total += _convolution(equation)
        elif name == "fft":
            total += _fourier(equation)
        elif name == "scan":
            total += parameters["length"] * _flops(parameters["jaxpr"].jaxpr)
        elif name == "cond":
            total += max(_flops(branch.jaxpr) for branch in parameters["branches"])
        else:
            inner = sum(_flops(part) for part in inner_programs(parameters))
            if name == "while" and inner:
                raise ValueError("a while loop does not state its trip count; use jax.lax.scan or a static fori_loop")
            total += inner
    return total


def inner_programs(parameters: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs that an operation with these parameters runs."""
    for value in parameters.values():
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part


def _dot(equation: Any) -> float:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> float:
    kernel, numbers = equation.invars[1].aval.shape, equation.params["dimension_numbers"]
    outputs = kernel[numbers.rhs_spec[0]]
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) / outputs


def _fourier(equation: Any) -> float:
    """5 n log2 n a complex transform of n points, half of it a real one (the customary count)."""
    lengths = equation.params["fft_lengths"]
    points = math.prod(lengths)
    shape = max((equation.invars[0].aval.shape, equation.outvars[0].aval.shape), key=math.prod)
    transforms = math.prod(shape[: -len(lengths)])
    real = equation.params["fft_type"].name in ("RFFT", "IRFFT")
    return transforms * 5 * points * math.log2(max(points, 2)) * (0.5 if real else 1)
