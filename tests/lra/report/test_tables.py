"""Tables: the right figure in the right cell, and missing stays missing."""

import csv
import io
import json

import pytest

from lra.report import formats, papers, published, records, tables
from lra.report.load import load
from lra.report.rows import FIVE, PATH_X, compare_rows, join

DASH = "\N{EN DASH}"


def read(make):
    rows = join(load(make.root), "mini")
    return rows, compare_rows(rows, "mini")


def cells(table: formats.Table, name: str) -> dict[str, str]:
    return dict(zip(table.columns, next(row for row in table.rows if row[0] == name), strict=True))


def test_scores(make):
    for task in FIVE:
        for seed, accuracy in enumerate((0.5, 0.6)):
            make.score("local", task, seed, accuracy, data__source="surrogate" if task == "text" else "official")
    make.score("local", PATH_X, accuracy=0.5, metrics__at_chance=True)
    make.score("local", "image", 2, status="diverged", metrics=None)
    make.score("fnet", "text", status="timed_out")
    make.score("fnet", "listops", parameters__within_lra_rule=False, parameters__count=120_000)
    table = tables.scores(*read(make))
    local, fnet = cells(table, "local"), cells(table, "fnet")
    assert local["ListOps"] == "55.0 ± 7.1"
    assert local["Text"] == "55.0 ± 7.1\N{DAGGER}"
    assert local["Image"] == "55.0 ± 7.1 (1 diverged)"
    assert local["Path-X"] == "FAIL"
    assert local["Mean of 5"] == "55.0 ± 7.1\N{DAGGER}"
    assert local["Mean of 6"].startswith("54.2")
    assert (fnet["Text"], fnet["Image"], fnet["Mean of 5"]) == ("1 timed out", DASH, DASH)
    assert fnet["Parameters"] == "100,000 to 120,000 !"
    assert cells(table, "(majority)")["ListOps"] == "20.0"
    assert any("10 %" in note for note in table.notes)


def test_intervals(make):
    make.score("local", accuracy=0.4)
    found = cells(tables.intervals(*read(make)), "local")
    assert (found["ListOps"], found["Text"], found["Seeds"]) == ("36.0 to 44.0", DASH, "1")


def test_costs_are_multiples_of_the_transformer_at_each_length(make):
    make.score("transformer")
    make.score("local")
    lengths = (256, 1024, 4096)
    make.speed("transformer", [make.cell(n * n / 1e6, n, peak_bytes__compiled=float(n * n)) for n in lengths])
    make.speed("local", [make.cell(n / 1e3, n, peak_bytes__compiled=256.0 * n) for n in lengths])
    rows, comparison = read(make)
    assert comparison.condition is not None
    table = tables.costs(rows, comparison.condition)
    assert table is not None
    local = cells(table, "local")
    assert [local[f"speed {n:,}"] for n in lengths] == ["0.256x", "1.02x", "4.1x"]
    assert [local[f"memory {n:,}"] for n in lengths] == ["1x", "0.25x", "0.0625x"]
    assert (local["time exponent"], local["memory exponent"], local["faster from"]) == ("1.00", "1.00", "1,000")
    assert cells(table, "transformer")["time exponent"] == "2.00"


def test_costs_need_the_transformer(make):
    make.score("local")
    make.speed("local")
    rows, comparison = read(make)
    assert comparison.condition is not None
    assert tables.costs(rows, comparison.condition) is None


def test_published_figures_stand_beside_ours_with_their_confidence(make):
    for task in FIVE:
        make.score("bigbird", task, accuracy=0.5)
    table = papers.accuracy(*read(make))
    paper = cells(table, "BigBird")
    assert (paper["ListOps"], paper["Path-X"], paper["Mean"]) == ("36.05", "FAIL", "55.01")
    assert (paper["Ours, mean of 5"], paper["Confidence"]) == ("50.0", "read in two places")
    assert cells(table, "Local Attention")["Ours, mean of 5"] == DASH
    assert len(table.rows) == len(published.scores()) == 24


def test_published_speeds_stand_beside_ours_at_the_lengths_that_both_have(make):
    for variant, faster in (("transformer", 1), ("bigbird", 4)):
        make.score(variant)
        lengths = (256, 1024, 4096)
        measured = [make.cell(n / 1e3 / faster, n, peak_bytes__compiled=8e8 / faster) for n in lengths]
        make.speed(variant, measured)
    rows, comparison = read(make)
    assert comparison.condition is not None
    table = papers.costs(rows, comparison.condition)
    assert table is not None
    found = cells(table, "BigBird")
    assert [name for name in found if "speed" in name] == [
        "speed 1,024",
        "speed 1,024, ours",
        "speed 4,096",
        "speed 4,096, ours",
    ]
    assert (found["speed 4,096"], found["speed 4,096, ours"]) == ("1.07x", "4x")
    assert (found["memory 1,024"], found["memory 1,024, ours"]) == ("0.906x", "0.25x")
    assert cells(table, "Linformer")["speed 1,024, ours"] == DASH
    assert "misprint" in cells(table, "Linformer")["Note"]
    assert papers.costs(rows[:1], comparison.condition) is None  # bigbird alone


def test_every_mapped_model_is_in_the_published_files():
    assert set(published.VARIANTS) <= {row.model for row in published.scores()}


def test_paper_bubbles_are_multiples_of_the_papers_transformer():
    found = published.bubbles(FIVE, 4096)
    ratios = {name: (speed, score, memory) for name, _, speed, score, memory in found.bubbles}
    score = (36.05 + 64.02 + 59.29 + 40.83 + 74.87) / (36.37 + 64.27 + 57.46 + 42.44 + 71.40)
    assert ratios["BigBird"] == pytest.approx((1.5 / 1.4, score, 2.88 / 9.48))
    assert "Transformer" not in ratios
    assert set(found.without) == {"Longformer", "Sparse Transformer"}
    at_3k = {name: memory for name, *_, memory in published.bubbles(FIVE, 3000).bubbles}
    assert at_3k["Linformer"] is None  # a likely misprint that was left out
    assert "Synthesizer" not in at_3k
    assert published.bubbles(FIVE, 256).length == "1K"


def test_csv_and_json_are_unrounded_and_keep_gaps(make):
    make.score("local", accuracy=0.123456)
    make.speed("local")
    make.score("fnet", status="failed")
    rows, comparison = read(make)
    local, fnet = csv.DictReader(io.StringIO(formats.comma_separated(records.of_variants(rows, comparison))))
    assert (local["listops_mean"], local["text_mean"], local["mean_of_5"]) == ("12.3456", "", "")
    assert (fnet["listops_mean"], fnet["listops_failed_runs"]) == ("", "1")
    content = json.loads(records.as_json(rows, comparison))
    assert content["scores"][0]["sequences_per_second"] == 80
    assert content["not_in_the_chart"] == {"fnet": "no score for ListOps (1 failed)"}
    assert content["baselines"]["majority"]["listops"] == [20]
    assert content["growth"][0] == {
        "variant": "local", "hardware": "toy-cpu", "mode": "train", "time_exponent": None, "memory_exponent": None,
        "faster_from": None, "faster_from_is": None,
    }  # fmt: skip
    assert content["published"][0]["confidence"] == "read in two places"


def test_speed_records_compare_like_with_like(make):
    make.speed("transformer", [make.cell(0.2), make.cell(0.9, mode="inference")])
    make.speed("local", [make.cell(0.1), make.cell(0.1, batch_size=32)])
    make.speed("local", [make.cell(0.1)], hardware="toy-gpu")
    make.speed("longformer", [make.cell(0.1, simulated=True)])
    found = {(r["variant"], r["hardware"], r["mode"], r["batch_size"]): r for r in records.of_cells(read(make)[0])}
    assert len(found) == 6
    assert found["longformer", "toy-cpu", "train", 8]["speed_of_transformer"] is None
    assert found["local", "toy-cpu", "train", 8]["speed_of_transformer"] == pytest.approx(2)
    assert found["local", "toy-cpu", "train", 32]["speed_of_transformer"] is None
    assert found["local", "toy-gpu", "train", 8]["speed_of_transformer"] is None


def test_markdown_and_latex_escape_what_would_break_them():
    table = formats.Table("A & B", ["Variant", "x"], [["a|b_c", "1 ± 2"]], ["50 %"])
    assert "| a\\|b_c  | 1 ± 2 |" in formats.markdown(table)
    latex = formats.latex(table)
    assert r"a|b\_c & 1 $\pm$ 2 \\" in latex
    assert r"\caption{A \& B. 50 \%}" in latex
    assert latex.count(r"\begin") == latex.count(r"\end")


def test_a_narrow_terminal_gets_fewer_columns_but_whole_ones(make):
    make.score("transformer")
    make.speed("transformer")
    table = tables.scores(*read(make))
    wide, narrow = formats.terminal(table, 1000), formats.terminal(table, 40)
    assert "Parameters" in [column.header for column in wide.columns]
    assert "Parameters" not in [column.header for column in narrow.columns]
    assert "Text" not in [column.header for column in wide.columns]  # nothing stands in it
