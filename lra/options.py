"""Options of a command that are no part of a run's configuration: `key=value`, alone or among the overrides."""

from collections.abc import Mapping, Sequence
from typing import Any

from lra.errors import BadInput, unknown


def read(arguments: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """The text of every option given; raises BadInput for one not `known` (key to help), without a value or twice."""
    given: dict[str, str] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise BadInput(f"cannot read {argument!r}: expected key=value. Keys: {', '.join(known)}")
        if key not in known:
            raise unknown("key", key, known)
        if key in given:
            raise BadInput(f"{key} is given twice")
        if not text:
            raise BadInput(f"{key} has no value: {known[key]}")
        given[key] = text
    return given


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma list, with or without brackets around it."""
    return tuple(part.strip() for part in text.strip("[]").split(",") if part.strip())


def take(arguments: Sequence[str], kinds: Mapping[str, type]) -> tuple[dict[str, Any], list[str]]:
    """The options among `arguments`, and the other arguments; an option that is not given is False or None.

    A bool is given as true or false, an int as a whole number from 1 on, a str as any text; raises BadInput for
    anything else.
    """
    options: dict[str, Any] = {key: False if kind is bool else None for key, kind in kinds.items()}
    others = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in kinds:
            others.append(argument)
        elif kinds[key] is bool:
            options[key] = _flag(key, value)
        elif kinds[key] is str:
            options[key] = value
        else:
            options[key] = _count(key, value)
    return options, others


def _flag(key: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise BadInput(f"{key}={value}: give true or false")
    return value == "true"


def _count(key: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise BadInput(f"{key}={value}: give a whole number from 1 on")
    return int(value)
