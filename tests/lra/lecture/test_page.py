"""The page: verdicts follow from the files, what is missing stays missing, and a second call writes the same bytes."""

import json
import shutil
from pathlib import Path

import pytest

from lra.lecture import claims, drawings, evidence
from lra.lecture.__main__ import main
from lra.lecture.drawings import PICTURES
from lra.lecture.verdicts import Verdict
from lra.report import compare
from tests.lra.lecture import made_up

HOLDS, FAILS, UNTOLD = Verdict.holds, Verdict.fails, Verdict.untold


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return made_up.everything(tmp_path_factory.mktemp("made") / "results/published/toy")


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch) -> Path:
    """The only published results below the current folder, to be changed at will."""
    shutil.copytree(made, tmp_path / "results/published/toy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare, "DRAWS", 200)
    return Path("results/published/toy")


@pytest.fixture
def blank(monkeypatch) -> None:
    """Pictures without content, for tests of which there are and of what the page says."""
    monkeypatch.setattr(drawings, "OF_PART", dict.fromkeys(drawings.OF_PART, lambda part: b"blank"))
    monkeypatch.setattr(drawings, "_summary", lambda made: b"blank")


def verdicts(root: Path) -> dict[str, Verdict]:
    return {claim.key: claim.verdict for claim in claims.claims(evidence.gather(root, "mini"))}


def figures(root: Path, key: str) -> list[tuple[str, Verdict | None]]:
    made = {claim.key: claim for claim in claims.claims(evidence.gather(root, "mini"))}
    return [(figure.missing, figure.verdict) for figure in made[key].figures]


def test_verdicts_follow_from_the_figures(root):
    found = verdicts(root)
    holding = (
        "quadratic",
        "share",
        "local",
        "strided",
        "global",
        "hybrid",
        "low_rank",
        "orders",
        "order",
        "chart-local",
    )
    assert {key: found[key] for key in holding} == dict.fromkeys(holding, HOLDS)
    assert found["identical"] is FAILS
    assert found["chart-reformer"] is FAILS  # made up to be far better
    assert figures(root, "chart-synthesizer")[1] == ("", FAILS)  # made up to be slower
    assert figures(root, "chart-linear-transformer")[2] == ("", HOLDS)  # made up to be the fastest


def test_other_results_give_other_verdicts(root):
    before = verdicts(root)
    for task in evidence.FIVE:
        made_up.score(root, "reformer", task, 0.4)
        made_up.score(root, "hybrid", task, 0.45)
    made_up.speed(root, "local", 0.9)
    made_up.lecture(
        root,
        low_rank=made_up.low_rank(0.6),
        share=made_up.share(0.3),
        features=made_up.features(1e-6),
        orders=made_up.orders(1.5),
    )
    after = verdicts(root)
    changed = {key: verdict for key, verdict in after.items() if verdict is not before[key]}
    assert changed == {
        "chart-reformer": HOLDS, "hybrid": FAILS, "chart-local": FAILS, "low_rank": FAILS, "share": FAILS,
        "identical": HOLDS, "orders": FAILS,
    }  # fmt: skip


def test_intervals_that_reach_over_an_edge_tell_nothing(root):
    made_up.speed(root, "local", 0.3, spread=0.5)
    assert figures(root, "chart-local") == [("", HOLDS), ("", UNTOLD)]
    made_up.lecture(root, low_rank=made_up.low_rank(0.24, half=0.02), share=made_up.share(0.51))
    assert {key: verdicts(root)[key] for key in ("low_rank", "share")} == {"low_rank": UNTOLD, "share": UNTOLD}


def test_missing_figures_are_named_and_tell_nothing(root):
    (root / "scores/mini/bigbird/text/seed0.json").unlink()
    (root / "scores/mini/linformer/text/seed0.predictions.npz").unlink()
    shutil.rmtree(root / "scores/mini/local")
    (root / "speed/toy-cpu/mini/local.json").unlink()
    made_up.lecture(root, low_rank=None, features=None, orders=None, share=None, reach=None)
    assert figures(root, "chart-bigbird")[0] == ("bigbird: no score for Text (not run)", UNTOLD)
    assert figures(root, "chart-linformer")[0] == (
        f"{root}/scores/mini/linformer/text/seed0.predictions.npz is missing",
        UNTOLD,
    )
    assert figures(root, "chart-local") == [("local: not run", UNTOLD), ("local: not timed at length 4,096", UNTOLD)]
    parts = ("quadratic", "share", "local", "strided", "global", "low_rank", "orders", "order", "identical")
    assert {key: verdicts(root)[key] for key in parts} == dict.fromkeys(parts, UNTOLD)
    assert main([]) == 0
    assert {path.name for path in Path("docs/lecture").iterdir()} == {"summary.svg"}
    page = Path("docs/lecture.md").read_text()
    assert "not measured" in page
    assert page.count("![") == 1


def test_a_score_from_other_test_examples_tells_nothing(root):
    """A paired interval needs pairs."""
    file = root / "scores/mini/performer/image/seed0.json"
    content = json.loads(file.read_text())
    content["metrics"]["test_accuracy"] = 0.1
    file.write_text(json.dumps(content))
    missing, verdict = figures(root, "chart-performer")[0]
    assert "does not give the accuracy" in missing
    assert verdict is UNTOLD


def test_writes_the_page_and_every_picture_alike_each_time(root, capsys):
    contents = []
    for _ in range(2):
        assert main([]) == 0
        contents.append({path: path.read_bytes() for path in sorted(Path("docs").rglob("*")) if path.is_file()})
    assert contents[0] == contents[1]
    assert {path.name for path in contents[0]} == {"lecture.md", *PICTURES}
    page = Path("docs/lecture.md").read_text()
    assert all(f"(lecture/{name})" in page for name in PICTURES)
    assert "mini is a short form" in page
    assert "One seed" in page
    assert "-8.3 (holds)" in page  # the paper's Local Attention, 46.06 against 54.39
    assert f"`{root}/scores/mini/local`" in page
    assert "do not hold" in capsys.readouterr().out


@pytest.mark.usefixtures("blank")
def test_stand_in_data_is_marked(root):
    made_up.score(root, "bigbird", "text", 0.5, source="surrogate")
    assert main([]) == 0
    page = Path("docs/lecture.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| score, bigbird minus transformer"))
    assert "\N{DAGGER} |" in row
    assert "\N{DAGGER} surrogate data: Text." in page


@pytest.mark.usefixtures("blank")
def test_a_stale_picture_goes(root):
    assert main([]) == 0
    made_up.lecture(root, orders=None)
    assert main([]) == 0
    assert {path.name for path in Path("docs/lecture").iterdir()} == set(PICTURES) - {"orders.svg"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["results=nowhere"], "no results of preset mini in nowhere"),
        (["preset=lra"], "no results of preset lra in results/published/toy; it has mini"),
        (["reslts=x"], "unknown key 'reslts'. Did you mean results?"),
        (["measure=yes"], "measure=yes: expected true or false"),
        (["checkpoint=x"], "checkpoint goes with measure=true"),
        (["measure=true", "parts=shares"], "unknown part 'shares'. Did you mean share?"),
        (["measure=true", "parts=low_rank"], "low_rank needs checkpoint="),
        (["draw"], "cannot read 'draw': expected key=value"),
        (["preset="], "preset has no value"),
    ],
)
def test_wrong_input_is_one_clear_line_and_exit_code_2(root, capsys, arguments, message):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not Path("docs").exists()


def test_without_published_results_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("lra.lecture: there are no published results")
    assert not Path("docs").exists()


@pytest.mark.usefixtures("blank")
def test_of_several_published_results_the_measured_one_is_read(root, capsys):
    shutil.copytree(root, root.parent / "other")
    assert main([]) == 2
    assert f"choose one: results={root.parent}/other, results={root}" in capsys.readouterr().err
    (root.parent / "other/lecture.json").unlink()
    assert main([]) == 0


@pytest.mark.parametrize(
    "content", ["{", '{"schema_version": 2, "parts": {}}', '{"schema_version": 1, "parts": {"share": {}}}']
)
def test_a_damaged_measurement_is_one_clear_line(root, capsys, content):
    (root / "lecture.json").write_text(content)
    assert main([]) == 2
    said = capsys.readouterr().err
    assert "lecture.json" in said
    assert said.count("\n") == 1
