"""TensorFlow is not needed: with it blocked everything is imported, every form of data read, and training runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.raw import TINY_EXAMPLES, aan, cifar, imdb, prepare_cifar, prepare_imdb, write_folder, write_tar

ROOT = Path(__file__).parents[2]

CHILD = """
import importlib, json, sys
from pathlib import Path

sys.modules["tensorflow"] = None
for room in ("tasks", "models", "lra"):
    for file in sorted(Path(room).rglob("*.py")):
        importlib.import_module(".".join(file.with_suffix("").parts).removesuffix(".__init__"))

import numpy as np
from lra.child import load_task
from lra.config import compose_run
from lra.train import Training

root, examples = Path(sys.argv[1]), json.loads(sys.argv[2])
SMALL = ["task.max_length=32", "encoder.dim=8", "encoder.qkv_dim=8", "encoder.mlp_dim=8", "encoder.heads=1"]
SMALL += ["encoder.layers=1", "train.batch_size=2"]
for task in ("text", "retrieval", "image"):
    sizes = [f"task.examples.{name}={size}" for name, size in examples[task].items()]
    tasks = {}
    for form in ("archives",) if task == "retrieval" else ("archives", "prepared"):
        where = [f"data_dir={root / form}", f"cache_dir={root / form / 'cache'}"]
        config = compose_run([f"model=transformer", f"task={task}", "preset=lra", "seed=0", *SMALL, *sizes, *where])
        tasks[form] = load_task(config.task)
    assert len({data.fingerprint for data in tasks.values()}) == 1
    print(task, len(tasks), sys.modules["tensorflow"])
    if task == "retrieval":
        training = Training(config, tasks["archives"], root / task, {}, print)
        for step in range(2):
            training.state, loss = training.train_step(training.state, training._batch(step))
            assert np.isfinite(loss)
        print("steps", training.step)
"""


@pytest.mark.slow
def test_everything_works_with_tensorflow_blocked(tmp_path):
    prepare_imdb(tmp_path / "prepared", imdb())
    prepare_cifar(tmp_path / "prepared", *cifar()[1:])
    write_tar(tmp_path / "archives" / "aclImdb_v1.tar.gz", imdb())
    write_tar(tmp_path / "archives" / "cifar-10-binary.tar.gz", cifar()[0])
    write_folder(tmp_path / "archives" / "tsv_data", aan()[0])
    command = [sys.executable, "-c", CHILD, str(tmp_path), json.dumps(TINY_EXAMPLES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-5:] == ["text 2 None", "retrieval 1 None", "steps 2", "image 2 None", ""]
