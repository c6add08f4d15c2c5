"""The figures under the chart as records for CSV and JSON, unrounded; what is missing is None."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lra.report import growth, published
from lra.report.load import MEMORY_SOURCES
from lra.report.rows import FIVE, PATH_X, SIX, Comparison, Condition, Row, baselines, ranked


def of_variants(rows: Sequence[Row], comparison: Comparison) -> list[dict[str, Any]]:
    """One flat record a row, numbers unrounded, None where something is missing. Accuracies in percent."""
    return [_record(row, comparison) for row in ranked(rows, comparison.tasks)]


def _record(row: Row, comparison: Comparison) -> dict[str, Any]:
    record: dict[str, Any] = {"variant": row.key, "family": row.family, "preset": comparison.preset}
    for task in SIX:
        score = row.tasks.get(task)
        interval = score.interval if score else None
        record |= {
            f"{task}_mean": _percent(score.mean if score else None),
            f"{task}_deviation": _percent(score.deviation if score else None),
            f"{task}_low": _percent(interval[0] if interval else None),
            f"{task}_high": _percent(interval[1] if interval else None),
            f"{task}_seeds": len(score.complete) if score else 0,
            f"{task}_failed_runs": len(score.runs) - len(score.complete) if score else 0,
            f"{task}_source": " ".join(sorted({run.source for run in score.runs if run.source})) if score else None,
            f"{task}_config": score.config_hash if score else None,
        }
    path_x = row.tasks.get(PATH_X)
    point = next((point for point in comparison.points if point.row.key == row.key), None)
    condition = comparison.condition if point else None
    low, high = row.parameters
    return record | {
        "pathx_at_chance": path_x.failed_path_x if path_x and path_x.mean is not None else None,
        "mean_of_5": _percent(row.mean(FIVE)),
        "mean_of_5_deviation": _percent(row.deviation(FIVE)),
        "mean_of_6": _percent(row.mean(SIX)),
        "mean_of_6_deviation": _percent(row.deviation(SIX)),
        "parameters_low": low,
        "parameters_high": high,
        "within_lra_rule": row.within_lra_rule,
        "hardware": condition.hardware if condition else None,
        "mode": condition.mode if condition else None,
        "length": condition.length if condition else None,
        "batch_size": condition.batch_size if condition else None,
        "precision": condition.precision if condition else None,
        "sequences_per_second": point.speed if point else None,
        "peak_bytes": point.memory if point else None,
        "peak_bytes_source": comparison.memory_source if point and point.memory else None,
    }


def of_cells(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One flat record a measured cell, with its multiples of the Transformer's cell on the same hardware and work."""
    reference = next((row for row in rows if row.is_reference), None)
    found = []
    for row in rows:
        for hardware, cells in sorted(row.cells.items()):
            for cell in sorted(cells, key=lambda c: (c.mode, c.length, c.batch_size, c.precision)):
                like = Condition(hardware, cell.mode, cell.length, cell.batch_size, cell.precision)
                base = like.cell(reference) if reference else None
                speed, base_speed = cell.sequences_per_second, base.sequences_per_second if base else None
                record: dict[str, Any] = {
                    "variant": row.key,
                    "family": row.family,
                    "hardware": hardware,
                    "mode": cell.mode,
                    "length": cell.length,
                    "batch_size": cell.batch_size,
                    "precision": cell.precision,
                    "status": cell.status,
                    "simulated": cell.simulated,
                    "step_seconds": cell.step_seconds,
                    "step_seconds_p10": cell.spread[0] if cell.spread else None,
                    "step_seconds_p90": cell.spread[1] if cell.spread else None,
                    "sequences_per_second": speed,
                    "speed_of_transformer": speed / base_speed if speed and base_speed and not cell.simulated else None,
                    "flops_per_step": cell.flops_per_step,
                    "drift": cell.drift,
                }
                for source in MEMORY_SOURCES:
                    own, other = cell.peak_bytes.get(source), base.peak_bytes.get(source) if base else None
                    record[f"peak_bytes_{source}"] = own
                    record[f"{source}_memory_of_transformer"] = own / other if own and other else None
                found.append(record)
    return found


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 6)


def as_json(rows: Sequence[Row], comparison: Comparison) -> str:
    """Everything the tables show, unrounded, and why rows are missing from the chart."""
    content = {
        "preset": comparison.preset,
        "tasks_of_the_chart": comparison.tasks,
        "scores": of_variants(rows, comparison),
        "baselines": {
            name: {task: [_percent(accuracy) for accuracy in found] for task, found in by_task.items()}
            for name, by_task in baselines(rows).items()
        },
        "speed": of_cells(rows),
        "growth": _growth(rows, comparison.condition) if comparison.condition else [],
        "published": [asdict(line) for line in published.scores()],
        "not_in_the_chart": {row.key: reason for row, reason in comparison.absent},
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _growth(rows: Sequence[Row], condition: Condition) -> list[dict[str, Any]]:
    """Exponents and crossovers of the rows that were measured like `condition`, at any length."""
    times = {one.row.key: one for one in growth.step_time(rows, condition)}
    memories = {one.row.key: one for one in growth.peak_memory(rows, condition)[0]}
    base = next((one for one in times.values() if one.row.is_reference), None)
    found = []
    for key, one in times.items():
        crossing = growth.crossover(one, base) if base and one is not base else None
        record: dict[str, Any] = {"variant": key, "hardware": condition.hardware, "mode": condition.mode}
        found.append(
            record
            | {
                "time_exponent": one.exponent,
                "memory_exponent": memories[key].exponent if key in memories else None,
                "faster_from": crossing.length if crossing else None,
                "faster_from_is": crossing.kind if crossing else None,
            }
        )
    return found
