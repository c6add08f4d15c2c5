"""Every variant keeps the rules of `lra.conformance`: at toy sizes here, at full size in the slow tests."""

import pytest

from lra.check import RuleResult, check
from lra.subject import TOY
from lra.variants import Variant
from tests.models.test_variants import variant_class
from tests.models.variants import VARIANTS

CASES = {
    name + "".join(f",{key}={value}" for key, value in options.items()): (row, options)
    for name, row in VARIANTS.items()
    for options in [{}, *row.options]
}
QUICK_RULES = (1, 2, 3, 4, 5, 6, 8)
PADDING, PATTERN = 2, 6


def require_kept(results: list[RuleResult]) -> None:
    broken = [f"rule {r.rule} ({r.title}): {r.detail}" for r in results if r.status == "broken"]
    assert not broken, "\n".join(broken)


def check_case(case: str, rules: tuple[int, ...]) -> None:
    row, options = CASES[case]
    require_kept(check(Variant(case, row.target), rules=rules, scale=TOY, keywords={**row.toy, **options}))


@pytest.mark.parametrize("case", CASES)
def test_rules_at_toy_sizes(case: str) -> None:
    row, options = CASES[case]
    most_telling = (PATTERN,) if hasattr(variant_class(row), "pattern") else (PADDING,)  # what an option changes first
    check_case(case, most_telling if options else QUICK_RULES)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case, (_, options) in CASES.items() if options])
def test_options_keep_all_rules(case: str) -> None:
    check_case(case, QUICK_RULES)


# one that declares a square can hardly grow faster
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if min(variant_class(row).growth) >= 2 else [])
        for name, row in VARIANTS.items()
    ],
)
def test_cost_grows_as_declared(name: str) -> None:
    require_kept(check(Variant(name, VARIANTS[name].target), rules=(7,), scale=TOY))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_rules_at_full_size(name: str) -> None:
    require_kept(check(Variant(name, VARIANTS[name].target)))
