"""What a reader must know before comparing the figures of one chart or table, in whole sentences."""

from collections import defaultdict
from collections.abc import Sequence

from lra.report import style
from lra.report.published import Bubbles
from lra.report.rows import FIVE, MARKS, SIX, Comparison, Row, baselines, title

PRESETS = {
    "mini": "Preset mini: shortened tasks, short training; a rough comparison, not comparable with published figures.",
    "lra": "Preset lra: Text is cut at 1,000 bytes, so it is not comparable with the table of the LRA paper.",
}


def about_scores(rows: Sequence[Row], preset: str) -> list[str]:
    """Preset, marked sources, and data that differ between rows."""
    notes = [PRESETS[preset]] if preset in PRESETS else []
    marked: dict[str, set[str]] = defaultdict(set)
    data: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for task, score in row.tasks.items():
            for run in score.runs:
                if run.accuracy is not None:
                    marked[run.source or ""].add(task)
                    data[task].add(run.fingerprint or "")
    for source, sign in MARKS.items():
        if source in marked:
            notes.append(f"{sign} {source} data: {_titles(marked[source])}.")
    differing = {task for task, versions in data.items() if len(versions) > 1}
    if differing:
        notes.append(f"Not all rows were scored on the same data: {_titles(differing)}.")
    return notes


def about_chart(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """Everything about what the chart shows."""
    notes = about_scores([point.row for point in comparison.points], comparison.preset)
    if len(comparison.tasks) != len(FIVE):
        notes.insert(0, f"Not the LRA score: drawn is what all variants share, {_titles(set(comparison.tasks))}.")
    if len(comparison.tasks) == 1:
        notes += _baselines(comparison)
    if comparison.memory_source:
        notes.append(f"Circle area: peak memory {style.MEMORY[comparison.memory_source]}.")
    if unknown := [point.row.label for point in comparison.points if point.memory is None]:
        notes.append(f"Without a circle, memory unknown: {', '.join(unknown)}.")
    if comparison.reference:
        notes.append("Dashed lines: the Transformer.")
    fastest = max(comparison.points, key=lambda point: (point.speed, point.accuracy), default=None)
    if fastest and any(point.accuracy > fastest.accuracy for point in comparison.points):  # else the front is one point
        notes.append("Yellow line: the Pareto front; no variant is both faster and better than one on it.")
    counts = {len(point.row.tasks[task].complete) for point in comparison.points for task in comparison.tasks}
    if counts:
        several = sorted(counts - {0, 1})
        words = f"{several[0]}" + (f" to {several[-1]}" if len(several) > 1 else "") if several else ""
        bars = f"Bars: a standard deviation each way, over {words} seeds"
        alone = "" if min(counts) > 1 else "; no bar: one seed"
        notes.append(f"{bars}{alone}." if several else "One seed: no error bars.")
    if comparison.condition:
        machines = {machine for row in rows for machine in row.cells} - {comparison.condition.hardware}
        if machines:
            notes.append(f"Also measured, on other hardware and so not drawn here: {', '.join(sorted(machines))}.")
    return notes


def about_paper(published: Bubbles, comparison: Comparison) -> list[str]:
    """What the hollow circles are."""
    sentences = [
        f"Hollow: Tay et al. 2020, training at {published.length} on 16 TPU v3 chips, each a multiple of its own",
        f"Transformer (scores {published.confidence}); without a published speed: {', '.join(published.without)}.",
    ]
    if comparison.condition and comparison.condition.mode != "train":
        sentences.append("The paper timed training, ours are timed in inference.")
    return [" ".join(sentences)]


def _baselines(comparison: Comparison) -> list[str]:
    """What a score on the chart's only task has to beat."""
    task = comparison.tasks[0]
    found = baselines([point.row for point in comparison.points])
    words = [
        f"{name.replace('_', ' ')} {' or '.join(map(style.percent, by_task[task]))} %"
        for name, by_task in found.items()
        if task in by_task
    ]
    return [f"Baselines: {', '.join(words)}."] if words else []


def _titles(tasks: set[str]) -> str:
    known = [task for task in SIX if task in tasks]
    return ", ".join(title(task) for task in [*known, *sorted(tasks - set(known))])
