"""Overrides become one configuration or one clear message; the presets hold the published values."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from lra import record
from lra.bench import main
from lra.child import load_config
from lra.config import CONFIGS, NOT_IDENTITY, choices, compose_run, dump, identity, parse, tasks_of
from lra.errors import BadInput
from lra.variants import ALIASES, MODEL_CONFIGS, canonical, resolve, variant_names

ROOT = Path(__file__).parents[2]


def message(*arguments):
    with pytest.raises(BadInput) as caught:
        parse(arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("argument", "nearest", "allowed"),
    [
        ("model=bigbrid", "bigbird", ["transformer", "local", "linear_transformer", "truncated"]),
        ("task=listop", "listops", ["listops"]),
        ("preset=minni", "mini", ["lra", "mini", "paper"]),
        ("launcher=locl", "local", ["local"]),
        ("train.stesp=3", "steps", ["steps", "batch_size", "learning_rate", "minutes"]),
        ("+train.stesp=3", "steps", ["steps", "batch_size", "learning_rate", "minutes"]),
        ("++train.stesp=3", "steps", ["steps", "batch_size", "learning_rate", "minutes"]),
        ("trian.steps=3", "train", ["train", "encoder", "speed", "limits", "seed"]),
        ("+sed=3", "seed", ["seed", "results", "force"]),
        ("model.block_sise=3", "block_size", ["block_size", "random_blocks"]),
        ("++task.max_lenth=3", "max_length", ["max_length", "min_length", "source"]),
        ("task.examples.trian=3", "train", ["train", "validation", "test"]),
        ("+speed.encoder.head=3", "heads", ["heads", "dim", "layers"]),
        ("encoder.pooling=clss", "cls", ["cls", "mean"]),
        ("train.schedule=rsqr", "rsqrt", ["rsqrt", "cosine"]),
        ("tracking=onlin", "online", ["none", "offline", "online", "auto"]),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_and_all_valid_ones(argument, nearest, allowed):
    text = message("model=bigbird", argument)
    assert argument.partition("=")[2] in text or argument.partition("=")[0].lstrip("+").rpartition(".")[2] in text
    assert f"Did you mean {nearest}?" in text
    listed = text.partition("Allowed: ")[2].split(", ")
    assert set(allowed) <= set(listed)


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("train.steps=many", "train.steps"),
        ("++train.steps=2.5", "train.steps"),
        ("train.steps=", "train.steps"),
        ("train.learning_rate=[1]", "train.learning_rate"),
        ("train=3", "train is a group of keys: steps"),
        ("force=perhaps", "force"),
        ("speed.lengths=7", "speed.lengths"),
        ("speed.lengths=[a]", "speed.lengths"),
        ("model.block_size=wide", "model.block_size=wide: int is wanted, such as 16"),
        ("task.max_length=long", "task.max_length=long: int is wanted"),
        ("task.max_length=1.5", "task.max_length=1.5: int is wanted"),
        ("seed=one", "seed=one"),
        ("seed=-1", "seed=-1"),
        ("seed=1.5", "seed=1.5"),
    ],
)
def test_a_wrong_type_is_named(argument, named):
    assert named in message("model=bigbird", argument)


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("train.steps=0", "train.steps=0: must be above 0"),
        ("train.learning_rate=nan", "train.learning_rate=nan: must be above 0"),
        ("train.warmup_steps=-1", "train.warmup_steps=-1: must be at least 0"),
        ("train.weight_decay=-0.1", "train.weight_decay=-0.1: must be at least 0"),
        ("train.clip_norm=0", "train.clip_norm=0.0: must be above 0"),
        ("train.minutes=-1", "train.minutes=-1.0: must be above 0"),
        ("encoder.dropout=1", "encoder.dropout=1.0: must be at least 0 and below 1"),
        ("speed.encoder.attention_dropout=-0.1", "speed.encoder.attention_dropout=-0.1"),
        ("speed.encoder.heads=0", "speed.encoder.heads=0: must be above 0"),
        ("encoder.heads=3", "encoder.qkv_dim=64 is not a multiple of encoder.heads=3"),
        ("speed.lengths=[]", "at least one length"),
        ("speed.lengths=[256,0]", "at least one length, each above 0"),
        ("limits.attempts=0", "limits.attempts=0: must be above 0"),
    ],
)
def test_a_value_out_of_range_is_named(argument, named):
    assert named in message("model=bigbird", argument)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "no variant given"),
        (["task=listops"], "no variant given"),
        (["model="], "model= has no value"),
        (["model=bigbird", "task="], "task= has no value"),
        (["model=bigbird", "preset="], "preset= has no value"),
        (["model=bigbird", "seed=,"], "cannot read 'seed=,'"),
        (["model=bigbird", "results="], "results= names no folder"),
        (["model=bigbird", "work_dir="], "work_dir= names no folder"),
        (["model=bigbird", "train.steps"], "cannot read 'train.steps'"),
        (["model=bigbird", "launcher.setup=[export A=1]"], "in quotes, as in launcher.setup=['export A=1']"),
        (["model=bigbird", "~train.steps"], "cannot delete a key"),
        (["model=bigbird", "train.steps=1,2"], "lists of values are for model, task, preset and seed only"),
        (["model=bigbird", "hydra.run.dir=x"], "unknown key 'hydra.run.dir'"),
    ],
)
def test_empty_and_unreadable_arguments_are_named(arguments, named):
    assert named in message(*arguments)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("no.such.Class", "there is no module 'no.such'"),
        ("models.dense.transformer.Transfromer", "Did you mean Transformer?"),
        ("bigbird.", "there is no module 'bigbird'"),
        (".Class", "(give package.module.Class)"),
    ],
)
def test_a_class_that_is_not_there_is_named(target, named):
    assert named in message(f"model={target}")


@pytest.fixture
def own_class(tmp_path, monkeypatch):
    """A user's class in a package of their own."""
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "my_module.py").write_text(
        "import jax\n\n\nclass MyMixer:\n    family = 'mine'\n    version = 3\n\n"
        "    def __init__(self, sizes, *, window: int = 4, rngs):\n        pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "my_package.my_module.MyMixer"


@pytest.mark.parametrize("keyword", ["model.window=8", "+model.window=8", "++model.window=8"])
@pytest.mark.parametrize("first", [True, False])
def test_a_users_class_is_found_and_takes_its_keywords(own_class, keyword, first):
    order = [keyword, f"model={own_class}"] if first else [f"model={own_class}", keyword]
    (run,) = parse(order).runs()
    assert compose_run(run).model == {"_target_": own_class, "window": 8}
    assert "my_package.my_module" not in sys.modules  # read, not imported: it may import jax


def test_a_users_class_and_a_variant_together(own_class):
    assert [run[0] for run in parse([f"model={own_class},local"]).runs()] == [f"model={own_class}", "model=local"]
    assert "Did you mean steps?" in message(f"model={own_class}", "train.stesp=3")


def test_an_alias_stands_for_its_variant():
    assert parse(["model=truncated"]).variants == ["local"]
    assert parse(["model=linear,local"]).variants == ["linear_transformer", "local"]
    for alias, name in ALIASES.items():
        if (MODEL_CONFIGS / f"{name}.yaml").is_file():
            assert canonical(alias) == resolve(alias).name == name


def test_lists_and_all_make_every_combination():
    runs = parse(["model=local,bigbird", "task=listops", "preset=mini,lra", "seed=0,3", "train.batch_size=4"]).runs()
    names = itertools.product(["mini", "lra"], ["local", "bigbird"], ["listops"], ["0", "3"])
    assert [tuple(text.partition("=")[2] for text in run[:4]) for run in runs] == [
        (variant, task, preset, seed) for preset, variant, task, seed in names
    ]
    assert compose_run(runs[-1]).train.batch_size == 4
    # `all` composes every variant once, so that a broken file of one is found
    assert parse(["model=all"]).variants == variant_names() == choices("model")


@pytest.mark.parametrize(("preset", "task"), [(p, task) for p in choices("preset") for task in tasks_of(p)])
def test_every_preset_composes_with_its_tasks_and_each_variant_that_it_changes(preset, task):
    files = (CONFIGS / "variant_sizes" / preset).glob(f"{task}_*.yaml")
    changed = {path.stem.removeprefix(f"{task}_") for path in files} & set(variant_names())
    if task == tasks_of(preset)[0]:
        changed |= {path.stem for path in (CONFIGS / "model_sizes" / preset).glob("*.yaml")}
    for variant in ["transformer", *sorted(changed)]:
        config = compose_run([f"model={canonical(variant)}", f"task={task}", f"preset={preset}", "seed=0"])
        assert (config.preset, config.model["_target_"]) == (preset, resolve(variant).target)
        assert config.task["_target_"].startswith("tasks.")


def test_a_preset_sets_a_variants_own_keywords_for_all_tasks():
    window = {
        preset: compose_run(["model=local", "task=listops", f"preset={preset}"]).model["window"]
        for preset in ("mini", "lra")
    }
    assert window == {"mini": 8, "lra": 64}
    asked = compose_run(["model=local", "task=listops", "preset=mini", "seed=0", "model.window=5"])
    assert asked.model["window"] == 5


# Copied from the table of the release's values, each row (batch, steps, rate, schedule, warm-up, weight decay, length,
# dim, heads, layers, qkv, mlp, pooling, positions, dropout).
RELEASED = {
    "listops": (32, 5000, 0.05, "rsqrt", 1000, 0.1, 2000, 512, 8, 4, 512, 1024, "cls", "sinusoidal", 0.1),
    "text": (32, 20_000, 0.05, "rsqrt", 8000, 0.1, 1000, 256, 4, 4, 256, 1024, "cls", "sinusoidal", 0.1),
    "retrieval": (32, 5000, 0.05, "rsqrt", 8000, 0.1, 4000, 128, 4, 4, 128, 512, "cls", "sinusoidal", 0.1),
}
IN_THE_PAPER = {"listops": {"layers": 6, "mlp_dim": 2048}}


def values(task, preset):
    config = compose_run(["model=transformer", f"task={task}", f"preset={preset}", "seed=0"])
    train, encoder = config.train, config.encoder
    assert train.clip_norm is None
    assert train.precision.value == "float32"
    return (
        *(train.batch_size, train.steps, train.learning_rate, train.schedule.value, train.warmup_steps),
        *(train.weight_decay, config.task["max_length"], encoder.dim, encoder.heads, encoder.layers),
        *(encoder.qkv_dim, encoder.mlp_dim, encoder.pooling.value, encoder.positions.value, encoder.dropout),
    )


@pytest.mark.parametrize("task", [task for task in RELEASED if task in choices("task")])
def test_preset_lra_has_the_released_values(task):
    assert values(task, "lra") == RELEASED[task]
    assert not list((CONFIGS / "variant_sizes" / "lra").glob(f"{task}_*"))  # the same for every variant


@pytest.mark.parametrize("task", [task for task in IN_THE_PAPER if task in choices("task")])
def test_preset_paper_has_the_appendix_s_values(task):
    config = compose_run(["model=transformer", f"task={task}", "preset=paper", "seed=0"])
    released = compose_run(["model=transformer", f"task={task}", "preset=lra", "seed=0"])
    expected = dump(released)["encoder"] | IN_THE_PAPER[task]
    assert dump(config)["encoder"] == expected
    assert dump(config)["train"] == dump(released)["train"]


def test_speed_cells_follow_table_2_of_the_paper():
    for preset in ("lra", "paper"):
        speed = dump(compose_run(["model=local", "task=listops", f"preset={preset}", "seed=0"]))["speed"]
        assert (speed["lengths"], speed["batch_size"]) == ([1024, 2048, 3072, 4096], 32)


CHANGED = {
    "encoder.pooling": "mean",
    "encoder.positions": "learned",
    "train.schedule": "rsqrt",
    "train.clip_norm": 1.5,
    "train.minutes": 2.5,
    "train.precision": "bfloat16",
    "tracking": "offline",
    "speed.precision": "bfloat16",
    "speed.encoder.pooling": "mean",
    "speed.encoder.positions": "learned",
}


def leaves(node, prefix=""):
    for key, value in node.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def other_value(path, value):
    if path in CHANGED:
        return CHANGED[path]
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return value[:1]
    if isinstance(value, int | float):
        return value * 2 if value else 1 if isinstance(value, int) else 0.25
    return f"{value}_other"


def test_every_key_of_the_identity_changes_the_hash_and_no_other_does():
    base = dump(compose_run(["model=local", "task=listops", "preset=mini", "seed=0"]))
    before, hashes = record.config_hash(identity(load_config(base))), {}
    for path, value in leaves(base):
        changed = OmegaConf.create(base)
        OmegaConf.update(changed, path, other_value(path, value))
        config = load_config(OmegaConf.to_container(changed))
        assert dict(leaves(dump(config)))[path] != value, path
        hashes[path] = record.config_hash(identity(config))
    same = {path for path, other in hashes.items() if other == before}
    # A folder is no part of what a run computes, though a task's keywords repeat two of them.
    assert same == {path for path in hashes if path.split(".")[0] in NOT_IDENTITY} | {"task.cache_dir", "task.data_dir"}
    different = [other for other in hashes.values() if other != before]
    assert len(set(different)) == len(different) > 30


def test_the_configuration_survives_its_own_json():
    config = compose_run(["model=local", "task=listops", "preset=lra", "seed=3", "train.clip_norm=1"])
    assert dump(load_config(dump(config))) == dump(config)
    assert load_config(dump(config)).encoder == config.encoder


def test_the_command_answers_a_misspelling_at_once_without_jax(tmp_path):
    """As a person meets it: one line, exit code 2, nothing written, jax not imported, within 3 seconds of work."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n\n\nclass Refuse:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('jax', 'jaxlib', 'flax', 'wandb', 'sklearn', 'tensorflow'):\n"
        "            raise RuntimeError(f'{name} is imported')\n\n\nsys.meta_path.insert(0, Refuse())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "LRA_WORK": str(tmp_path / "work")}
    before = os.times()
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "lra.bench", "model=bigbird", "++train.stesp=3", f"results={tmp_path / 'results'}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    elapsed, after = time.monotonic() - started, os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("lra.bench: unknown key in train 'stesp'. Did you mean steps? Allowed: steps, ")
    assert min(seconds, elapsed) < 3  # of work: other processes of the machine don't count
    assert not (tmp_path / "work").exists()
    assert not (tmp_path / "results").exists()


def test_exit_code_of_bad_input_is_2(capsys, signals_restored):
    assert main(["model=bigbird", "preset=minni"]) == 2
    assert capsys.readouterr().err.startswith("lra.bench: unknown preset 'minni'. Did you mean mini?")


def test_list_prints_the_variants(capsys):
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == variant_names()
