"""The table of variants: one row each. Every row gets every test of `test_variants.py` and `test_conformance.py`.

A row has small keywords for tests and the golden files that hold the variant's pure function against implementations
which nobody here wrote (what the files hold: `tests/golden/README.md`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from models.attention import dense_attention
from models.kernels.kernel_attention import kernel_attention
from models.kernels.linear_transformer import elu_plus_one
from models.kernels.performer import performer_attention
from models.patterns.bigbird import bigbird_attention
from models.patterns.local import local_attention

Arrays = Mapping[str, Array]


class Tolerance(NamedTuple):
    """Largest absolute difference of outputs and of gradients; None: not compared."""

    out: float
    grad: float | None


FLOAT64 = Tolerance(1e-9, 1e-8)
FLOAT32 = Tolerance(2e-5, 2e-4)


@dataclass(frozen=True)
class Golden:
    """One golden file and how the variant's pure function reads it.

    Attributes:
        file: name without `.npz`.
        run: the arrays of the file to the output.
        rows: what is compared: "all"; "real", positions whose mask is True (the file has zeros at the others); "full",
            examples without padding (the file has another convention of padding).
        examples: numbers of the examples that are compared; None: all.
        output: name of the stored output.
        float64, float32: tolerances; None: not compared in that precision.
    """

    file: str
    run: Callable[[Arrays], Array]
    rows: str = "all"
    examples: tuple[int, ...] | None = None
    output: str = "out"
    float64: Tolerance | None = FLOAT64
    float32: Tolerance | None = FLOAT32


@dataclass(frozen=True)
class Row:
    """One variant.

    Attributes:
        target: dotted path of the class.
        toy: own keywords small enough for sequences of 12 to 64 tokens; blocks of 4.
        golden: files that the pure function agrees with.
        options: further keywords, each set put over `toy`, that the quick rules are also held for.
    """

    target: str
    toy: dict[str, Any] = field(default_factory=dict)
    golden: list[Golden] = field(default_factory=list)
    options: list[dict[str, Any]] = field(default_factory=list)


def _dense(**keywords: Any) -> Callable[[Arrays], Array]:
    def run(a: Arrays) -> Array:
        return dense_attention(
            a["q"], a["k"], a["v"], a.get("mask"), pairs=a.get("pair_mask"), bias=a.get("bias"), **keywords
        )

    return run


def _local(**keywords: Any) -> Callable[[Arrays], Array]:
    return lambda a: local_attention(a["q"], a["k"], a["v"], a.get("mask"), **keywords)


def _bigbird(block_size: int) -> Callable[[Arrays], Array]:
    def run(a: Arrays) -> Array:
        # the files name blocks for the inner rows only
        chosen = jnp.pad(a["rand_blocks"], ((0, 0), (1, 1), (0, 0)), constant_values=-1)[None]
        return bigbird_attention(a["q"], a["k"], a["v"], a.get("mask"), chosen, block_size=block_size)

    return run


def _linear(a: Arrays) -> Array:
    return kernel_attention(elu_plus_one(a["q"]), elu_plus_one(a["k"]), a["v"], a.get("mask"))


def _performer(kernel: str) -> Callable[[Arrays], Array]:
    return lambda a: performer_attention(a["q"], a["k"], a["v"], a.get("mask"), a["proj"], kernel=kernel)


VARIANTS: dict[str, Row] = {
    "transformer": Row(
        "models.dense.transformer.Transformer",
        golden=[
            *(Golden(f"softmax_{case}", _dense()) for case in ("plain_L16", "plain_L37", "pad_L24", "fullmask_L20")),
            Golden("softmax_scale_bias_L16", _dense(scale=0.25)),
        ],
    ),
    "local": Row(
        "models.patterns.local.Local",
        toy={"window": 4},
        golden=[
            Golden("local_b0f0_L32_w8", _local(block_size=8, neighbours=0)),
            Golden("local_b1f1_L32_w8", _local(block_size=8)),
            Golden("local_b1f1_exact_L32_w8", _local(block_size=8, window=8)),
            # its example 1 has queries without keys, where the peer averages over values of -1
            Golden("local_b1f1_allmasked_L40_w8", _local(block_size=8), examples=(0,)),
        ],
        options=[{"blocks": True}, {"blocks": True, "neighbours": 1}],
    ),
    "bigbird": Row(
        "models.patterns.bigbird.BigBird",
        toy={"block_size": 4, "random_blocks": 2},
        golden=[
            Golden("bigbird_L48_b4_r2", _bigbird(4)),
            Golden("bigbird_L64_b8_r1", _bigbird(8)),
            # the peer's last block is the padded length's, ours the real length's
            Golden("bigbird_pad_L48_b4_r2", _bigbird(4), rows="real", examples=(0,)),
        ],
    ),
    "linear_transformer": Row(
        "models.kernels.linear_transformer.LinearTransformer",
        golden=[Golden("linear_elu_L32", _linear), Golden("linear_elu_L64", _linear)],
    ),
    "performer": Row(
        "models.kernels.performer.Performer",
        toy={"features": 16},
        golden=[
            Golden("favor_softmax_L32_m16", _performer("softmax")),
            Golden("favor_softmax_L64_m32", _performer("softmax")),
            # the peer's largest exponent is that of padding too
            Golden("favor_softmax_pad_L32_m16", _performer("softmax"), rows="full"),
            Golden("favor_relu_L32_m16", _performer("relu")),
            Golden("favor_relu_pad_L32_m16", _performer("relu")),
        ],
        options=[{"kernel": "relu"}, {"kernel": "relu", "features": 0}, {"redraw": 10}],
    ),
}
