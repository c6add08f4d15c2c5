"""Made-up result files for the lecture's page: everything in them is invented, only their form is real."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lra.lecture.claims import CHART, SINGLE_PATTERNS
from lra.report.rows import FIVE

EXAMPLES = 400
LENGTHS = (256, 1024, 4096)
VARIANTS = ("transformer", *CHART, "strided", "global_tokens", "hybrid")


def score(root: Path, variant: str, task: str, accuracy: float, *, source: str = "generated") -> None:
    """A complete run that is right on the first examples, and its predictions."""
    correct = np.arange(EXAMPLES) < round(accuracy * EXAMPLES)
    folder = root / "scores/mini" / variant / task
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.zeros(EXAMPLES, np.int32)
    np.savez(folder / "seed0.predictions.npz", id=np.arange(EXAMPLES), label=labels, prediction=~correct + 0)
    content = {
        "schema_version": 1, "status": "complete", "error": None, "variant": variant, "family": "dense", "task": task,
        "preset": "mini", "seed": 0, "config_hash": f"{task}0123456789",
        "data": {"source": source, "fingerprint": task, "baselines": {"majority": 0.2}},
        "metrics": {"test_accuracy": float(correct.mean()), "interval": None, "n_test": EXAMPLES, "at_chance": False},
    }  # fmt: skip
    (folder / "seed0.json").write_text(json.dumps(content))


def speed(root: Path, variant: str, seconds: float, *, spread: float = 0.05, exponent: float = 1.0) -> None:
    """Training cells at three lengths; `seconds` is the median at the longest."""
    cells = []
    for length in LENGTHS:
        median = seconds * (length / LENGTHS[-1]) ** exponent
        times = {"median": median, "p10": median * (1 - spread), "p90": median * (1 + spread)}
        cells.append(
            {
                "mode": "train",
                "length": length,
                "batch_size": 4,
                "precision": "float32",
                "status": "complete",
                "step_seconds": times,
                "sequences_per_second": 4 / median,
                "simulated": False,
            }
        )
    file = root / "speed/toy-cpu/mini" / f"{variant}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"schema_version": 1, "variant": variant, "family": "dense", "preset": "mini", "config_hash": "s"}
    file.write_text(json.dumps(content | {"hardware": {"name": "toy-cpu"}, "cells": cells}))


def everything(root: Path) -> Path:
    """A folder in which the lecture's summary is right but for Reformer's score and Synthesizer's speed."""
    accuracy = dict.fromkeys(VARIANTS, 0.5) | {"local": 0.3, "reformer": 0.9, "bigbird": 0.51, "hybrid": 0.7}
    seconds = {"transformer": 1.0, "synthesizer": 1.1, "local": 0.2, "linear_transformer": 0.05}
    for name in VARIANTS:
        for task in FIVE:
            score(root, name, task, accuracy[name])
        speed(root, name, seconds.get(name, 0.4), exponent=2.0 if name == "transformer" else 1.0)
    lecture(root)
    return root


def lecture(root: Path, **parts: Any) -> None:
    """`lecture.json` with every part, or with some of them replaced; None leaves one out."""
    every = {"low_rank": low_rank(), "features": features(), "orders": orders(), "share": share(), "reach": reach()}
    stamp = {"preset": "mini", "hardware": {"name": "toy-cpu"}}
    kept = {name: {**stamp, **part} for name, part in (every | parts).items() if part is not None}
    root.mkdir(parents=True, exist_ok=True)
    (root / "lecture.json").write_text(json.dumps({"schema_version": 1, "parts": kept}))


def low_rank(trained: float = 0.2, half: float = 0.01) -> dict[str, Any]:
    points = []
    for which, value in (("trained", trained), ("initial", 0.1)):
        for length in (32.0, 64.0, 128.0):
            for layer, head in ((None, None), (0, 0), (0, 1)):
                held = {"mean": value, "low": value - half, "high": value + half}
                counts = {key: {"count": held, "share": held} for key in ("of_sum", "of_energy")}
                points.append(
                    {"which": which, "length": length, "examples": 16, "layer": layer, "head": head, **counts}
                )
    facts = {"title": "transformer on listops, seed 0", "task": "listops", "source": "generated", "preset": "mini"}
    return {"runs": [facts | {"best_step": 800, "validation_accuracy": 0.6, "points": points}]}


def features(error: float = 1.0) -> dict[str, Any]:
    points = [
        {"features": count, "mean": error * count**-0.5, "low": 0.8 * error * count**-0.5, "high": 1.2 * error}
        for count in (16, 64, 256, 1024)
    ]
    common = {"draws": 16, "performer": points, "plain": points, "elu": error, "equal_weights": 0.9, "order": 1e-7}
    return {"sources": [common | {"inputs": "normal"}, common | {"inputs": "trained", "title": "a run"}]}


def orders(extra: float = 1.0) -> dict[str, Any]:
    points = []
    for dim in (32, 64, 128):
        for length in (64, 256, 1024, 4096):
            slow, fast = extra * 4 * dim * length**2, 4.0 * dim**2 * length
            point: dict[str, Any] = {"length": length, "dim": dim, "difference": 1e-7}
            for name, flops in (("queries_first", slow), ("values_first", fast)):
                point[name] = {"flops": flops, "seconds": times(flops / 1e10)}
            points.append(point)
    return {"points": points}


def share(longest: float = 0.8, exponent: float = 2.0) -> dict[str, Any]:
    """Attention takes `longest` of the longest step; the rest grows with the length, attention with its square."""
    rest = 1 - longest
    points = []
    for length in (128, 512, 2048, 4096):
        part = length / 4096
        seconds = {"with_attention": longest * part**exponent + rest * part, "without_attention": rest * part}
        points.append(
            {"length": length} | {name: {"flops": 1e9 * took, "seconds": times(took)} for name, took in seconds.items()}
        )
    return {"batch_size": 4, "encoder": {"layers": 2, "dim": 128, "heads": 4, "mlp_dim": 256}, "points": points}


def reach() -> dict[str, Any]:
    def found(variant: str, keys: float, furthest: int, one: float, two: float, layers: int | None) -> dict[str, Any]:
        shares = [{"mean": value, "least": value} for value in (one, two)]
        return {
            "variant": variant, "family": "patterns", "keys": keys, "furthest": furthest, "layers": shares,
            "layers_to_all": layers,
        }  # fmt: skip

    variants = [found("local", 17, 8, 0.02, 0.03, 128), found("strided", 32, 1008, 0.03, 0.03, None)]
    return {"length": 1024, "variants": [*variants, found("global_tokens", 20, 1023, 0.03, 1.0, 2)]}


def times(median: float) -> dict[str, float]:
    return {"median": median, "p10": 0.95 * median, "p90": 1.05 * median}


assert set(SINGLE_PATTERNS) <= set(VARIANTS)
