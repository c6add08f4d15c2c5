"""What the presets set for image, and what they change for single variants, against the published tables."""

import re

import pytest
from omegaconf import OmegaConf

from lra.config import CONFIGS, compose_run, parse, tasks_of
from lra.errors import BadInput
from lra.variants import ALIASES, variant_names

# dim / qkv / mlp / heads / layers, pooling, dropout, as the release sets them for preset lra
IMAGE = {
    "transformer": "128/64/128/8/1 cls 0.3",
    "bigbird": "128/64/128/1/1 cls 0.3",
    "local": "128/64/128/2/1 mean 0.3",
    "longformer": "128/64/128/4/4 mean 0.3",
    "sparse_transformer": "128/64/128/8/1 cls 0.3",
    "linformer": "128/64/128/8/1 cls 0.3",
    "reformer": "64/32/64/8/4 cls 0.3",
    "sinkhorn": "32/32/64/1/1 cls 0.1",
    "synthesizer": "128/64/128/8/1 cls 0.3",
    "linear_transformer": "128/64/128/8/1 cls 0.3",
    "performer": "128/64/128/8/1 cls 0.3",
}
PATHFINDER = {
    "transformer": "32/16/32/4/4 mean 0.2",
    "bigbird": "64/32/64/2/4 mean 0.2",
    "local": "64/32/64/4/2 mean 0.1",
    "longformer": "32/16/32/2/2 mean 0.1",
    "sparse_transformer": "32/16/32/8/1 mean 0.2",
    "linformer": "32/16/32/2/1 mean 0.2",
    "reformer": "64/32/64/8/2 mean 0.2",
    "sinkhorn": "32/16/64/4/2 mean 0.2",
    "synthesizer": "64/32/64/4/2 mean 0.2",
    "linear_transformer": "128/64/128/2/1 mean 0.2",
    "performer": "32/16/32/8/4 mean 0.2",
}
ROWS = [("image", 0.2, *row) for row in IMAGE.items()] + [("pathfinder", 0.1, *row) for row in PATHFINDER.items()]


def in_words(encoder) -> str:
    sizes = "/".join(str(encoder[key]) for key in ("dim", "qkv_dim", "mlp_dim", "heads", "layers"))
    return f"{sizes} {encoder['pooling']} {encoder['dropout']}"


@pytest.mark.parametrize(("task", "attention_dropout", "variant", "row"), ROWS)
def test_each_variant_has_the_sizes_that_the_release_gives_it(task, attention_dropout, variant, row):
    """Read from the files, so that the rows of variants and tasks still to come are held too."""
    files = [CONFIGS / "sizes" / "lra" / f"{task}.yaml", CONFIGS / "variant_sizes" / "lra" / f"{task}_{variant}.yaml"]
    merged = OmegaConf.merge(*(OmegaConf.load(file) for file in files if file.is_file()))
    assert in_words(merged.encoder) == row
    assert merged.encoder.attention_dropout == attention_dropout
    assert OmegaConf.select(merged, "train.weight_decay", default=0.0) == (0.7 if (task, variant) == SINKHORN else 0.0)


SINKHORN = ("image", "sinkhorn")


def test_every_file_of_a_variant_is_one_of_the_table():
    """A misspelt file name would never be read."""
    files = (CONFIGS / "variant_sizes").glob("*/*.yaml")
    known = {f"{task}_{variant}" for task, _, variant, _ in ROWS}
    assert {re.sub(r"\d+", "", file.stem) for file in files} <= known


@pytest.mark.parametrize("variant", [name for name in IMAGE if name in variant_names()])
def test_a_run_takes_its_variant_s_sizes(variant):
    config = compose_run([f"model={variant}", "task=image", "preset=lra", "seed=0"])
    encoder = {key: getattr(config.encoder, key) for key in ("dim", "qkv_dim", "mlp_dim", "heads", "layers", "dropout")}
    assert in_words(encoder | {"pooling": config.encoder.pooling.value}) == IMAGE[variant]


def test_image_is_trained_as_published():
    """200 epochs of 175 steps, the first of them warm-up, at the rate of the release and at that of the appendix."""
    for preset, rate, layers, heads in (("lra", 0.0005, 1, 8), ("paper", 0.01, 3, 4)):
        config = compose_run(["model=transformer", "task=image", f"preset={preset}", "seed=0"])
        train, encoder = config.train, config.encoder
        assert (train.steps, train.warmup_steps, train.batch_size) == (200 * 175, 175, 256)
        assert (train.learning_rate, train.schedule.value, train.weight_decay) == (rate, "cosine", 0.0)
        assert (encoder.layers, encoder.heads, encoder.positions.value) == (layers, heads, "learned")
        assert (encoder.dim, encoder.qkv_dim, encoder.mlp_dim) == (128, 64, 128)
        assert config.task["max_length"] == 1024


@pytest.mark.parametrize(
    ("task", "preset", "row"),
    [
        ("pathfinder", "lra", (200 * 312, 312, 512, 0.001, None, 32, 4, 4, 16, 32, "mean", "sinusoidal")),
        ("pathfinder", "paper", (200 * 312, 312, 512, 0.01, None, 32, 8, 4, 128, 128, "mean", "sinusoidal")),
        ("pathx", "lra", (200 * 2500, 2500, 64, 0.001, 1.0, 32, 2, 1, 16, 32, "mean", "learned")),
        ("pathx", "paper", (200 * 2500, 2500, 64, 0.001, 1.0, 32, 2, 1, 16, 32, "mean", "learned")),
    ],
)
def test_pathfinder_and_path_x_are_trained_as_published(task, preset, row):
    """200 epochs, the first of them warm-up; the appendix says nothing of Path-X."""
    config = compose_run(["model=transformer", f"task={task}", f"preset={preset}", "seed=0"])
    train, encoder = config.train, config.encoder
    assert row == (
        *(train.steps, train.warmup_steps, train.batch_size, train.learning_rate, train.clip_norm),
        *(encoder.dim, encoder.heads, encoder.layers, encoder.qkv_dim, encoder.mlp_dim),
        *(encoder.pooling.value, encoder.positions.value),
    )
    assert (train.schedule.value, train.weight_decay) == ("cosine", 0.0)


def test_text_and_retrieval_of_the_paper_differ_as_the_appendix_says():
    def composed(task, preset):
        return compose_run(["model=transformer", f"task={task}", f"preset={preset}", "seed=0"])

    text = composed("text", "paper")
    assert (text.encoder.dim, text.encoder.heads, text.encoder.layers, text.encoder.mlp_dim) == (512, 8, 6, 2048)
    assert (composed("text", "lra").task["max_length"], text.task["max_length"]) == (1000, 4000)
    rates = [composed("retrieval", preset).train.learning_rate for preset in ("lra", "paper")]
    assert rates == [0.05, 0.5]
    assert composed("retrieval", "lra").encoder == composed("retrieval", "paper").encoder


def test_mini_is_short_and_needs_no_data():
    five = {"listops": "generated", "text": "surrogate", "retrieval": "surrogate", "image": "surrogate"}
    for task, source in (five | {"pathfinder": "generated"}).items():
        config = compose_run(["model=transformer", f"task={task}", "preset=mini", "seed=0"])
        assert config.task["source"] == source
        assert 128 <= config.task["max_length"] <= 512
    path_x = compose_run(["model=transformer", "task=pathx", "preset=mini", "seed=0"])
    assert (path_x.task["source"], path_x.task["size"], path_x.task["max_length"]) == ("generated", 128, 128**2)
    assert sum(path_x.task["examples"].values()) <= 300, "made in seconds"
    assert path_x.train.steps <= 50


def test_a_task_without_sizes_for_a_preset_names_those_it_has(monkeypatch, tmp_path):
    (tmp_path / "sizes" / "mini").mkdir(parents=True)
    (tmp_path / "sizes" / "lra").mkdir()
    (tmp_path / "preset").symlink_to(CONFIGS / "preset")
    (tmp_path / "task").symlink_to(CONFIGS / "task")
    for file in ("mini/listops", "lra/listops", "lra/text"):
        (tmp_path / "sizes" / f"{file}.yaml").touch()
    monkeypatch.setattr("lra.config.CONFIGS", tmp_path)
    assert (tasks_of("mini"), tasks_of("lra")) == (["listops"], ["listops", "text"])
    with pytest.raises(BadInput) as error:
        parse(["model=transformer", "task=listops,text", "preset=lra,mini"])
    assert str(error.value) == "task text has no sizes for preset mini, only for lra; preset mini has listops"


def test_the_table_s_variants_go_by_their_own_names():
    assert not set(IMAGE) & set(ALIASES)
