"""The table of variants: one row each. Every row gets every test of `test_variants.py` and `test_conformance.py`.

A row has small keywords for tests and the golden files that hold the variant's pure function against implementations
which nobody here wrote (what the files hold: `tests/golden/README.md`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from models.attention import dense_attention
from models.attention_free.mlp_mixer import mix_tokens
from models.kernels.kernel_attention import kernel_attention
from models.kernels.linear_transformer import elu_plus_one
from models.kernels.performer import performer_attention
from models.learned.reformer import lsh_attention, lsh_buckets
from models.learned.routing import routing_attention
from models.learned.sinkhorn import sinkhorn, sinkhorn_attention, sorting_logits
from models.low_rank.compressed import compressed_attention
from models.low_rank.linformer import linformer_attention
from models.patterns.bigbird import bigbird_attention
from models.patterns.local import local_attention
from models.patterns.longformer import longformer_attention
from models.patterns.sparse_transformer import sparse_attention
from models.synthetic import synthesizer
from models.synthetic.synthesizer import Part, synthesizer_attention

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


def _sparse(**keywords: Any) -> Callable[[Arrays], Array]:
    return lambda a: sparse_attention(a["q"], a["k"], a["v"], a.get("mask"), causal=True, **keywords)


def _longformer(*global_tokens: int) -> Callable[[Arrays], Array]:
    def run(a: Arrays) -> Array:
        positions: dict[str, Any] = {"reach": 4, "dilation": (1, 1), "global_tokens": global_tokens}
        own = [a[name] for name in ("qg", "kg", "vg") if global_tokens]
        return longformer_attention(a["q"], a["k"], a["v"], a.get("mask"), **positions, global_inputs=own)

    return run


def _bigbird(block_size: int) -> Callable[[Arrays], Array]:
    def run(a: Arrays) -> Array:
        # the files name blocks for the inner rows only
        chosen = jnp.pad(a["rand_blocks"], ((0, 0), (1, 1), (0, 0)), constant_values=-1)[None]
        return bigbird_attention(a["q"], a["k"], a["v"], a.get("mask"), chosen, block_size=block_size)

    return run


def _linear(a: Arrays) -> Array:
    return kernel_attention(a["q"], a["k"], a["v"], a.get("mask"), elu_plus_one, elu_plus_one)


def _performer(kernel: str) -> Callable[[Arrays], Array]:
    return lambda a: performer_attention(a["q"], a["k"], a["v"], a.get("mask"), a["proj"], kernel=kernel)


def _synthesizer(*parts: Callable[[Arrays], Part]) -> Callable[[Arrays], Array]:
    return lambda a: synthesizer_attention([part(a) for part in parts], a["v"])


def _random(a: Arrays) -> Part:
    return synthesizer.random(a["R"], 32)


def _factorized_random(a: Arrays) -> Part:
    return synthesizer.factorized_random(a["R1"], a["R2"], 32)


def _synthetic_dense(a: Arrays) -> Part:
    return synthesizer.dense(*(a[name] for name in ("x", "W1", "b1", "W2", "b2")))


def _factorized_dense(a: Arrays) -> Part:
    return synthesizer.factorized_dense(*(a[name] for name in ("x", "W1", "b1", "WA", "bA", "WB", "bB")))


def _dot(a: Arrays) -> Part:
    return synthesizer.dot(a["q"], a["k"])


def _mlp_mixer(a: Arrays) -> Array:
    # the file has the normalisation and the residual connection of the layer around
    x = a["x"]
    spread = jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    normed = (x - x.mean(-1, keepdims=True)) / spread * a["ln_g"][None, None] + a["ln_b"][None, None]
    return x + mix_tokens(normed, None, a["W1"], a["b1"], a["W2"], a["b2"])


def _reformer(chunk_size: int, *, per_head: bool = True, hugging_face: bool = False) -> Callable[[Arrays], Array]:
    def run(a: Arrays) -> Array:
        rotations = a["rotations"] if per_head else a["rotations"][None]
        # Hugging Face does not scale the scores and adds 1e-6 to the mean of the squares
        convention: dict[str, Any] = {"scale": 1.0, "epsilon": 1e-6 * a["qk"].shape[3]} if hugging_face else {}
        buckets = lsh_buckets(a["qk"], rotations)
        return lsh_attention(a["qk"], a["v"], a.get("mask"), buckets, chunk_size=chunk_size, **convention)

    return run


def _reformer_one_chunk(a: Arrays) -> Array:
    return _reformer(8, hugging_face=True)({**a, "rotations": jnp.ones((2, 8, 1, 1), a["qk"].dtype)})


def _routing(a: Arrays) -> Array:
    return routing_attention(a["q"], a["k"], a["v"], None, a["means"], window=8, epsilon=1e-5)


def _sinkhorn(sorting: Callable[[Arrays], Array], *, doubly_stochastic: bool = True) -> Callable[[Arrays], Array]:
    """The peer begins with relu(x) where the paper and `sinkhorn` have exp(x), so it is given log(relu(x))."""

    def run(a: Arrays) -> Array:
        logits = sorting(a)
        if doubly_stochastic:
            noise = a["gumbel"].reshape(logits.shape)
            shares = sinkhorn((jnp.log(jax.nn.relu(logits) + 1e-6) + noise) / 0.75, iterations=5)
        else:
            shares = jax.nn.softmax(logits) * jax.nn.one_hot(logits.argmax(-1), logits.shape[-1], dtype=logits.dtype)
        return sinkhorn_attention(a["q"], a["k"], a["v"], None, shares, block_size=8)

    return run


def _summed_blocks(a: Arrays) -> Array:
    return sorting_logits(a["q"], a["k"], None, a["W"] * 8**0.5, block_size=8)  # the peer's summary is the plain sum


def _mean_blocks(a: Arrays) -> Array:
    q, k = (a[name].reshape(2, 4, 8, 2, 8).mean(2) for name in ("q", "k"))
    return jnp.einsum("bnhk,bmhk->bhnm", q, k) * 8**-0.5


def _linformer(a: Arrays) -> Array:
    k, v = (jnp.broadcast_to(a[name], a["q"].shape) for name in ("k", "v"))  # one file has one head of them
    return linformer_attention(a["q"], k, v, a.get("mask"), a["E"], a.get("F", a["E"]))


def _linformer_shared(a: Arrays) -> Array:
    return linformer_attention(a["q"], a["k"], a["v"], None, a["E"], a["E"])


def _compressed(a: Arrays) -> Array:
    heads, width, factor = a["q"].shape[2], a["q"].shape[3], a["conv_w"].shape[2]
    # the peer fills up in front, and scales by the model dim
    k, v = (jnp.pad(a[name], ((0, 0), (-a[name].shape[1] % factor, 0), (0, 0), (0, 0))) for name in ("k", "v"))
    kernel = a["conv_w"].reshape(heads, width, width, factor).transpose(3, 0, 2, 1)
    per_head = (a[name].reshape(heads, width) for name in ("conv_b", "null_k", "null_v"))
    return compressed_attention(a["q"], k, v, None, kernel, *per_head, scale=(heads * width) ** -0.5)


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
            Golden("local_b1f0_causal_L32_w8", _local(block_size=8, causal=True)),
            Golden("local_b1f0_causal_exact_L32_w8", _local(block_size=8, window=8, causal=True)),
            # its example 1 has queries without keys, where the peer averages over values of -1
            Golden("local_b1f1_allmasked_L40_w8", _local(block_size=8), examples=(0,)),
        ],
        options=[{"blocks": True}, {"blocks": True, "neighbours": 1}],
    ),
    "strided": Row("models.patterns.strided.Strided", toy={"stride": 4}, options=[{"reach": 2}]),
    "global_tokens": Row("models.patterns.global_tokens.GlobalTokens", toy={"tokens": 4}),
    "sparse_transformer": Row(
        "models.patterns.sparse_transformer.SparseTransformer",
        toy={"block": 4},
        golden=[
            # every head of these files sees the union, but for the first
            Golden("sparse_fixed_A2_causal_L37", _sparse(part="A2", pattern="fixed", block_size=8, summary=2)),
            Golden("sparse_fixed_causal_L37", _sparse(part="both", pattern="fixed", block_size=8, summary=2)),
            Golden(
                "sparse_fixed_lra_causal_L64",
                _sparse(part="both", pattern="fixed", block_size=8, summary=2, first=True),
            ),
            Golden("sparse_strided_causal_L16", _sparse(part="both", pattern="strided", block_size=4)),
            Golden("sparse_strided_causal_L37_pad", _sparse(part="both", pattern="strided", block_size=8)),
        ],
        options=[{"kind": "strided"}, {"lra": True, "class_token": True}],
    ),
    "longformer": Row(
        "models.patterns.longformer.Longformer",
        toy={"window": 8},
        golden=[
            Golden("longformer_global_L32_w8", _longformer(0, 13)),
            Golden("longformer_local_L32_w8", _longformer()),
            Golden("longformer_local_pad_L40_w8", _longformer(), rows="real"),
        ],
        options=[{"global_tokens": [0, 5], "dilation": [1, 2]}],
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
    "hybrid": Row(
        "models.patterns.hybrid.Hybrid",
        toy={
            "heads": ["local", "global_tokens"],
            "options": {"local": {"window": 4}, "global_tokens": {"tokens": 4}},
        },
    ),
    "reformer": Row(
        "models.learned.reformer.Reformer",
        toy={"chunk_size": 4},
        golden=[
            Golden("reformer_hf_L32_c8_h1_b8", _reformer(8, hugging_face=True)),
            Golden("reformer_hf_L32_c8_h2_b8", _reformer(8, hugging_face=True)),
            Golden("reformer_hf_short_L8_c8", _reformer_one_chunk),
            # the peer's last chunk is the padded length's, ours the real length's
            Golden("reformer_hf_pad_L32_c8_h2_b8", _reformer(8, hugging_face=True), rows="full"),
            Golden("reformer_rp_L32_bs4_h1", _reformer(4, per_head=False)),
        ],
        options=[{"rounds": 1}],
    ),
    "routing": Row(
        "models.learned.routing.Routing",
        toy={"clusters": 4, "window": 6},
        golden=[Golden("routing_L32_c4_w8", _routing)],
    ),
    "sinkhorn": Row(
        "models.learned.sinkhorn.Sinkhorn",
        toy={"block_size": 4},
        golden=[
            Golden("sinkhorn_gumbel_L32_b8", _sinkhorn(_mean_blocks)),
            Golden("sinkhorn_simple_L32_b8", _sinkhorn(_summed_blocks)),
            Golden("sinkhorn_top1_L32_b8", _sinkhorn(_mean_blocks, doubly_stochastic=False)),
        ],
    ),
    "linformer": Row(
        "models.low_rank.linformer.Linformer",
        toy={"rank": 8},
        golden=[
            *(Golden(f"linformer_{case}_L32_k8", _linformer) for case in ("allmasked", "onekv")),
            Golden("linformer_L32_k8", _linformer),
            Golden("linformer_sharedEF_L32_k8", _linformer_shared),
        ],
        options=[{"shared": True}],
    ),
    "compressed": Row(
        "models.low_rank.compressed.Compressed",
        golden=[Golden("memcomp_L32_cf3", _compressed), Golden("memcomp_L32_cf4", _compressed)],
        options=[{"local_heads": 1, "window": 4}],
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
    "synthesizer": Row(
        "models.synthetic.synthesizer.Synthesizer",
        toy={"rank": 4},
        golden=[
            Golden("synth_random_L32", _synthesizer(_random)),
            Golden("synth_frandom_L32_k8", _synthesizer(_factorized_random)),
            Golden("synth_dense_L32", _synthesizer(_synthetic_dense)),
            Golden("synth_fdense_outer_L32", _synthesizer(_factorized_dense)),
            Golden("synth_random_plus_dot_L32", _synthesizer(_random, _dot)),
        ],
        options=[{"forms": ["random", "dot"]}, {"forms": ["dense"]}, {"forms": ["factorized_dense"]}],
    ),
    "mlp_mixer": Row(
        "models.attention_free.mlp_mixer.MLPMixer",
        toy={"hidden": 16},
        golden=[Golden("mixer_token_L16_d12", _mlp_mixer)],
    ),
}
