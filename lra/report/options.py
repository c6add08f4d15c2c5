"""The command line: key=value arguments, checked with one clear message each."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lra.errors import BadInput, unknown
from lra.options import listed, read
from lra.report.load import MODES

HELP = {
    "results": "folder with scores/ and speed/ (default results/runs)",
    "preset": "the size of the work to report (default mini)",
    "published": "true: report what this project publishes, results/published/<machine>, instead of your own runs",
    "task": "a comma list; default: the five, or what all variants share",
    "variant": "a comma list; default: all that have results",
    "mode": "speed in train (default) or inference",
    "length": "sequence length of the speed axis; default: the longest measured by all",
    "hardware": "a folder of speed/; default: the one most variants were measured on",
    "paper": "true: the LRA paper's circles beside yours, everything as a multiple of the Transformer's",
    "log": "true or false: speed on a logarithmic axis; default: true where one is over ten times as fast as another",
}


@dataclass(frozen=True)
class Options:
    """What `python -m lra.report` was asked for."""

    results: Path = Path("results/runs")
    preset: str = "mini"
    published: bool = False
    paper: bool = False
    task: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    mode: str = "train"
    length: int | None = None
    hardware: str | None = None
    log: bool | None = None


def usage() -> str:
    """All keys, one a line."""
    lines = [f"  {key:<10} {text}" for key, text in HELP.items()]
    calls = ["python -m lra.report [key=value ...]", "python -m lra.report compare VARIANT VARIANT [key=value ...]"]
    return "\n".join([*calls, *lines])


def parse(arguments: Sequence[str]) -> Options:
    """Options from `key=value` arguments; raises BadInput."""
    given = {key: _value(key, text) for key, text in read(arguments, HELP).items()}
    if given.get("published") and "results" in given:
        raise BadInput("published=true has its own folders: leave results out")
    return replace(Options(), **given)


def _value(key: str, text: str) -> Any:
    kind = {field.name: field.type for field in fields(Options)}[key]
    if kind in (bool, bool | None):
        if text.lower() not in ("true", "false"):
            raise BadInput(f"{key}={text}: expected true or false")
        return text.lower() == "true"
    if key == "length":
        if not text.isdecimal() or int(text) == 0:
            raise BadInput(f"length={text}: expected a whole number above 0")
        return int(text)
    if key == "mode" and text not in MODES:
        raise unknown("mode", text, MODES)
    if kind is Path:
        return Path(text)
    if key in ("task", "variant"):
        return listed(text)
    return text
