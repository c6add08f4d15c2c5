"""Input that cannot be used."""

import difflib
from collections.abc import Iterable


class BadInput(Exception):
    """One message that names the key or value and what is allowed; the command prints it and exits with code 2."""


def unknown(kind: str, given: str, allowed: Iterable[str]) -> BadInput:
    """The message for a name that is not among the allowed ones, with the nearest of them."""
    choices = list(allowed)
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.5)
    guess = f" Did you mean {near[0]}?" if near else ""
    return BadInput(f"unknown {kind} {given!r}.{guess} Allowed: {', '.join(choices)}")
