"""The cost that a variant states is what its program multiplies."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from lra.flops import program_flops
from lra.subject import FULL, Subject, apply, attend_inputs
from lra.variants import resolve, variant_names
from models.mixer import Sizes

LENGTH, DIM, HEADS = 4096, 128, 4
SIZES = Sizes(dim=DIM, heads=HEADS, qkv_dim=DIM, mlp_dim=DIM, max_length=LENGTH)
ROUNDING = 1.5  # a window of 129 keys is computed as three blocks of 64


def products(subject: Subject) -> float:
    """Half the multiplications of mixing, without projections."""
    graph, state = nnx.split(nnx.eval_shape(lambda: subject.build(SIZES)))
    x = jax.ShapeDtypeStruct((1, LENGTH, DIM), jnp.float32)
    if subject.cls.cost.startswith(("2 * L * rank", "L * hidden")):  # they mix before `attend`, or have none
        traced = jax.jit(lambda state, x: apply(nnx.merge(graph, state), x, None)).trace(state, x)
        rank = subject.keywords.get("rank")
        projections = 4 * (LENGTH + rank) * DIM**2 if rank else 0  # of queries and outputs, of keys and values
    else:
        inputs = [shape for _, shape in attend_inputs(subject, 1, LENGTH)]
        traced = jax.jit(lambda state, given: nnx.merge(graph, state).attend(*given, None, None)).trace(state, inputs)
        projections = 0
    return (program_flops(traced) - projections) / 4


def stated(subject: Subject) -> float:
    """The cost as the variant states it, with its default keywords."""
    root = math.isqrt(LENGTH)
    defaults = {"stride": root, "block": root, "summary": 8, "clusters": root, "window": LENGTH // root}
    given = {key: value for key, value in subject.keywords.items() if value is not None}
    letters = {"L": LENGTH, "D": DIM, "H": HEADS, "K": DIM // HEADS}
    return eval(subject.cls.cost, {"len": len}, defaults | given | letters)


@pytest.mark.parametrize("name", sorted(set(variant_names()) - {"hybrid"}))
def test_a_stated_cost_is_the_computed_one(name):
    subject = Subject(resolve(name), replace(FULL, sizes=SIZES))
    assert 0.99 <= products(subject) / stated(subject) <= ROUNDING


def test_every_variant_states_its_cost():
    assert all(Subject(resolve(name), FULL).cls.cost for name in variant_names())
