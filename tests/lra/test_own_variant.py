"""The variant that CONTRIBUTING shows, as a user has it: a file outside this tree, in every command that takes one."""

import json
import re
import sys
from pathlib import Path

import pytest

from lra import bench, cells, check, profile
from lra.report import __main__ as report
from lra.subject import TOY
from lra.variants import Variant, resolve
from tests.lra import tiny

ROOT = Path(__file__).parents[2]
NAME = "my_package.mean.RunningMean"
ARGUMENTS = [f"model={NAME}", "task=listops", "preset=mini", *tiny.SMALL, *tiny.SMALL_CELLS, "speed.modes=[inference]"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The file that CONTRIBUTING shows, in a package that this process and its children find."""
    name, code = re.search(r"```python\n# (\S+)\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL).groups()
    file = tmp_path / "elsewhere" / name
    file.parent.mkdir(parents=True)
    file.write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    yield code
    for module in [module for module in sys.modules if module.split(".")[0] == "my_package"]:
        del sys.modules[module]


def test_it_is_complete_in_thirty_lines(own):
    assert len(own.splitlines()) <= 30
    assert NAME in (ROOT / "CONTRIBUTING.md").read_text()


def test_it_keeps_the_rules(own):
    results = check.check(resolve(NAME), scale=TOY)
    assert [(each.rule, each.status) for each in results] == [
        (rule, "exempt" if rule == 6 else "holds") for rule in range(1, 9)
    ], results


@pytest.mark.usefixtures("signals_restored")
def test_bench_profile_and_plot(own, tmp_path, encoded, monkeypatch, capsys):
    monkeypatch.setattr(cells, "DRIFT_ALLOWED", float("inf"))  # nothing is measured again
    own_keyword = "model.window=4"
    places = tiny.places(tmp_path, encoded)
    assert bench.main([*ARGUMENTS, own_keyword, *places]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"{NAME}@\w+ +listops +0 ", out.replace("\n", " "))
    (score,) = (json.loads(file.read_text()) for file in (tmp_path / "results" / "scores").rglob("seed0.json"))
    assert (score["variant"], score["family"], score["status"]) == (NAME, "user", "complete")
    assert score["config"]["model"] == {"_target_": NAME, "window": 4}

    assert profile.main([*ARGUMENTS, own_keyword, *places]) == 0
    out, err = capsys.readouterr()
    assert re.search(rf"{NAME}@\w+ +16 +[\d.]+ ", out)
    assert "sequences/s" not in err  # bench had measured it

    assert report.main([f"results={tmp_path / 'results'}", "preset=mini", "mode=inference"]) == 0
    assert "RunningMean" in (tmp_path / "results" / "plots" / "table.md").read_text()
    assert "RunningMean" in (tmp_path / "results" / "plots" / "chart.svg").read_text()


@pytest.mark.slow
def test_it_keeps_the_rules_at_full_size(own, capsys):
    assert check.main([f"model={NAME}"]) == 0
    assert "1 of 1 variants keep the rules" in capsys.readouterr().out


@pytest.mark.slow
def test_broken_it_is_found_out(own, tmp_path):
    """The example is held to the rules and not only run: without its mask it breaks one."""
    code = own.replace("jnp.where(real, v, 0)", "v")
    assert code != own
    (tmp_path / "elsewhere" / "my_package" / "wrong.py").write_text(code)
    (result,) = check.check(Variant("wrong", "my_package.wrong.RunningMean"), rules=[2], scale=TOY)
    assert result.status == "broken"
