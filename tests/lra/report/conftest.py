"""A factory of made-up result files: everything in them is invented, only their form is real."""

import json
from pathlib import Path
from typing import Any

import pytest

FAMILY = {
    "transformer": "dense",
    "flash": "dense",
    "local": "patterns",
    "bigbird": "patterns",
    "reformer": "learned",
    "linformer": "low_rank",
    "linear_transformer": "kernels",
    "synthesizer": "synthetic",
    "fnet": "attention_free",
    "h_transformer": "hierarchical",
    "s5": "recurrent",
}


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with dotted keys changed."""
    for key, value in changes.items():
        *parents, last = key.split(".")
        table = base
        for parent in parents:
            table = table[parent]
        table[last] = value
    return base


class Factory:
    """Writes score and speed files under `root`. Dotted keywords change single fields."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def score(
        self,
        variant: str,
        task: str = "listops",
        seed: int = 0,
        accuracy: float = 0.4,
        *,
        preset: str = "mini",
        folder: str | None = None,
        **changes: Any,
    ) -> Path:
        record = {
            "schema_version": 1, "status": "complete", "error": None,
            "variant": variant, "family": FAMILY.get(variant, "user"), "task": task, "preset": preset, "seed": seed,
            "config": {"train": {"steps": 100}}, "config_hash": f"{task}0123456789",
            "data": {
                "source": "generated", "fingerprint": f"data-of-{task}",
                "splits": {"train": 900, "validation": 100, "test": 500},
                "baselines": {"majority": 0.2, "bag_of_tokens": 0.25}, "truncated_fraction": 0.0, "skipped_files": [],
            },
            "metrics": {
                "test_accuracy": accuracy, "interval": [max(accuracy - 0.04, 0), min(accuracy + 0.04, 1)],
                "test_loss": 1.2, "validation_accuracy": accuracy, "best_step": 90, "n_test": 500, "at_chance": False,
            },
            "parameters": {"count": 100_000, "ratio_to_transformer": 1.0, "within_lra_rule": True},
            "history": [
                {"step": step, "train_loss": 2.0 - step / 100, "validation_accuracy": accuracy * step / 90}
                for step in (30, 60, 90)
            ],
            "hardware": {"name": "toy-cpu"}, "software": {"jax": "0.10.2"}, "git_commit": "abc",
            "started": "2030-01-01T00:00:00", "finished": "2030-01-01T00:01:00", "wall_seconds": 60.0, "attempts": 1,
        }  # fmt: skip
        path = self.root / "scores" / preset / (folder or variant) / task / f"seed{seed}.json"
        return self._write(path, _merge(record, {key.replace("__", "."): value for key, value in changes.items()}))

    def speed(
        self,
        variant: str,
        cells: list[dict[str, Any]] | None = None,
        *,
        preset: str = "mini",
        hardware: str = "toy-cpu",
        folder: str | None = None,
        **changes: Any,
    ) -> Path:
        record = {
            "schema_version": 1, "variant": variant, "family": FAMILY.get(variant, "user"), "preset": preset,
            "config_hash": "speed0123456789", "hardware": {"name": hardware}, "software": {"jax": "0.10.2"},
            "git_commit": "abc",
            "cells": [self.cell()] if cells is None else cells,
        }  # fmt: skip
        path = self.root / "speed" / hardware / preset / f"{folder or variant}.json"
        return self._write(path, _merge(record, changes))

    @staticmethod
    def cell(
        seconds: float = 0.1, length: int = 1024, batch_size: int = 8, *, mode: str = "train", **changes: Any
    ) -> dict[str, Any]:
        cell = {
            "mode": mode, "length": length, "batch_size": batch_size, "precision": "float32",
            "step_seconds": {"median": seconds, "p10": 0.9 * seconds, "p90": 1.1 * seconds},
            "steps_per_second": 1 / seconds, "sequences_per_second": batch_size / seconds, "compile_seconds": 2.0,
            "flops_per_step": 1e9, "peak_bytes": {"device": None, "compiled": 3e8, "process": 9e8}, "temp_bytes": 2e8,
            "simulated": False, "status": "complete", "error": None, "load_average": 0.5, "drift": 0.01,
        }  # fmt: skip
        return _merge(cell, {key.replace("__", "."): value for key, value in changes.items()})

    @staticmethod
    def _write(path: Path, record: dict[str, Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
        return path


@pytest.fixture
def make(tmp_path: Path) -> Factory:
    return Factory(tmp_path / "runs")
