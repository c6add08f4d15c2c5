"""Figures for the claims about the order of the products and about phi, from the parts of `lecture.json`."""

import math
import statistics
from typing import Any

from lra.lecture.evidence import Evidence, measured_figure, points_of, unmeasured
from lra.lecture.verdicts import Figure, Interval, Range, exact

SAME = 1e-4  # relative difference below which two results are the same but for rounding in float32
PREDICTED = Range(0.99, 1.01)  # counted over predicted
SHOWN_DIM = 64  # of the products, the usual width of a head
KINDS = {"performer": "Performer's phi as its code has it", "plain": "Performer's phi as the paper writes it"}


def orders(evidence: Evidence) -> list[Figure]:
    """Operations counted over those predicted, and the time that the other order saves."""
    points = points_of(evidence, "orders")
    counted = "operations counted over {}, all sizes".format
    if points is None:
        return [unmeasured(evidence, counted("4 D N^2"), "times", PREDICTED)]
    figures = []
    for order, words, power in (("queries_first", "4 D N^2", (1, 2)), ("values_first", "4 D^2 N", (2, 1))):
        ratios = [p[order]["flops"] / (4 * p["dim"] ** power[0] * p["length"] ** power[1]) for p in points]
        interval = (min(ratios), max(ratios))
        figures.append(
            measured_figure(evidence, counted(words), "times", PREDICTED, statistics.fmean(ratios), interval)
        )
    own = [point for point in points if point["dim"] == SHOWN_DIM]
    longest = max(own, key=lambda point: point["length"])
    equal = next((point for point in own if point["length"] == SHOWN_DIM), None)
    value, interval = time_ratio(longest)
    name = f"time, queries first over values first, N = {longest['length']:,}, D = {SHOWN_DIM}"
    figures.append(measured_figure(evidence, name, "times", Range(low=2), value, interval))
    if equal:
        value, interval = time_ratio(equal)
        figures.append(measured_figure(evidence, f"the same, N = D = {SHOWN_DIM}", "times", None, value, interval))
    return figures


def time_ratio(point: dict[str, Any]) -> tuple[float, Interval]:
    """Time of (Q K^T) V over that of Q (K^T V), with the range between slow and fast repetitions."""
    slow, fast = point["queries_first"]["seconds"], point["values_first"]["seconds"]
    return slow["median"] / fast["median"], (slow["p10"] / fast["p90"], slow["p90"] / fast["p10"])


def same_result(evidence: Evidence) -> list[Figure]:
    """What the order alone changes: of plain products, and of a kernel with its normaliser."""
    name, wanted = "relative difference of the results, plain products, largest of all sizes", Range(high=SAME)
    points, part = points_of(evidence, "orders"), evidence.measured.get("features")
    figures = []
    if points is None:
        figures.append(unmeasured(evidence, name, "error", wanted))
    else:
        value = max(point["difference"] for point in points)
        figures.append(measured_figure(evidence, name, "error", wanted, value, exact(value)))
    for source in part["sources"] if part else []:
        name, value = f"the same for attention with phi = elu + 1, {described(source)}", source["order"]
        figures.append(measured_figure(evidence, name, "error", wanted, value, exact(value)))
    return figures


def identical(evidence: Evidence) -> list[Figure]:
    """Error against exact softmax attention: Performer's phi with the most features, the Linear Transformer's."""
    part = evidence.measured.get("features")
    if part is None:
        return [unmeasured(evidence, "relative error against softmax attention", "error", Range(high=SAME))]
    figures = []
    for source in part["sources"]:
        for kind, words in KINDS.items():
            most = source[kind][-1]
            name = f"relative error, {words}, {most['features']:,} features, {described(source)}"
            interval = (most["low"], most["high"])
            figures.append(measured_figure(evidence, name, "error", Range(high=SAME), most["mean"], interval))
        name, value = f"relative error, Linear Transformer's elu + 1, {described(source)}", source["elu"]
        figures.append(measured_figure(evidence, name, "error", Range(high=SAME), value, exact(value)))
    return figures


def identical_notes(evidence: Evidence) -> list[str]:
    """How the errors shrink, and what an error is worth."""
    part = evidence.measured.get("features")
    if part is None:
        return []
    notes = []
    for source in part["sources"]:
        slopes = {kind: _slope(source[kind]) for kind in KINDS}
        notes.append(
            f"{_capital(described(source))}: the error goes with the number of features to the power "
            f"{slopes['plain']:.2f} for Performer's phi as the paper writes it, {slopes['performer']:.2f} as its code "
            f"has it. Giving every key the same weight has an error of {source['equal_weights']:.2g}. Intervals: range "
            f"over {source['draws']} draws of orthogonal features."
        )
    notes.append(
        "Performer's code, and so our variant, adds 1e-4 to every feature. Where the features are small against that, "
        "all keys get nearly the same weight, however many features there are."
    )
    return notes


def _slope(points: list[dict[str, Any]]) -> float:
    x, y = ([math.log(point[key]) for point in points] for key in ("features", "mean"))
    return statistics.linear_regression(x, y).slope


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def described(source: dict[str, Any]) -> str:
    """Whose queries and keys."""
    return "normal inputs" if source["inputs"] == "normal" else source["title"]
