"""`python -m lra.check model=bigbird,local`: holds variants to the rules that every variant keeps (`lra.conformance`).

Names, dotted classes, comma lists and `all`; `rules=1,2` picks rules.
Exit codes: 0 all hold, 2 bad input, 3 a rule is broken.
"""

import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from lra.errors import BadInput, unknown
from lra.variants import Variant, resolve, variant_names

if TYPE_CHECKING:
    from lra.subject import Scale

KEYS = ("model", "rules")
RULE_NUMBERS = range(1, 9)


class RuleResult(NamedTuple):
    """How a variant stands to one rule: `holds`, `broken` or `exempt`, with the figures or the reason."""

    rule: int
    title: str
    status: str
    detail: str


def check(
    variant: Variant,
    *,
    rules: Iterable[int] = RULE_NUMBERS,
    scale: "Scale | None" = None,
    keywords: dict[str, Any] | None = None,
) -> list[RuleResult]:
    """Holds a variant to `rules`, at full size unless a `lra.subject.Scale` is given, `keywords` over its own."""
    from lra import conformance, subject  # they bring jax, which a misspelt name need not wait for

    results = []
    with conformance.exact_products():
        variant_under_test = subject.Subject(variant, scale or subject.FULL, keywords)
        for number in rules:
            title, rule = conformance.RULES[number]
            try:
                status, detail = "holds", rule(variant_under_test)
            except subject.Exempt as reason:
                status, detail = "exempt", str(reason)
            except conformance.Violation as violation:
                status, detail = "broken", str(violation)
            except Exception as error:  # the variant's own code failed; the other rules are still worth knowing
                place = traceback.extract_tb(error.__traceback__)[-1]
                status, detail = "broken", f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            results.append(RuleResult(number, title, status, detail))
    return results


def parse(arguments: Sequence[str]) -> tuple[list[Variant], list[int]]:
    """Variants and rules of a command line; raises BadInput."""
    given = {"model": "", "rules": ",".join(map(str, RULE_NUMBERS))}
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in KEYS:
            raise unknown("key", key, KEYS)
        given[key] = value
    if not given["model"]:
        raise BadInput(f"model is missing, for example model=bigbird. Allowed: all, {', '.join(variant_names())}")
    names = variant_names() if given["model"] == "all" else [name.strip() for name in given["model"].split(",")]
    rules = given["rules"].split(",")
    for rule in rules:
        if rule not in map(str, RULE_NUMBERS):
            raise unknown("rule", rule, map(str, RULE_NUMBERS))
    return [resolve(name) for name in names], [int(rule) for rule in rules]


def table_of(name: str, results: Iterable[RuleResult]) -> Table:
    """The results of one variant as a table."""
    table = Table("rule", "", "", "measured", title=name, title_justify="left")
    for result in results:
        color = {"holds": "green", "broken": "bold red", "exempt": "dim"}[result.status]
        table.add_row(str(result.rule), result.title, f"[{color}]{result.status}[/]", result.detail)
    return table


def main(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    console = Console()
    try:
        variants, rules = parse(arguments)
        broken = 0
        for variant in variants:
            with console.status(f"checking {variant.name}"):
                results = check(variant, rules=rules)
            console.print(table_of(variant.name, results))
            broken += any(result.status == "broken" for result in results)
    except BadInput as problem:
        print(f"lra.check: {problem}", file=sys.stderr)
        return 2
    print(f"{len(variants) - broken} of {len(variants)} variants keep the rules")
    return 3 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
