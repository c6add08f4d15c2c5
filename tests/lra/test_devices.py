"""However many devices and processes share a run, it is the same run."""

import functools
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from lra import record
from lra.bench import main
from lra.devices import COUNT_FLAG, PATIENCE_FLAG, Devices, join_processes
from lra.errors import BadInput
from tests.lra import spread, tiny

ROOT = Path(__file__).parents[2]
QUICK = "transformer"
NAMES = [QUICK, "routing", "performer", "sinkhorn"]  # means over the whole batch, state that is drawn, training noise


def start(name, root, cache, *, devices, until=spread.STEPS, more=None):
    environment = spread.environment_of_users(XLA_FLAGS=f"{COUNT_FLAG}={devices}", **(more or {}))
    program = [sys.executable, "-m", "tests.lra.spread", str(root), str(cache), str(until), name]
    return subprocess.Popen(program, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def finish(*processes):
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


@pytest.fixture(scope="module")
def alone(tmp_path_factory, encoded):
    """The run of a variant on one device."""
    root = tmp_path_factory.mktemp("alone")
    return functools.cache(lambda name: spread.train(root, encoded, spread.STEPS, name))


def assert_same(found, right, devices):
    assert found["devices"] == devices
    np.testing.assert_allclose(found["losses"], right["losses"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(found["test_losses"], right["test_losses"], atol=1e-4, rtol=0)
    np.testing.assert_array_equal(found["predictions"], right["predictions"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_eight_devices_begin_and_one_goes_on(tmp_path, encoded, alone, name):
    finish(start(name, tmp_path, encoded, devices=8, until=10))
    assert_goes_on_alone(name, tmp_path, encoded, alone, devices=8)


def assert_goes_on_alone(name, root, cache, alone, devices):
    """What `devices` of them began, this process ends on one as if it had been its run all the time."""
    begun = np.load(root / f"{name}.npz")
    assert (begun["devices"], len(begun["losses"])) == (devices, 10)
    found = spread.train(root, cache, spread.STEPS, name)
    assert_same(found | {"losses": [*begun["losses"], *found["losses"]]}, alone(name), devices=1)


def two_tasks():
    """What tells two processes of each other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    of_all = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"}
    return [of_all | {"JAX_PROCESS_ID": str(number)} for number in range(2)]


def test_two_processes_of_two_devices_begin_and_one_goes_on(tmp_path, encoded, alone):
    finish(*[start(QUICK, tmp_path, encoded, devices=2, until=10, more=task) for task in two_tasks()])
    assert_one_wrote(tmp_path)
    assert_goes_on_alone(QUICK, tmp_path, encoded, alone, devices=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_of_two_devices_are_one_run(tmp_path, encoded, alone, name):
    finish(*[start(name, tmp_path, encoded, devices=2, more=task) for task in two_tasks()])
    assert_same(np.load(tmp_path / f"{name}.npz"), alone(name), devices=4)
    assert_one_wrote(tmp_path)


def assert_one_wrote(root):
    checkpoints = list(root.glob("work/**/checkpoints/*"))
    assert checkpoints
    assert {path.parts[-3] for path in checkpoints} == {"0"}


@pytest.mark.slow
def test_a_bench_of_two_processes_leaves_the_files_of_one(tmp_path, encoded):
    def bench(place, **more):
        run = tiny.run_of(*tiny.places(tmp_path / place, encoded))
        program = [sys.executable, "-m", "lra.bench", *run.overrides]
        environment = spread.environment_of_users(**more)
        return run, subprocess.Popen(program, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)

    (run, first), (_, second) = (bench("two", **task) for task in two_tasks())
    finish(first, second)
    alone, process = bench("one")
    finish(process)
    found, right = (record.read_json(each.score_file) for each in (run, alone))
    assert (found["status"], found["config_hash"]) == ("complete", right["config_hash"])
    assert found["metrics"]["test_accuracy"] == right["metrics"]["test_accuracy"]
    assert [row["step"] for row in found["history"]] == [row["step"] for row in right["history"]]
    assert len(list(run.score_file.parent.iterdir())) == 2  # the score and its predictions
    assert record.read_json(run.speed_file)["cells"]


@pytest.mark.parametrize(
    ("flags", "variables", "devices"),
    [("", {}, 2), (f"{COUNT_FLAG}=3", {}, 3), ("", {"JAX_NUM_CPU_DEVICES": "4"}, 4), (f"{PATIENCE_FLAG}=5", {}, 2)],
)
def test_each_core_is_a_device_unless_a_number_is_set(flags, variables, devices):
    program = (
        "from lra import hardware; hardware.describe = lambda: {'count': 2}\n"
        "from lra.devices import find_devices; find_devices()\n"
        "import jax, os; print(len(jax.devices()), os.environ['XLA_FLAGS'])"
    )
    environment = spread.environment_of_users(XLA_FLAGS=flags, **variables)
    said = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, env=environment, text=True)
    found, flags_then = said.split(maxsplit=1)
    assert int(found) == devices
    assert flags_then.split() == [*flags.split(), *[f"{PATIENCE_FLAG}=86400"] * (PATIENCE_FLAG not in flags)]


@pytest.mark.parametrize(("tasks", "visible"), [("1(x2)", "all"), ("2", "1")])
def test_the_only_task_of_a_node_takes_all_of_its_gpus(monkeypatch, tasks, visible):
    for name, value in {"NUM_TASKS": "2", "TASKS_PER_NODE": tasks}.items():
        monkeypatch.setenv(f"SLURM_STEP_{name}", value)
    monkeypatch.setattr(jax.distributed, "initialize", lambda **_: jax.config.update("jax_cuda_visible_devices", "1"))
    join_processes()
    found = jax.config.values["jax_cuda_visible_devices"]
    jax.config.update("jax_cuda_visible_devices", "all")
    assert found == visible


def test_several_processes_share_one_run_alone(tmp_path, encoded, monkeypatch, capsys):
    monkeypatch.setenv("JAX_NUM_PROCESSES", "2")
    assert main(["model=local,bigbird", *tiny.overrides(*tiny.places(tmp_path, encoded))[1:]]) == 2
    assert "2 processes share one run: name one variant" in capsys.readouterr().err


def test_pieces_of_a_batch_and_layers_computed_again_make_the_same_step(tmp_path, encoded, alone):
    for number, more in enumerate(["train.accumulate=4", "train.rematerialise=true"]):
        found = spread.train(tmp_path / str(number), encoded, spread.STEPS, QUICK, more)
        np.testing.assert_allclose(found["losses"], alone(QUICK)["losses"], atol=1e-5, rtol=0)


def test_a_batch_that_does_not_come_out_even(monkeypatch):
    with pytest.raises(BadInput, match=r"train.accumulate=3 does not divide train.batch_size=8"):
        Devices(8, 3)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices() * 3)
    assert Devices(8).count == 2  # of three, two can share it
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    with pytest.raises(BadInput, match="3 devices can't share 8 examples"):
        Devices(8)
