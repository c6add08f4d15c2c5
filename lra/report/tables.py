"""The figures under the chart as tables: scores, their intervals, what speed and memory cost."""

from collections.abc import Sequence

from lra.report import growth, style
from lra.report.formats import DASH, Table
from lra.report.rows import FIVE, SIX, Comparison, Condition, Row, TaskScore, baselines, ranked, title


def scores(rows: Sequence[Row], comparison: Comparison, notes: Sequence[str] = ()) -> Table:
    """Accuracy in percent per task, both averages of the literature, parameters, and the chart's speed and memory."""
    columns = ["Variant", *map(title, SIX), "Mean of 5", "Mean of 6", "Parameters", "Seq/s", "Memory"]
    points = {point.row.key: point for point in comparison.points}
    body = []
    for row in ranked(rows, comparison.tasks):
        point = points.get(row.key)
        body.append(
            [
                row.label,
                *(_accuracy(row.tasks.get(task)) for task in SIX),
                average(row, FIVE),
                average(row, SIX),
                _parameters(row),
                style.number(point.speed if point else None),
                style.memory(point.memory if point else None),
            ]
        )
    for name, by_task in baselines(rows).items():
        cells = [" or ".join(style.percent(accuracy) for accuracy in by_task.get(task, ())) or DASH for task in SIX]
        body.append([f"({name.replace('_', ' ')})", *cells, *[""] * 5])
    notes = [*notes]
    if any("!" in row[9] for row in body):
        notes.append("! parameters more than 10 % away from the Transformer's on some task, against the LRA rule.")
    if any("(" in cell for row in body for cell in row[1:7]):
        notes.append("In brackets: seeds without a score, which no mean contains.")
    if any("FAIL" in row[6] for row in body):
        notes.append("FAIL: not clear of chance on any seed; the mean of 6 counts it as 50.")
    return Table(f"Accuracy in percent, preset {comparison.preset}", columns, body, notes)


def intervals(rows: Sequence[Row], comparison: Comparison) -> Table:
    """95 % Wilson intervals, which hold the chance in the test split's choice of examples."""
    body = []
    for row in ranked(rows, comparison.tasks):
        seeds = {len(score.complete) for score in row.tasks.values() if score.complete}
        cells = [_interval(row.tasks[task].interval) if task in row.tasks else DASH for task in SIX]
        body.append([row.label, " or ".join(str(count) for count in sorted(seeds)) or DASH, *cells])
    note = "Wilson intervals of the mean over seeds, for the number of test examples. Deviations over seeds are above."
    return Table("95 % intervals, percent", ["Variant", "Seeds", *map(title, SIX)], body, [note])


def costs(rows: Sequence[Row], condition: Condition) -> Table | None:
    """Speed and memory per length as multiples of the Transformer's, with exponents and crossover; None without it."""
    times = {series.row.key: series for series in growth.step_time(rows, condition)}
    sizes, source = growth.peak_memory(rows, condition)
    memories = {series.row.key: series for series in sizes}
    reference = next((row for row in rows if row.is_reference), None)
    if reference is None or reference.key not in times:
        return None
    base, base_memory = times[reference.key], memories.get(reference.key, growth.Series(reference, (), ()))
    lengths = base.lengths
    columns = ["Variant", *(f"speed {length:,}" for length in lengths), "time exponent", "faster from"]
    columns += [*(f"memory {length:,}" for length in lengths), "memory exponent"]
    body = []
    for key in sorted(times, key=lambda key: -times[key].values[-1]):
        one, memory = times[key], memories.get(key, growth.Series(times[key].row, (), ()))
        crossing = growth.crossover(one, base) if one is not base else None
        body.append(
            [
                one.row.label,
                *(_ratio(base.at(length), one.at(length)) for length in lengths),
                style.fixed(one.exponent),
                str(crossing) if crossing else DASH,
                *(_ratio(memory.at(length), base_memory.at(length)) for length in lengths),
                style.fixed(memory.exponent),
            ]
        )
    notes = [
        f"On {condition.hardware}, batch {condition.batch_size}, {condition.precision}.",
        f"Exponents: slope of the log-log curve over the {growth.FITTED} longest lengths.",
        "Faster from: length from which a step is shorter than the Transformer's; ~ extrapolated with the exponents.",
    ]
    if source:
        notes.append(f"Memory: peak, {style.MEMORY[source]}.")
    return Table(f"Speed and memory in {style.mode(condition.mode)}, times the Transformer's", columns, body, notes)


def _accuracy(score: TaskScore | None) -> str:
    if score is None:
        return DASH
    if score.mean is None:
        return score.trouble
    text = "FAIL" if score.failed_path_x else style.percent(score.mean)
    if score.deviation is not None and not score.failed_path_x:
        text += f" \N{PLUS-MINUS SIGN} {style.percent(score.deviation)}"
    return text + score.mark + (f" ({score.trouble})" if score.trouble else "")


def average(row: Row, tasks: Sequence[str]) -> str:
    """Mean over `tasks` in percent, with its deviation and marks."""
    mean, deviation = row.mean(tasks), row.deviation(tasks)
    if mean is None:
        return DASH
    spread = f" \N{PLUS-MINUS SIGN} {style.percent(deviation)}" if deviation is not None else ""
    return style.percent(mean) + spread + row.marks(tasks)


def _interval(interval: tuple[float, float] | None) -> str:
    return f"{style.percent(interval[0])} to {style.percent(interval[1])}" if interval else DASH


def _parameters(row: Row) -> str:
    low, high = row.parameters
    if low is None or high is None:
        return DASH
    sign = "" if row.within_lra_rule in (True, None) else " !"
    return (f"{low:,}" if low == high else f"{low:,} to {high:,}") + sign


def _ratio(one: float | None, other: float | None) -> str:
    return f"{style.number(one / other)}x" if one and other else DASH
