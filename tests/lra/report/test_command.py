"""The command: what it writes, says and refuses."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lra import report
from lra.report.__main__ import WRITTEN, main
from lra.report.rows import FIVE
from lra.variants import ROOT


@pytest.fixture
def runs(make) -> Path:
    for variant, accuracy in (("transformer", 0.36), ("bigbird", 0.37)):
        make.score(variant, accuracy=accuracy)
        make.speed(variant)
    return make.root


def test_writes_chart_and_tables_and_says_so(make, runs, capsys):
    (runs / "scores/notes.txt").write_text("hello")
    assert main([f"results={runs}"]) == 0
    assert {path.name for path in (runs / "plots").iterdir()} == WRITTEN
    said = capsys.readouterr().out
    assert "2 scores and 2 speed files read, 1 skipped" in said
    assert f"skipped {runs}/scores/notes.txt: foreign" in said
    assert "chart.png" in said
    with (runs / "plots/table.csv").open() as file:
        first, second = csv.DictReader(file)
    assert (first["variant"], first["listops_mean"], first["mean_of_5"]) == ("bigbird", "37.0", "")
    assert second["sequences_per_second"] == "80.0"


def test_a_second_call_writes_the_same_bytes(runs):
    contents = []
    for _ in range(2):
        assert main([f"results={runs}"]) == 0
        contents.append({path.name: path.read_bytes() for path in (runs / "plots").iterdir()})
    assert contents[0] == contents[1]


def test_without_speeds_there_are_tables_but_no_stale_chart(make, runs, capsys):
    assert main([f"results={runs}"]) == 0
    for path in (runs / "speed").rglob("*.json"):
        path.unlink()
    assert main([f"results={runs}"]) == 0
    left = {path.name for path in (runs / "plots").iterdir()}
    assert left == WRITTEN - {"chart.png", "chart.svg", "step_time.svg", "memory.svg"}
    assert "not in the chart: bigbird: not measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["preste=mini"], "unknown key 'preste'. Did you mean preset?"),
        (["preset=minni"], "unknown preset 'minni'. Did you mean mini?"),
        (["plot"], "cannot read 'plot': expected key=value"),
        (["log=maybe"], "log=maybe: expected true or false"),
        (["length=long"], "length=long: expected a whole number"),
        (["mode=fast"], "unknown mode 'fast'"),
        (["task=listop"], "unknown task 'listop'. Did you mean listops?"),
        (["variant=bigbrid"], "unknown variant 'bigbrid'. Did you mean bigbird?"),
        (["hardware=gpu"], "unknown hardware 'gpu'"),
        (["mode="], "mode has no value"),
        (["log=true", "log=false"], "log is given twice"),
        (["paper=true", "variant=bigbird"], "there is no transformer in the chart"),
        (["published=true"], "published=true has its own folders"),
    ],
)
def test_wrong_input_is_one_clear_line_and_exit_code_2(runs, capsys, arguments, message):
    assert main([f"results={runs}", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not (runs / "plots").exists()


def test_no_results_is_exit_code_2(tmp_path, capsys):
    assert main([f"results={tmp_path}"]) == 2
    assert f"no results in {tmp_path}" in capsys.readouterr().err


def test_published_results_are_reported_one_machine_after_the_other(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["published=true"]) == 2
    (Path("results/published") / "huge").mkdir(parents=True)
    (Path("results/published") / "huge" / "lecture.json").write_text("{}")
    assert main(["published=true"]) == 2
    for machine, preset in (("big", "mini"), ("small", "mini"), ("tiny", "lra")):
        make.root = Path("results/published") / machine
        make.score("bigbird", preset=preset)
    assert main(["published=true"]) == 0
    assert tables_in(Path()) == [f"results/published/{machine}/plots/table.md" for machine in ("big", "small")]
    assert main(["published=true", "preset=lra"]) == 0
    assert "results/published/tiny/plots/table.md" in tables_in(Path())


def tables_in(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("table.md"))


def test_published_results_are_nobodys_own(make, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make.root = Path("results/published/toy-cpu")
    make.score("bigbird")
    assert main([]) == 2
    said = capsys.readouterr().err
    assert "no results in results/runs yet" in said
    assert "published=true" in said
    assert tables_in(Path()) == []
    make.root = Path("results/runs")
    make.score("local")
    assert main([]) == 0
    assert "bigbird" not in (make.root / "plots/page.html").read_text() + capsys.readouterr().out


def test_published_pictures_and_tables_are_drawn_anew_byte_for_byte_elsewhere(make, tmp_path, monkeypatch):
    clones = [tmp_path / name for name in ("one", "a clone of it")]
    for clone, hash_seed in zip(clones, "12", strict=True):
        make.root = clone / "results/published/toy-cpu"
        for index, variant in enumerate(("transformer", "bigbird", "a.b.Mixer", "local")):
            for task in FIVE:
                for seed in range(index + 1):
                    source = "surrogate" if task == "text" else "generated"
                    make.score(variant, task, seed, 0.3 + index / 20 + seed / 50, data__source=source)
            make.speed(variant, [make.cell(length * index / 1e4 + 0.01, length) for length in (256, 512, 1024)])
        make.score("s5", status="out_of_memory", metrics=None)
        call = [sys.executable, "-m", "lra.report", "published=true"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed, "TZ": f"UTC+{hash_seed}"}
        subprocess.run(call, cwd=clone, env=environment, check=True, capture_output=True)
    first, second = ({path.name: path.read_bytes() for path in clone.rglob("plots/*")} for clone in clones)
    assert set(first) == WRITTEN
    assert [name for name in sorted(first) if first[name] != second[name]] == []
    ignored = subprocess.run(
        ["git", "check-ignore", "results/published/toy-cpu/plots/chart.svg"], cwd=ROOT, check=False
    )
    assert ignored.returncode != 0


def test_the_axis_is_logarithmic_where_speeds_are_far_apart_unless_one_says_otherwise(make, runs):
    def axis(*arguments: str) -> bool:
        assert main([f"results={runs}", *arguments]) == 0
        return '"log":true' in (runs / "plots/page.html").read_text()

    assert [axis(), axis("log=true")] == [False, True]
    make.score("local")
    make.speed("local", [make.cell(0.1 / 11)])
    assert [axis(), axis("log=false")] == [True, False]


def test_jax_is_never_imported():
    names = [path.stem for path in Path(report.__file__).parent.glob("*.py")]
    code = f"import sys; {'; '.join(f'import lra.report.{name}' for name in names)}; print('jax' in sys.modules)"
    call = [sys.executable, "-c", code]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
