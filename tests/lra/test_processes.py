"""The environment tells how many processes share a run, and which one this is."""

import pytest

from lra import processes


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, (1, 0)),
        ({"JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2"}, (4, 2)),
        ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}, (2, 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, (1, 0)),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c", "TPU_WORKER_ID": "2"}, (3, 2)),
        ({"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0"}, (1, 0)),
    ],
)
def test_count_and_number(monkeypatch, environment, told):
    for name in ("JAX_NUM_PROCESSES", "SLURM_STEP_NUM_TASKS", "TPU_WORKER_HOSTNAMES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (processes.count(), processes.number()) == told


@pytest.mark.parametrize(
    ("said", "alone"), [("1(x2)", True), ("1", True), ("2(x4)", False), ("1(x2),2", False), (None, False)]
)
def test_a_task_with_a_node_of_its_own(monkeypatch, said, alone):
    monkeypatch.delenv("SLURM_STEP_TASKS_PER_NODE", raising=False)
    if said:
        monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", said)
    assert processes.alone_on_its_node() == alone
