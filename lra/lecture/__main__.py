"""`python -m lra.lecture key=value ...`: writes `docs/lecture.md` from result files; `measure=true` adds to them."""

import sys
from collections.abc import Sequence
from pathlib import Path

from lra import hardware
from lra.errors import BadInput
from lra.lecture import claims, drawings, evidence, options, page, record

PUBLISHED, DOCS = Path("results/published"), Path("docs")


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 2 bad input or nothing to write about."""
    if set(arguments) & {"-h", "--help", "help"}:
        print(options.usage())
        return 0
    try:
        asked = options.parse(arguments)
        if asked.measure:
            from lra.lecture.measure import measure

            measure(asked.results or PUBLISHED / hardware.describe()["name"], asked, _say)
        else:
            write(asked.results or _only_published(), asked.preset)
    except BadInput as error:
        print(f"lra.lecture: {error}", file=sys.stderr)
        return 2
    return 0


def write(root: Path, preset: str) -> None:
    """Draws the page and its pictures from one results folder; raises BadInput without scores and speeds."""
    found = evidence.gather(root, preset)
    made = claims.claims(found)
    pictures = drawings.draw(found, made)
    folder = DOCS / page.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pictures.items():
        (folder / name).write_bytes(content)
    for name in set(drawings.PICTURES) - set(pictures):
        (folder / name).unlink(missing_ok=True)
    (DOCS / "lecture.md").write_text(page.markdown(found, made, set(pictures)), encoding="utf-8")
    for skipped in found.skipped:
        _say(f"skipped {skipped.path}: {skipped.reason}")
    if not found.measured:
        _say(f"{root / record.FILE} is missing: measure=true makes it")
    counts = page.counts(made)
    _say(f"wrote {DOCS / 'lecture.md'} and {len(pictures)} pictures: {counts}")


def _only_published() -> Path:
    """The one folder of published results; raises BadInput when there is none, or more than one to choose from."""
    folders = sorted(path for path in PUBLISHED.glob("*") if path.is_dir())
    chosen = [path for path in folders if (path / record.FILE).exists()] or folders
    if not chosen:
        raise BadInput(f"there are no published results: {PUBLISHED} has no folder (results=FOLDER names another)")
    if len(chosen) > 1:
        raise BadInput(f"several published results; choose one: {', '.join(f'results={path}' for path in chosen)}")
    return chosen[0]


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
