"""Runs side by side have cores of their own, as far as there are any, and no more than a container allows."""

import contextlib
import os

import joblib
import pytest

from lra import cores


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine of six cores and memory for as many runs, that nobody else uses."""
    monkeypatch.setattr(cores, "CLAIMS", tmp_path / "cores")
    monkeypatch.setattr(cores, "memory", lambda: 6 * cores.MEMORY_EACH)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 5, 7, 8, 9})
    monkeypatch.setattr(joblib, "cpu_count", lambda: 6)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")


def divide(size, most=99):
    with contextlib.ExitStack() as claims:
        return cores.divide(size, most, claims)


@pytest.mark.parametrize(
    ("size", "groups"),
    [
        (1, [{2}, {3}, {5}, {7}, {8}, {9}]),
        (2, [{2, 3}, {5, 7}, {8, 9}]),
        (4, [{2, 3, 5, 7}]),
        (7, [{2, 3, 5, 7, 8, 9}]),
        (None, []),
    ],
)
def test_cores_are_divided_into_groups(size, groups):
    assert divide(size) == groups


def test_no_more_groups_than_runs_processors_and_memory(monkeypatch):
    assert divide(1, most=2) == [{2}, {3}]
    monkeypatch.setattr(joblib, "cpu_count", lambda: 4)  # as a container's quota has it
    assert len(divide(1)) == 4
    assert len(divide(4)) == 1
    monkeypatch.setattr(cores, "memory", lambda: 3 * cores.MEMORY_EACH - 1)
    assert len(divide(1)) == 2
    monkeypatch.setattr(cores, "memory", lambda: 0)
    assert len(divide(1)) == 1


def test_the_memory_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.undo()
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text("12345678\n")
    monkeypatch.setattr(cores, "MEMORY_LIMITS", [tmp_path / name for name in ("none", "max")])
    assert cores.memory() > 12345678
    monkeypatch.setattr(cores, "MEMORY_LIMITS", [tmp_path / name for name in ("max", "limit")])
    assert cores.memory() == 12345678


def test_what_another_command_has_claimed_is_left_to_it_unless_nothing_is_free():
    with contextlib.ExitStack() as first:
        assert cores.divide(2, 2, first) == [{2, 3}, {5, 7}]
        assert divide(1) == [{8}, {9}]
        assert divide(2) == [{8, 9}]
        with contextlib.ExitStack() as second:
            assert cores.divide(1, 2, second) == [{8}, {9}]
            assert divide(1, most=1) == [{2}]
    assert divide(2) == [{2, 3}, {5, 7}, {8, 9}]
