"""The command line of `python -m lra.lecture`: key=value arguments, checked with one clear message each."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from lra.errors import BadInput, unknown
from lra.options import listed, read

PARTS = ("low_rank", "features", "orders", "share", "reach")
HELP = {
    "results": "folder with scores/, speed/ and lecture.json (default: the one under results/published; measured: this "
    "machine's)",
    "preset": "whose scores and sizes (default mini)",
    "measure": "true: measure what needs a model, on one core in a few minutes, into <results>/lecture.json",
    "checkpoint": "with measure: a comma list of work folders of finished transformer runs, for their attention",
    "parts": f"with measure: a comma list of {', '.join(PARTS)}; default: all (low_rank only with a checkpoint)",
}


@dataclass(frozen=True)
class Options:
    """What the command was asked for."""

    results: Path | None = None
    preset: str = "mini"
    measure: bool = False
    checkpoint: tuple[Path, ...] = ()
    parts: tuple[str, ...] = ()


def usage() -> str:
    """All keys, one a line."""
    return "\n".join(["python -m lra.lecture [key=value ...]", *(f"  {key:<10} {text}" for key, text in HELP.items())])


def parse(arguments: Sequence[str]) -> Options:
    """Options from `key=value` arguments; raises BadInput."""
    given = read(arguments, HELP)
    assert {field.name for field in fields(Options)} == set(HELP)
    if given.get("measure", "false") not in ("true", "false"):
        raise BadInput(f"measure={given['measure']}: expected true or false")
    asked = Options(
        results=Path(given["results"]) if "results" in given else None,
        preset=given.get("preset", "mini"),
        measure=given.get("measure") == "true",
        checkpoint=tuple(map(Path, listed(given.get("checkpoint", "")))),
        parts=listed(given.get("parts", "")),
    )
    _check(asked)
    return asked


def _check(asked: Options) -> None:
    for part in asked.parts:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
    for key in ("checkpoint", "parts"):
        if getattr(asked, key) and not asked.measure:
            raise BadInput(f"{key} goes with measure=true")
    if "low_rank" in asked.parts and not asked.checkpoint:
        raise BadInput("low_rank needs checkpoint=<work folder of a finished transformer run>")
