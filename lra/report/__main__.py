"""`python -m lra.report key=value ...`: draws the chart and writes the tables from result files."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lra.errors import BadInput, unknown
from lra.report import load, notes, options, rows, tables
from lra.report.options import Options

PUBLISHED = Path("results/published")


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 2 bad input or nothing to report."""
    if set(arguments) & {"-h", "--help", "help"}:
        print(options.usage())
        return 0
    try:
        asked = options.parse(arguments)
        for root in _roots(asked):
            report(root, asked)
    except BadInput as error:
        print(f"lra.report: {error}", file=sys.stderr)
        return 2
    return 0


def report(root: Path, asked: Options) -> None:
    """Reads one results folder, writes `root/plots`, prints the table and what was written and skipped."""
    results = load.load(root)
    chosen = _choose(results, asked)
    comparison = rows.compare_rows(chosen, asked.preset, asked.task, asked.mode, asked.length, asked.hardware)
    about = notes.about_scores(chosen, asked.preset)
    table = tables.scores(chosen, comparison, about)
    files = {
        "table.md": tables.markdown(table).encode(),
        "table.csv": tables.comma_separated(tables.records(chosen, comparison)).encode(),
    }
    if comparison.points:
        from lra.report import chart  # matplotlib takes a second to import: only once there is something to draw

        figure = chart.draw(comparison, notes.about_chart(comparison, chosen), log=asked.log)
        files |= {"chart.svg": chart.svg(figure), "chart.png": chart.png(figure)}
    _write(root / "plots", files)
    _say(results, table, comparison, root / "plots", list(files))


def _roots(asked: Options) -> list[Path]:
    if not asked.published:
        return [asked.results]
    roots = sorted(path for path in PUBLISHED.glob("*") if path.is_dir())
    if not roots:
        raise BadInput(f"there are no published results: {PUBLISHED} has no folder")
    return roots


def _choose(results: load.Results, asked: Options) -> list[rows.Row]:
    """The rows asked for; raises BadInput when there are none."""
    if not results.presets:
        more = "".join(f"\n  skipped {skipped.path}: {skipped.reason}" for skipped in results.skipped)
        raise BadInput(f"no results in {results.root} (make bench writes some){more}")
    if asked.preset not in results.presets:
        raise unknown("preset", asked.preset, results.presets)
    found = rows.join(results, asked.preset)
    names = {name: row for row in found for name in (row.key, row.label)}
    for name in asked.variant:
        if name not in names:
            raise unknown("variant", name, [row.key for row in found])
    known = {task for row in found for task in row.tasks}
    for task in asked.task:
        if task not in known:
            raise unknown("task", task, sorted(known))
    machines = {machine for row in found for machine in row.cells}
    if asked.hardware and asked.hardware not in machines:
        raise unknown("hardware", asked.hardware, sorted(machines))
    keys = {names[name].key for name in asked.variant}
    return [row for row in found if row.key in keys] if keys else found


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Writes each file in one go; removes a chart of an earlier call that this one could not draw."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_bytes(content)
        temporary.replace(folder / name)
    for name in {"chart.png", "chart.svg"} - set(files):
        (folder / name).unlink(missing_ok=True)


def _say(
    results: load.Results, table: tables.Table, comparison: rows.Comparison, folder: Path, written: list[str]
) -> None:
    from rich.console import Console

    # a file or a pipe is as wide as the table needs
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    console.print(tables.terminal(table, console.width))
    for row, reason in comparison.absent:
        console.print(f"not in the chart: {row.label}: {reason}", markup=False, highlight=False, soft_wrap=True)
    for skipped in results.skipped:
        console.print(f"skipped {skipped.path}: {skipped.reason}", markup=False, highlight=False, soft_wrap=True)
    read = f"{len(results.scores)} scores and {len(results.speeds)} speed files read, {len(results.skipped)} skipped"
    console.print(f"{read}\nwrote {folder}/: {', '.join(written)}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
