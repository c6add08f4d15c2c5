"""`lecture.json` in a results folder: the measurements that only the lecture's claims need, part by part."""

from pathlib import Path
from typing import Any

from lra import record
from lra.errors import BadInput

SCHEMA_VERSION = 1
FILE = "lecture.json"


def read(root: Path) -> dict[str, Any]:
    """The parts of `root/lecture.json` by name, none without a file; raises BadInput for a damaged or foreign one."""
    content = record.read_json(root / FILE)
    if content is None:
        return {}
    if content.get("schema_version") != SCHEMA_VERSION or not isinstance(content.get("parts"), dict):
        raise BadInput(f"{root / FILE}: not of schema_version {SCHEMA_VERSION}. Move it away and measure again.")
    parts: dict[str, Any] = content["parts"]
    return parts


def write_part(root: Path, name: str, part: dict[str, Any]) -> None:
    """Puts one part in place of what was there under its name."""
    parts = read(root) | {name: part}
    content = {"schema_version": SCHEMA_VERSION, "parts": dict(sorted(parts.items()))}
    record.write_json(root / FILE, content)
