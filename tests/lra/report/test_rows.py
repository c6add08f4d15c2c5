"""What may be compared, and what may not."""

import pytest

from lra.record import wilson_interval
from lra.report.load import load
from lra.report.rows import FIVE, PATH_X, choose_condition, comparable_tasks, compare_rows, join, wilson


def rows(make, preset="mini"):
    return {row.key: row for row in join(load(make.root), preset)}


def test_mean_of_five_is_missing_with_a_missing_task(make):
    for index, task in enumerate(FIVE):
        make.score("local", task, accuracy=0.1 * (index + 1))
        if task != "image":
            make.score("bigbird", task)
    found = rows(make)
    assert found["local"].mean(FIVE) == pytest.approx(0.3)
    assert found["bigbird"].mean(FIVE) is None
    assert found["bigbird"].trouble(FIVE) == "no score for Image (not run)"


def test_seeds_give_mean_and_deviation(make):
    for seed, accuracy in enumerate((0.3, 0.4, 0.5)):
        make.score("local", seed=seed, accuracy=accuracy)
        make.score("local", "text", seed=seed, accuracy=accuracy + 0.2)
    row = rows(make)["local"]
    assert row.tasks["listops"].mean == pytest.approx(0.4)
    assert row.tasks["listops"].deviation == pytest.approx(0.1)
    assert row.mean(["listops", "text"]) == pytest.approx(0.5)
    assert row.deviation(["listops", "text"]) == pytest.approx(0.1)
    assert row.tasks["listops"].interval == pytest.approx(wilson(0.4, 500))


def test_one_seed_keeps_its_own_interval_and_has_no_deviation(make):
    make.score("local", accuracy=0.4)
    score = rows(make)["local"].tasks["listops"]
    assert score.interval == pytest.approx((0.36, 0.44))
    assert score.deviation is None


def test_wilson_is_the_runners():
    assert wilson(0.37, 200) == pytest.approx(wilson_interval(74, 200))


def test_different_hashes_are_never_merged(make):
    make.score("local", seed=0, accuracy=0.3)
    make.score("local", seed=1, accuracy=0.3)
    make.score("local", seed=2, accuracy=0.9, config_hash="ffff0000ffff0000")
    make.score("fnet", seed=0)
    make.score("fnet", seed=1, config_hash="00000000ffffffff")  # one seed each: the lower seed is the variant's own
    found = rows(make)
    assert sorted(found) == ["fnet", "fnet#00000000", "local", "local#ffff0000"]
    assert found["local"].tasks["listops"].mean == pytest.approx(0.3)
    assert found["local#ffff0000"].tasks["listops"].mean == pytest.approx(0.9)


def test_overridden_runs_are_rows_of_their_own(make):
    make.score("local")
    make.score("local", folder="local@12345678")
    make.score("transformer", folder="transformer@12345678")
    found = rows(make)
    assert sorted(found) == ["local", "local@12345678", "transformer@12345678"]
    assert not any(row.is_reference for row in found.values())


def test_presets_do_not_mix(make):
    make.score("local", preset="lra")
    make.score("local", "text")
    assert set(rows(make)["local"].tasks) == {"text"}


def test_dotted_classes_are_called_by_their_last_part_unless_two_share_it(make):
    make.score("mine.mixers.Fast")
    make.score("ours.Slow")
    make.score("theirs.Slow")
    make.score("ours.Other", folder="ours.Other@12345678")
    labels = {row.key: row.label for row in join(load(make.root), "mini")}
    assert labels == {
        "mine.mixers.Fast": "Fast",
        "ours.Slow": "ours.Slow",
        "theirs.Slow": "theirs.Slow",
        "ours.Other@12345678": "Other@12345678",
    }


def test_path_x_at_chance_fails_and_counts_as_half_in_the_mean_of_six(make):
    for task in FIVE:
        make.score("local", task, accuracy=0.6)
        make.score("s5", task, accuracy=0.6)
    make.score("local", PATH_X, accuracy=0.507, metrics__at_chance=True)
    make.score("s5", PATH_X, accuracy=0.9)
    found = rows(make)
    assert found["local"].tasks[PATH_X].failed_path_x
    assert found["local"].mean((*FIVE, PATH_X)) == pytest.approx((3.0 + 0.5) / 6)
    assert found["s5"].mean((*FIVE, PATH_X)) == pytest.approx((3.0 + 0.9) / 6)


def test_tasks_are_the_five_or_those_that_all_share(make):
    make.score("local", "listops")
    make.score("local", "text")
    make.score("bigbird", "text")
    make.score("bigbird", "image")
    make.score("fnet", "text", status="failed")  # no score: does not narrow the choice
    assert comparable_tasks(list(rows(make).values())) == ("text",)
    for variant in ("a.A", "b.B", "c.C"):
        for task in FIVE:
            make.score(variant, task)
    assert comparable_tasks(list(rows(make).values())) == FIVE


def test_the_longest_length_measured_by_all(make):
    make.speed("local", [make.cell(length=256), make.cell(length=1024), make.cell(length=4096)])
    make.speed(
        "bigbird", [make.cell(length=256), make.cell(length=1024), make.cell(length=4096, status="out_of_memory")]
    )
    condition = choose_condition(list(rows(make).values()), "train")
    assert condition is not None
    assert condition.length == 1024


def test_simulated_cells_do_not_choose_the_length(make):
    for variant in ("longformer", "local"):
        make.speed(variant, [make.cell(length=1024), make.cell(length=4096, simulated=True)])
    condition = choose_condition(list(rows(make).values()), "train")
    assert condition is not None
    assert condition.length == 1024


def test_batch_and_hardware_are_never_mixed(make):
    for variant in ("local", "transformer", "fnet"):
        make.score(variant)
    make.speed("local", [make.cell(batch_size=8)])
    make.speed("transformer", [make.cell(batch_size=8)])
    make.speed("fnet", [make.cell(batch_size=32)])
    make.speed("fnet", [make.cell(batch_size=8)], hardware="toy-gpu")
    comparison = compare_rows(list(rows(make).values()), "mini")
    assert {point.row.key for point in comparison.points} == {"local", "transformer"}
    assert comparison.absent[0][0].key == "fnet"


def test_memory_comes_from_one_source(make):
    for variant, device in (("local", 1e8), ("fnet", 2e8)):
        make.score(variant)
        make.speed(variant, [make.cell(peak_bytes__device=device)])
    assert compare_rows(list(rows(make).values()), "mini").memory_source == "device"
    make.score("bigbird")
    make.speed("bigbird")  # its device memory is unknown
    comparison = compare_rows(list(rows(make).values()), "mini")
    assert comparison.memory_source == "compiled"
    assert {point.memory for point in comparison.points} == {3e8}


def test_simulated_unscored_and_unmeasured_rows_are_listed_with_their_reason(make):
    make.score("local")
    make.speed("local")
    make.score("longformer")
    make.speed("longformer", [make.cell(simulated=True)])
    make.score("reformer", status="diverged")
    make.speed("reformer")
    make.score("fnet")
    make.score("s5")
    make.speed("s5", [make.cell(status="timed_out", sequences_per_second=None)])
    comparison = compare_rows(list(rows(make).values()), "mini")
    assert [point.row.key for point in comparison.points] == ["local"]
    reasons = {row.key: reason for row, reason in comparison.absent}
    assert "simulated" in reasons["longformer"]
    assert reasons["reformer"] == "no score for ListOps (1 diverged)"
    assert reasons["fnet"] == "not measured at length 1,024"
    assert reasons["s5"] == "timed out at length 1,024"
