"""Planning compiles the step and allocates nothing of it; its table is written into the documentation."""

import re

import jax
import pytest
from flax import nnx

from lra import child, plan_page
from lra import plan as planning
from lra.build import build_classifier, parameter_count
from lra.config import compose_run, tasks_of
from lra.errors import BadInput
from lra.plan import main, plan
from lra.plan_page import PAGE, Plan, Rate, Row, markers, write
from lra.variants import variant_names
from tests.lra import tiny

SIZES = {"max_length": 24, "vocab_size": 16, "num_classes": 10, "paired": False}


def test_figures_are_those_of_the_real_step(monkeypatch):
    config = compose_run(tiny.overrides())
    found = plan(config, SIZES)
    model = build_classifier(config.model, config.encoder, **SIZES)
    assert found.parameters == parameter_count(model)
    assert 0 < found.temp_bytes < found.total_bytes
    larger = plan(config, SIZES | {"max_length": 48, "paired": True})  # twice the length, and two documents of it
    assert larger.flops > 1.9**2 * found.flops > 0


# MiB of the released text model's training step at 4,096 tokens, batch 1
RELEASED = {
    "transformer": 3738, "local": 478, "sparse_transformer": 3738, "longformer": 4226, "linformer": 452,
    "reformer": 946, "sinkhorn": 584, "synthesizer": 7408, "bigbird": 1040, "linear_transformer": 488,
    "performer": 508,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASED)
def test_memory_is_no_more_than_the_releases(name):
    config = compose_run([f"model={name}", "task=text", "preset=lra", "seed=0", "train.batch_size=1"])
    found = plan(config, {"max_length": 4096, "vocab_size": 257, "num_classes": 2, "paired": False})
    assert found.temp_bytes <= RELEASED[name] * 2**20


def test_nothing_of_the_model_is_allocated(monkeypatch):
    """Parameters of 2 GiB would show among the living arrays, and take their time."""
    config = compose_run(tiny.overrides("encoder.dim=16384", "encoder.mlp_dim=16384", "encoder.layers=1"))
    before = sum(array.nbytes for array in jax.live_arrays())
    found = plan(config, SIZES)
    assert found.parameters > 2**28
    assert sum(array.nbytes for array in jax.live_arrays()) - before < 2**20


def test_the_command_prints_a_row_for_each_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["model=transformer,local", "task=listops", "preset=mini", *tiny.SMALL]) == 0
    output = capsys.readouterr().out
    assert "compiled for cpu and not run" in output
    rows = [line.split() for line in output.splitlines() if "listops" in line]
    assert [row[0] for row in rows] == ["transformer", "local"]
    assert rows[0][1:5] == ["listops", "mini", "24", "8"]
    assert "another backend's will differ" in output


def test_bad_input_is_answered_before_anything_compiles(capsys):
    assert main(["model=bigbrid"]) == 2
    assert "Did you mean bigbird?" in capsys.readouterr().err


def test_a_step_is_compiled_once_and_its_memory_kept(monkeypatch, tmp_path):
    config = compose_run(tiny.overrides(f"cache_dir={tmp_path}"))
    found = plan(config, SIZES)
    monkeypatch.setattr(planning, "compiled_bytes", lambda compiled: pytest.fail("compiled again"))
    assert plan(config, SIZES) == found
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        plan(config, SIZES | {"max_length": 25})


RUNS = ["model=transformer,local,bigbird", "task=listops", "preset=mini"]


def fake_plans(monkeypatch, **errors):
    """Plans that take no time; those of the variants named here raise."""

    def planned(config, sizes):
        name = config.model["_target_"].rpartition(".")[2].lower()
        if name in errors:
            raise errors[name]
        return Plan(1234, 2e12, 3 * 2**20, None)

    monkeypatch.setattr(planning, "plan", planned)
    monkeypatch.setenv("COLUMNS", "200")


def test_one_that_fails_is_named_and_stops_nothing_else(monkeypatch, capsys):
    fake_plans(monkeypatch, local=ValueError("no such shape\nand more"))
    assert main([*RUNS, "rate=1"]) == 3
    out, err = capsys.readouterr()
    assert re.search(r"bigbird +listops +mini +128 +32 +600 +1,234 +2,000.0 +3 +– +0.33 *\n", out)
    named = "local on listops, mini: not compiled, ValueError: no such shape"
    assert err.splitlines()[-1] == f"lra.plan: {named}"
    assert err.splitlines()[1].startswith(f"2 of 3: {named}; 0 s, about 0 min left")
    fake_plans(monkeypatch, **dict.fromkeys(("local", "transformer", "bigbird"), BadInput("window=0")))
    assert main(RUNS) == 2


def test_an_interrupted_table_says_how_to_go_on(monkeypatch, capsys):
    fake_plans(monkeypatch, local=KeyboardInterrupt())
    assert main(RUNS) == 75
    assert "goes on from here" in capsys.readouterr().err


def test_hours_are_steps_times_operations_over_the_rate():
    row = Row("local", "text", "lra", 1000, 32, 20_000, Plan(1, 9e12, 0, 0), None)
    assert row.hours(Rate.of("50")) == pytest.approx(1)
    assert row.hours(Rate.of("200x0.5")) == pytest.approx(0.5)
    assert str(Rate.of("200x.5")) == "200 x 0.5 = 100 TFLOP/s"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rate=0"], "rate=0: give TFLOP/s"),
        (["rate=fast"], "rate=fast: give TFLOP/s"),
        (["rate=100x2"], "rate=100x2: give TFLOP/s"),
        (["rate="], "rate=: give TFLOP/s"),
        (["write=true", "rate=1"], "write=true is for whole tables of the plain presets: model=all"),
        (["write=true", "rate=1", "preset=mini"], "plan.md has no place for task text of preset mini"),
    ],
)
def test_bad_options(arguments, message, capsys):
    assert main(["model=local", "task=text", *(() if "preset=mini" in arguments else ("preset=lra",)), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_page_is_written_between_its_markers(monkeypatch, tmp_path):
    page = tmp_path / "plan.md"
    places = [line for preset in ("lra", "paper") for task in ("listops", "text") for line in markers(preset, task)]
    page.write_text("\n".join(["before", *places, "after", ""]))
    monkeypatch.setattr(plan_page, "PAGE", page)
    half = Plan(1_000_000, 1e12, 2**20, 2**21), None
    error = None, ValueError("no")
    rows = [
        Row(variant, task, preset, 1000, 32, 3600, *(error if (variant, task) == ("local", "text") else half))
        for preset in ("lra", "paper")
        for variant in ("transformer", "local")
        for task in ("listops", "text")
    ]
    for _ in range(2):
        write(rows, Rate(1))
        lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert lines.count("| `local` | 32 | 3,600 | 1,000,000 | 1,000.0 | 1 | 2 | 1.00 |") == 2
    assert lines.count("| `local` | 32 | 3,600 | – | – | – | – | – |") == 2
    assert lines.count("- local on text, lra: not compiled, ValueError: no") == 1
    assert [line.split("|")[-2].strip() for line in lines if line.startswith("| all")] == ["2.00", "1.00"] * 2
    assert sum(line.endswith("; device hours at 1 TFLOP/s.") for line in lines) == 4


def written(preset, task):
    """Parameters on the page, by variant."""
    begin, end = markers(preset, task)
    table = PAGE.read_text().partition(begin)[2].partition(end)[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {row[0].strip("| `"): int(row[3].replace(",", "")) for row in rows}


def counted(variant, task, preset):
    """Parameters of the model that the configuration describes."""
    config = compose_run([f"model={variant}", f"task={task}", f"preset={preset}", "seed=0"])
    sizes = {**child.task_shape(config.task), "max_length": config.task["max_length"]}
    return parameter_count(nnx.eval_shape(lambda: build_classifier(config.model, config.encoder, **sizes)))


def test_parameters_of_the_transformer_on_pathx_by_hand():
    embedding = 256 * 32 + 16_384 * 32
    attention = 4 * 32 * 16
    feed_forward = (32 * 32 + 32) + (32 * 32 + 32)
    norm = 32 + 32
    head = (32 * 32 + 32) + (32 * 2 + 2)
    total = embedding + attention + feed_forward + 2 * norm + norm + head
    assert counted("transformer", "pathx", "lra") == total


def test_parameters_of_the_linformer_on_image_by_hand():
    tokens = 1 + 1024
    embedding = 256 * 128 + 128 + tokens * 128
    attention = 4 * 128 * 64 + 2 * tokens * 256
    feed_forward = (128 * 128 + 128) + (128 * 128 + 128)
    norm = 128 + 128
    head = (128 * 128 + 128) + (128 * 10 + 10)
    total = embedding + attention + feed_forward + 2 * norm + norm + head
    assert counted("linformer", "image", "lra") == total


PLACES = [(preset, task) for preset in ("lra", "paper") for task in tasks_of(preset)]


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "task"), [place for place in PLACES if written(*place)])
def test_a_table_on_the_page_has_every_variant_as_it_is(preset, task):
    expected = {variant: counted(variant, task, preset) for variant in variant_names()}
    assert written(preset, task) == expected, "write the table anew, see the page"


def test_the_page_has_a_place_for_every_table_of_lra_and_paper():
    assert all(line in PAGE.read_text() for place in PLACES for line in markers(*place))


@pytest.mark.slow
def test_the_full_size_of_bigbird(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["model=bigbird", "task=listops", "preset=lra"]) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if "listops" in line]
    assert row[:5] == ["bigbird", "listops", "lra", "2,000", "32"]
    assert 8e6 < int(row[5].replace(",", "")) < 2e7
