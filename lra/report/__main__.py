"""`python -m lra.report key=value ...`: draws the pictures and writes the tables from result files."""

import sys
from collections.abc import Sequence
from pathlib import Path

from lra.errors import BadInput, unknown
from lra.report import formats, load, notes, options, page, papers, pictures, records, rows, tables
from lra.report.options import Options

PUBLISHED = Path("results/published")
WRITTEN = {  # every file that this program may write, so that a stale one is removed
    *("chart.png", "chart.svg", "step_time.svg", "memory.svg", "heat_map.svg", "training.svg"),
    *("table.md", "table.tex", "table.csv", "speed.csv", "table.json", "page.html"),
}


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 2 bad input or nothing to report."""
    if set(arguments) & {"-h", "--help", "help"}:
        print(options.usage())
        return 0
    try:
        if arguments[:1] == ["compare"]:
            return compare(arguments[1:])
        asked = options.parse(arguments)
        for results in _read(asked):
            report(results, asked)
    except BadInput as error:
        print(f"lra.report: {error}", file=sys.stderr)
        return 2
    return 0


def report(results: load.Results, asked: Options) -> None:
    """Writes `plots` into a results folder, prints the table and what was written and skipped."""
    chosen = _choose(results, asked)
    comparison = rows.compare_rows(chosen, asked.preset, asked.task, asked.mode, asked.length, asked.hardware)
    table = tables.scores(chosen, comparison, notes.about_scores(chosen, asked.preset))
    log = comparison.is_wide if asked.log is None else asked.log
    drawn = pictures.draw(chosen, comparison, paper=asked.paper, log=log)
    files: dict[str, str | bytes] = {**drawn, **_tables(table, chosen, comparison)}
    files["page.html"] = page.build(results, comparison, log=log)
    folder = results.root / "plots"
    pictures.write_files(folder, files)
    for name in WRITTEN - set(files):
        (folder / name).unlink(missing_ok=True)
    _say(results, table, comparison, folder, list(files))


def compare(arguments: Sequence[str]) -> int:
    """Paired tests of two variants on their stored predictions."""
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) != 2:
        raise BadInput(f"compare needs two variants, for example: compare bigbird transformer (found {len(names)})")
    asked = options.parse([argument for argument in arguments if "=" in argument])
    from lra.report import compare as paired

    for results in _read(asked):
        first, second = (_choose(results, Options(preset=asked.preset, variant=(name,)))[0] for name in names)
        table, missing = paired.compare(first, second, asked.task)
        name = f"compare-{first.key}-{second.key}.md"
        folder = results.root / "plots"
        pictures.write_files(folder, {name: formats.markdown(table)})
        _print(table, [*missing, f"wrote {folder / name}"])
    return 0


def _tables(table: formats.Table, chosen: list[rows.Row], comparison: rows.Comparison) -> dict[str, str]:
    printed = [table, tables.intervals(chosen, comparison)]
    if comparison.condition:
        costs = (module.costs(chosen, comparison.condition) for module in (tables, papers))
        printed += [found for found in costs if found]
    printed.append(papers.accuracy(chosen, comparison))
    return {
        "table.md": "\n".join(formats.markdown(one) for one in printed),
        "table.tex": "\n".join(formats.latex(one) for one in printed),
        "table.csv": formats.comma_separated(records.of_variants(chosen, comparison)),
        "speed.csv": formats.comma_separated(records.of_cells(chosen)),
        "table.json": records.as_json(chosen, comparison),
    }


def _read(asked: Options) -> list[load.Results]:
    """The user's results, or those of every machine that something of the preset is published for."""
    if not asked.published:
        return [load.load(asked.results)]
    found = [load.load(path) for path in sorted(PUBLISHED.glob("*")) if path.is_dir()]
    found = [results for results in found if results.presets]  # a folder may hold other measurements alone
    if not found:
        raise BadInput(f"there are no published results: {PUBLISHED} has no scores and no speeds")
    return [results for results in found if asked.preset in results.presets] or found


def _choose(results: load.Results, asked: Options) -> list[rows.Row]:
    """The rows asked for; raises BadInput when there are none."""
    if not results.presets:
        more = "".join(f"\n  skipped {skipped.path}: {skipped.reason}" for skipped in results.skipped)
        ours = "published=true shows this project's own"
        raise BadInput(f"no results in {results.root} yet (make bench writes some; {ours}){more}")
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


def _print(table: formats.Table, lines: Sequence[str]) -> None:
    from rich.console import Console

    # a file or a pipe is as wide as the table needs
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    console.print(formats.terminal(table, console.width))
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _say(
    results: load.Results, table: formats.Table, comparison: rows.Comparison, folder: Path, written: list[str]
) -> None:
    lines = [f"not in the chart: {row.label}: {reason}" for row, reason in comparison.absent]
    lines += [f"skipped {skipped.path}: {skipped.reason}" for skipped in results.skipped]
    counts = f"{len(results.scores)} scores and {len(results.speeds)} speed files read, {len(results.skipped)} skipped"
    _print(table, [*lines, counts, f"wrote {folder}/: {', '.join(written)}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
