"""A restored model says the same of raw inputs, bit for bit, in a process with other hashes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lra.variants import variant_names

ROOT = Path(__file__).parents[2]
QUICK = ["performer"]  # draws random state and compiles soon; the rest with the slow tests


def answers(action, seed, root, cache, names):
    environment = os.environ | {"PYTHONHASHSEED": seed}
    program = [sys.executable, "-m", "tests.lra.restored", action, str(root), str(cache), *names]
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name: np.load(root / f"{action}-{name}.npy") for name in names}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK, id="quick"),
        pytest.param([name for name in variant_names() if name not in QUICK], id="all others", marks=pytest.mark.slow),
    ],
)
def test_answers_to_raw_inputs_are_the_same_in_a_process_with_another_hash_seed(tmp_path, encoded, names):
    trained = answers("train", "0", tmp_path, encoded, names)
    restored = answers("load", "1", tmp_path, encoded, names)
    for name in names:
        np.testing.assert_array_equal(trained[name], restored[name], err_msg=name)
        assert np.isfinite(trained[name]).all()
        assert len(np.unique(trained[name].round(6), axis=0)) > 1  # it looks at its input, if only at the beginning
