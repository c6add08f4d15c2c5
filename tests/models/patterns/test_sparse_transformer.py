"""Sparse Transformer: its masks are those of the paper's formulas, written by somebody else, and its default sizes."""

from pathlib import Path

import numpy as np
import pytest
from flax import nnx

from models.mixer import Sizes
from models.patterns.sparse_transformer import SparseTransformer

GOLDEN = Path(__file__).parents[2] / "golden"
MASKS = [(path.stem, *(int(part[1:]) for part in path.stem.split("_")[2:])) for path in GOLDEN.glob("sparse_masks_*")]


def build(heads: int = 2, length: int = 64, **keywords: object) -> SparseTransformer:
    sizes = Sizes(dim=8, heads=heads, qkv_dim=4 * heads, mlp_dim=8, max_length=length)
    return SparseTransformer(sizes, **keywords, rngs=nnx.Rngs(0))  # type: ignore[arg-type]


@pytest.mark.parametrize(("file", "length", "block", "summary"), sorted(MASKS))
def test_patterns_are_the_recorded_masks(file: str, length: int, block: int, summary: int) -> None:
    with np.load(GOLDEN / f"{file}.npz") as masks:
        names = sorted(set(masks.files) - {"meta", "local_lra_causal"})  # the last is LRA's window of another pattern
        assert len(names) == 15
        for name in names:
            kind, *flags = name.split("_")
            mixer = build(
                length=length,
                kind=kind,
                block=block,
                summary=summary,
                causal="causal" in flags,
                lra="lra" in flags,
                class_token="cls" in flags,
            )
            mixer.causal = "causal" in flags
            parts = [part for part in ("A1", "A2") if part in flags] or ["both"]
            mixer.parts = tuple(parts * 2)
            np.testing.assert_array_equal(mixer.pattern(length), np.stack([masks[name]] * 2), err_msg=name)


@pytest.mark.parametrize(
    ("length", "block", "summary"), [(1, 1, 1), (64, 8, 2), (1000, 32, 8), (4096, 64, 8), (16384, 128, 8)]
)
def test_default_block_is_the_root_of_the_length(length: int, block: int, summary: int) -> None:
    mixer = build(length=length)
    assert (mixer.block, mixer.summary) == (block, summary)


@pytest.mark.parametrize(("heads", "parts"), [(1, ["both"]), (2, ["A1", "A2"]), (3, ["A1", "A1", "A2"])])
def test_heads_are_split_between_the_parts(heads: int, parts: list[str]) -> None:
    assert list(build(heads=heads, length=16).parts) == parts


def test_a_causal_class_token_sees_everything_only_when_it_is_named() -> None:
    assert build(lra=True, class_token=True).pattern(64)[0, 0].all()
    assert build(lra=True).pattern(64)[0, 0].sum() == 1


@pytest.mark.parametrize("keywords", [{"kind": "random"}, {"block": 4, "summary": 5}])
def test_refuses_what_makes_no_pattern(keywords: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"random|5 tokens"):
        build(**keywords)  # type: ignore[arg-type]
