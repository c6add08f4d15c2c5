"""Each rule catches what it is there for; the command's exit codes."""

import re

import pytest

from lra.check import check, main, parse
from lra.errors import BadInput
from lra.subject import TOY
from lra.variants import Variant

CAUGHT = {
    "Shortens": (1, r"length 1: the output has shape \(1, 0, 32\)"),
    "IgnoresMask": (2, r"noise of 1e3 in the padding: outputs differ by \d"),
    "TakesIntegerMask": (2, r"a mask of int32 passes"),
    "CountsPaddedLength": (2, r"37 tokens alone and padded to 65"),
    "AveragesNothing": (3, r"float32: an example without a real token yields \d"),
    "NotFinite": (3, r"float32: gradients are not finite"),
    "SharesStatistics": (4, r"example 0 beside others multiplied by 100: outputs differ by \d"),
    "DeadParameter": (5, r"key_bias.* gets a gradient of \d.*e-1\d"),
    "CutOffGradient": (5, r"query.* gets a gradient of 0\.0e\+00"),
    "WrongPattern": (6, r"length 12: 48 of 288 pairs disagree; head 0, query 0, key 5 is used but not in"),
    "WrongWeights": (6, r"against dense attention under the pattern: outputs differ by \d"),
    "MixesHeads": (6, r"head 0 depends on values of head 1"),
    "DenseSoldAsEfficient": (7, r"compute grows as L\^1\.\d+, declared 1: .* at 4096"),
    "MasksDense": (7, r"hold the whole matrix .* declares `simulated`"),
    "CountsInPython": (8, r"outside of its variables"),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_rule_catches(name: str) -> None:
    rule, message = CAUGHT[name]
    (result,) = check(Variant(name, f"tests.lra.broken_variants.{name}"), rules=[rule], scale=TOY)
    assert result.status == "broken"
    assert re.search(message, result.detail), result.detail


@pytest.mark.slow  # the rows of the conformance tests are sound too
def test_sound_mixer_keeps_every_rule() -> None:
    results = check(Variant("Sound", "tests.lra.broken_variants.Sound"), scale=TOY)
    assert [(result.rule, result.status) for result in results] == [
        (rule, "exempt" if rule == 6 else "holds") for rule in range(1, 9)
    ], results


def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model=tests.lra.broken_variants.IgnoresMask", "rules=1"]) == 0
    assert main(["model=tests.lra.broken_variants.IgnoresMask", "rules=1,2"]) == 3
    assert "0 of 1 variants keep the rules" in capsys.readouterr().out
    assert main(["model=bigbrid"]) == 2
    assert "Did you mean bigbird?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["modle=local"], ["model=local", "rules=9"], [], ["model=local,nothing.Here"]])
def test_bad_input(arguments: list[str]) -> None:
    with pytest.raises(BadInput):
        parse(arguments)


def test_all_and_lists() -> None:
    everything, rules = parse(["model=all"])
    assert "transformer" in [variant.name for variant in everything]
    assert rules == list(range(1, 9))
    some, rules = parse(["model=local,truncated", "rules=6"])
    assert [variant.name for variant in some] == ["local", "local"]
    assert rules == [6]
