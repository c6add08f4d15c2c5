"""Figures for the claims about cost, patterns and rank, from the parts of `lecture.json`."""

import math
import statistics
from typing import Any

from lra.lecture.evidence import (
    REFERENCE,
    Evidence,
    crossover,
    measured_figure,
    points_of,
    time_exponent,
    unmeasured,
)
from lra.lecture.verdicts import Figure, Interval, Range, exact
from lra.report import growth

HALF = 0.5
SMALL_VIEW = 0.25  # of all tokens
LOW_RANK = 0.25  # of the length: Linformer's own 128 of 512


def quadratic(evidence: Evidence) -> list[Figure]:
    """Exponents of the length: of the operations of attention alone, and of the whole step's time."""
    points = points_of(evidence, "share")
    name = "exponent of the length: matrix operations of attention"
    square = Range(1.95, 2.05)
    if points is None:
        figures = [unmeasured(evidence, name, "number", square)]
    else:
        operations = [(p["length"], p["with_attention"]["flops"] - p["without_attention"]["flops"]) for p in points]
        slope = statistics.linear_regression(*zip(*((math.log(a), math.log(b)) for a, b in operations), strict=True))
        figures = [measured_figure(evidence, name, "number", square, slope.slope, exact(slope.slope))]
    name = f"the same, time of the Transformer's whole step, {growth.FITTED} longest lengths"
    source, value = evidence.speeds(REFERENCE), time_exponent(evidence, REFERENCE)
    return [*figures, Figure(name, "number", None, source, value, missing="" if value else "not timed")]


def attention_share(point: dict[str, Any]) -> tuple[float, Interval]:
    """Attention's share of a step's time, with the range between slow and fast repetitions."""
    whole, rest = point["with_attention"]["seconds"], point["without_attention"]["seconds"]
    low, high = 1 - rest["p90"] / whole["p10"], 1 - rest["p10"] / whole["p90"]
    return 1 - rest["median"] / whole["median"], (low, high)


def operations_share(point: dict[str, Any]) -> float:
    """Attention's share of a step's matrix operations."""
    return 1 - point["without_attention"]["flops"] / point["with_attention"]["flops"]


def share(evidence: Evidence) -> list[Figure]:
    """Attention's share of a training step's time at the shortest and the longest length; operations beside it."""
    points = points_of(evidence, "share")
    if points is None:
        name = "attention's share of a training step"
        return [unmeasured(evidence, name, "percent", Range(high=HALF))]
    figures = []
    for point, wanted in ((points[0], Range(high=HALF)), (points[-1], Range(low=HALF))):
        value, interval = attention_share(point)
        name = f"attention's share of a step's time, {point['length']:,} tokens"
        figures.append(measured_figure(evidence, name, "percent", wanted, value, interval))
        value = operations_share(point)
        figures.append(measured_figure(evidence, "the same, of its matrix operations", "percent", None, value))
    return figures


def share_notes(evidence: Evidence) -> list[str]:
    """Where attention reaches half of the step, and where each variant overtakes the Transformer."""
    notes = []
    if points := points_of(evidence, "share"):
        shares = [(point["length"], attention_share(point)[0]) for point in points]
        reached = _first_above(shares, HALF)
        if reached is None:
            notes.append(f"Attention stays below half of the step up to {shares[-1][0]:,} tokens.")
        elif reached == shares[0][0]:
            notes.append(f"Attention takes half of the step's time and more from {reached:,.0f} tokens on.")
        else:
            notes.append(f"Attention takes half of the step's time at about {reached:,.0f} tokens.")
    found = {name: crossover(evidence, name) for name in evidence.rows if name != REFERENCE}
    listed = [f"{name} {crossing}" for name, crossing in sorted(found.items()) if crossing]
    if listed:
        words = "A training step is shorter than the Transformer's from this length on (~ extrapolated): "
        notes.append(f"{words}{', '.join(listed)}.")
    return notes


def _first_above(points: list[tuple[float, float]], level: float) -> float | None:
    """Where a curve first comes to `level`, between points straight against the logarithm; None if it never does."""
    for i, (x, y) in enumerate(points):
        if y >= level:
            if i == 0:
                return x
            (x0, y0) = points[i - 1]
            return x0 * (x / x0) ** ((level - y0) / (y - y0))
    return None


def local(evidence: Evidence) -> list[Figure]:
    """How much of the sequence a token sees."""
    name, found = "local: share of all tokens that one layer joins", _reach(evidence, "local")
    wanted = Range(high=SMALL_VIEW)
    if found is None:
        return [unmeasured(evidence, name, "percent", wanted)]
    value = found["layers"][0]["mean"]
    return [measured_figure(evidence, name, "percent", wanted, value, exact(value)), _layers_to_all(evidence, found)]


def strided(evidence: Evidence) -> list[Figure]:
    """How far a token sees, against a window with as many keys."""
    name = "strided: furthest token in view, over that of a window with as many keys"
    found, wanted = _reach(evidence, "strided"), Range(low=1)
    if found is None:
        return [unmeasured(evidence, name, "times", wanted)]
    value = found["furthest"] / (found["keys"] / 2)
    figures = [measured_figure(evidence, name, "times", wanted, value, exact(value))]
    name = "strided: share of all tokens that two layers join"
    return [
        *figures,
        measured_figure(evidence, name, "percent", None, found["layers"][1]["mean"]),
        _layers_to_all(evidence, found),
    ]


def global_tokens(evidence: Evidence) -> list[Figure]:
    """One layer joins few pairs, two leave out none."""
    one = "global tokens: share of all tokens that one layer joins"
    two = "tokens that two layers fail to bring to some token, at most"
    found, few, none = _reach(evidence, "global_tokens"), Range(high=HALF), Range(high=1)
    if found is None:
        return [unmeasured(evidence, one, "percent", few), unmeasured(evidence, two, "count", none)]
    first = found["layers"][0]["mean"]
    left = round((1 - found["layers"][1]["least"]) * evidence.measured["reach"]["length"])
    return [
        measured_figure(evidence, one, "percent", few, first, exact(first)),
        measured_figure(evidence, two, "count", none, left, exact(left)),
    ]


def reach_notes(evidence: Evidence) -> list[str]:
    """Under what the patterns were laid out."""
    part = evidence.measured.get("reach")
    if part is None:
        return []
    return [
        f"Patterns as preset {part['preset']} sets them, at {part['length']:,} tokens; a layer joins what any of its "
        "heads joins. Random blocks are those of seed 0."
    ]


def low_rank(evidence: Evidence) -> list[Figure]:
    """Singular values needed at the longest examples, of the trained model and before training."""
    part = evidence.measured.get("low_rank")
    if part is None:
        name = "share of the singular values that hold 90 % of their sum"
        return [unmeasured(evidence, name, "percent", Range(high=LOW_RANK))]
    figures = []
    for run in part["runs"]:
        means = [point for point in run["points"] if point["layer"] is None]
        longest = max(point["length"] for point in means)
        last = {point["which"]: point for point in means if point["length"] == longest}
        name = f"{run['title']}, {longest:,.0f} tokens: singular values that hold 90 % of their sum, over the length"
        for which, key, words, wanted in (
            ("trained", "of_sum", name, Range(high=LOW_RANK)),
            ("initial", "of_sum", "the same before training", None),
            ("trained", "of_energy", "trained, 90 % of the sum of squares", None),
        ):
            found = last[which][key]["share"]
            interval = (found["low"], found["high"])
            figures.append(measured_figure(evidence, words, "percent", wanted, found["mean"], interval))
    return figures


def low_rank_notes(evidence: Evidence) -> list[str]:
    """What was looked at."""
    part = evidence.measured.get("low_rank")
    if part is None:
        return []
    notes = []
    for run in part["runs"]:
        counts = {point["examples"] for point in run["points"]}
        score = 100 * run["validation_accuracy"]
        notes.append(
            f"{run['title']} (preset {run['preset']}, data {run['source']}): the parameters of step "
            f"{run['best_step']:,}, validation accuracy {score:.1f} %; {max(counts)} test documents a length; mean "
            "over layers and heads, interval over documents."
        )
    return notes


def _layers_to_all(evidence: Evidence, found: dict[str, Any]) -> Figure:
    name = f"{found['variant']}: layers until every token has reached every other"
    layers = found["layers_to_all"]
    reason = "" if layers else "never, however many layers"
    return Figure(name, "count", None, evidence.lecture, layers, missing=reason)


def _reach(evidence: Evidence, variant: str) -> dict[str, Any] | None:
    part = evidence.measured.get("reach")
    return next((found for found in part["variants"] if found["variant"] == variant), None) if part else None
