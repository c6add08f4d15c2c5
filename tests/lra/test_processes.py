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
