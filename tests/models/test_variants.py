"""Golden files: every variant's pure function against numbers from implementations that nobody here wrote."""

import inspect
import json
from functools import cache
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from models.mixer import Layer, Mixer
from tests.models.variants import VARIANTS, Golden, Row

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIGS = Path(__file__).parents[2] / "configs" / "model"
CASES = [(name, golden) for name, row in VARIANTS.items() for golden in row.golden]
SHORT_CASES = [
    pytest.param(name, golden, id=golden.file, marks=[pytest.mark.slow] if number else [])
    for name, row in VARIANTS.items()
    for number, golden in enumerate(golden for golden in row.golden if golden.float32)
]


def variant_class(row: Row) -> type:
    module, name = row.target.rsplit(".", 1)
    return getattr(import_module(module), name)


@cache
def stored(file: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{file}.npz") as archive:
        return {name: archive[name] for name in archive.files if name != "meta"}


def compared_examples(golden: Golden, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Which examples are compared, bool [B]."""
    count = len(arrays[golden.output])
    chosen = np.isin(np.arange(count), range(count) if golden.examples is None else golden.examples)
    if golden.rows == "full":
        chosen &= arrays["mask"].all(1)
    assert chosen.any(), "nothing would be compared"
    return chosen


def check_golden(golden: Golden, dtype: type) -> None:
    arrays = stored(golden.file)
    tolerance = golden.float64 if dtype is np.float64 else golden.float32
    assert tolerance is not None
    examples = compared_examples(golden, arrays)
    rows = np.broadcast_to(examples[:, None], arrays[golden.output].shape[:2])
    if golden.rows == "real":
        rows = rows & arrays["mask"]
    trained = [name[1:] for name in arrays if name[0] == "d" and name[1:] in arrays and tolerance.grad is not None]
    if not examples.all():  # gradients of what all examples share would mix the compared ones with the others
        trained = [name for name in trained if arrays[name].shape[:2] == rows.shape]

    def cast(name: str) -> jax.Array:
        array = arrays[name]
        if array.dtype.kind == "c":
            return jnp.asarray(array, np.complex128 if dtype is np.float64 else np.complex64)
        return jnp.asarray(array, dtype if array.dtype.kind == "f" else None)

    given = {name: cast(name) for name in arrays}

    def forward_and_backward(inputs: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
        out, pull_back = jax.vjp(lambda inputs: golden.run({**given, **inputs}), inputs)
        if not inputs:
            return out, {}
        return out, pull_back(jnp.where(rows.reshape(rows.shape + (1,) * (out.ndim - 2)), given["cot"], 0))[0]

    compiled = jax.jit(forward_and_backward, compiler_options={"xla_backend_optimization_level": 0})  # compiles faster
    out, gradients = compiled({name: given[name] for name in trained})
    assert out.dtype == dtype
    close(out, arrays[golden.output], rows, tolerance.out, f"{golden.file} out")
    for name, gradient in gradients.items():
        where = slice(None) if examples.all() else examples
        close(gradient, arrays[f"d{name}"], where, tolerance.grad, f"{golden.file} d{name}")


def close(ours: jax.Array, theirs: np.ndarray, where: np.ndarray | slice, tolerance: float, what: str) -> None:
    difference = np.abs(np.asarray(ours) - theirs)[where]
    assert difference.max() <= tolerance, f"{what}: off by {difference.max():.2e}, tolerance {tolerance:.0e}"


@pytest.mark.parametrize(("name", "golden"), CASES, ids=[golden.file for _, golden in CASES])
def test_golden_float64(name: str, golden: Golden) -> None:
    with jax.enable_x64(True):
        check_golden(golden, np.float64)


@pytest.mark.parametrize(("name", "golden"), SHORT_CASES)  # the arithmetic is the same: one file a variant is quick
def test_golden_float32(name: str, golden: Golden) -> None:
    check_golden(golden, np.float32)


def test_golden_files_are_all_used() -> None:
    assert {golden.file for _, golden in CASES} <= {path.stem for path in GOLDEN.glob("*.npz")}
    used = {golden.file for _, golden in CASES} | set(STANDALONE)
    assert {path.stem for path in GOLDEN.glob("*.npz")} == used


# Files without one output for one input; named here by the tests that read them.
STANDALONE: dict[str, str] = {
    "sparse_masks_L16_l4_c1": "tests/models/patterns/test_sparse_transformer.py",
    "sparse_masks_L37_l8_c2": "tests/models/patterns/test_sparse_transformer.py",
    "sparse_masks_L64_l8_c2": "tests/models/patterns/test_sparse_transformer.py",
    "routing_kmeans_update": "tests/models/learned/test_routing.py",
    "sinkhorn_operator": "tests/models/learned/test_sinkhorn.py",
}


def test_every_configured_variant_has_a_row() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_yaml_agrees_with_the_constructor(name: str) -> None:
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    cls = variant_class(VARIANTS[name])
    assert config.pop("_target_") == VARIANTS[name].target
    parameters = inspect.signature(cls.__init__).parameters
    own = {key: parameter.default for key, parameter in parameters.items() if key not in ("self", "sizes", "rngs")}
    assert json.dumps(config) == json.dumps(own)  # the same order too; a tuple reads as a list


@pytest.mark.parametrize("name", VARIANTS)
def test_facts_are_stated(name: str) -> None:
    cls = variant_class(VARIANTS[name])
    assert issubclass(cls, (Mixer, Layer))
    assert cls.family == VARIANTS[name].target.split(".")[1]
    assert "arXiv" in cls.paper
    assert "growth" in vars(cls)
    assert cls.quadratic or cls.growth.memory < 2
