"""The check for a machine that has jax, flax, optax and numpy only: it needs no other package of this project."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.py"
ABSENT = ("hydra", "omegaconf", "jaxtyping", "filelock", "sklearn", "matplotlib", "wandb", "tensorflow_datasets", "PIL")


@pytest.fixture
def poor(tmp_path):
    """An environment whose Python finds none of the other packages."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n\n\nclass Refuse:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {ABSENT}:\n"
        "            raise ImportError(f'{name} is not installed')\n\n\nsys.meta_path.insert(0, Refuse())\n"
    )
    return os.environ | {"PYTHONPATH": str(tmp_path)}


@pytest.mark.slow
def test_a_layer_and_a_training_step_are_measured(poor):
    options = [
        "--lengths",
        "16",
        "--step-lengths",
        "16",
        "--batch-size",
        "2",
        "--variants",
        "local",
        "--seconds",
        "0.01",
    ]
    done = subprocess.run([sys.executable, SCRIPT, *options], env=poor, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    kinds = [(cell["protocol"], cell["variant"], cell["precision"]) for cell in cells]
    forms = ["dot_product_attention", "einsum", "blocks", "blocks in turn"]
    expected = [
        [("layer", "local", precision), *(("dense form", name, precision) for name in forms)]
        for precision in ("float32", "bfloat16")
    ]
    steps = [("text", "local", precision) for precision in ("float32", "bfloat16")]
    assert kinds == [*expected[0], *expected[1], *steps]
    for cell in cells:
        assert cell["status"] == "complete"
        assert cell["step_seconds"]["median"] > 0
        assert cell["flops_per_step"] > 0 < cell["temp_bytes"]
        assert cell["peak_bytes"].keys() == {"device", "compiled", "process"}


def test_a_cell_that_fails_is_recorded():
    specification = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    cell = {"protocol": "layer", "variant": "unknown", "mode": "train", "length": 16, "precision": "float32"}
    found = module.run_cell(cell | {"batch_size": 1}, 0.01)
    assert found == {"status": "failed", "error": "KeyError: 'unknown'"}
