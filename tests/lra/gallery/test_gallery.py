"""`python -m lra.gallery`: a picture is what its variant computes, a contact sheet what its task asks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from lra.build import build_classifier
from lra.config import EncoderConfig, Pooling, Positions, compose_run
from lra.gallery import contact, pictures
from lra.gallery.__main__ import main, model_of, options, settings
from lra.gallery.weights import Mixing, at_initialisation, attend_inputs, mixing_weights, trained
from lra.report import style
from lra.variants import variant_names
from models.attention_free.mlp_mixer import MLPMixer
from models.dense.transformer import Transformer
from models.low_rank.linformer import Linformer
from models.mixer import Sizes
from models.patterns.longformer import Longformer
from tasks.listops import encode
from tasks.listops_generator import evaluate
from tasks.task import Split, Task
from tests.lra.stopped import stopped

SIZES = Sizes(dim=12, heads=2, qkv_dim=8, mlp_dim=8, max_length=10)
LECTURE = [
    "transformer",
    "local",
    "strided",
    "global_tokens",
    "sparse_transformer",
    "longformer",
    "bigbird",
    "hybrid",
    "reformer",
    "routing",
    "sinkhorn",
    "linformer",
    "compressed",
    "linear_transformer",
    "performer",
    "synthesizer",
    "mlp_mixer",
]


def mixing(name: str, length: int = 24) -> Mixing:
    run = options([f"model={name}"]).variants[0]
    encoder = EncoderConfig(**settings()["encoder"])
    encoder.pooling, encoder.positions = Pooling(encoder.pooling), Positions(encoder.positions)
    return at_initialisation(*model_of(run), encoder, length=length, kinds=3, run=2)


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_the_sheet_follows_the_lecture():
    runs = options([]).variants
    assert options([]).whole
    assert [run[0] for run in runs] == [f"model={name}" for name in LECTURE if name in variant_names()]
    assert not options(["model=local,bigbird"]).whole


@pytest.mark.parametrize("name", ["local", "sparse_transformer"])
def test_a_picture_is_the_pattern(name):
    drawn = mixing(name)
    i, j = np.arange(24)[:, None], np.arange(24)
    near, summary = i // 4 == j // 4, np.broadcast_to(j % 4 == 3, (24, 24))
    heads = [abs(i - j) <= 4] * 4 if name == "local" else [near, near, summary, summary]
    picture = pictures.together(drawn, name == "local", style.family("patterns")[0])
    assert drawn.is_pattern
    assert (drawn.weights[0] == np.stack(heads)).all()
    assert ((picture != 1).any(-1) == np.any(heads, 0)).all()
    assert (np.isclose(picture, to_rgb(style.family("patterns")[0])).all(-1) == np.all(heads, 0)).all()
    assert drawn.computed == pytest.approx(np.mean(heads))


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def x():
    return jnp.asarray(np.random.default_rng(0).standard_normal((1, 10, 12)), jnp.float32)


def test_weights_are_the_attention_weights(x):
    mixer = Transformer(SIZES, rngs=nnx.Rngs(0))
    q, k, _ = (np.asarray(a)[0] for a in mixer.inputs(x))
    expected = softmax(np.einsum("ihk,jhk->hij", q, k) / 2)
    assert np.allclose(mixing_weights(mixer, x), expected, atol=1e-5)


def test_weights_of_slots_are_those_of_the_tokens_in_them(x):
    mixer = Linformer(SIZES, rank=3, rngs=nnx.Rngs(0))
    assert mixer.value_map is not None
    inputs = attend_inputs(mixer, x)
    q, k = (np.asarray(a)[0] for a in inputs[:2])
    expected = softmax(np.einsum("ihk,rhk->hir", q, k) / 2) @ np.asarray(mixer.value_map[...]).T
    assert np.allclose(mixing_weights(mixer, x), abs(expected), atol=1e-5)


def test_values_that_have_two_projections_count_once(x):
    mixer = Longformer(SIZES, window=2, rngs=nnx.Rngs(0))
    weights = mixing_weights(mixer, x)
    assert ((weights != 0) == mixer.pattern(10)).all()
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)


def test_without_queries_and_keys_the_output_s_dependence_on_the_input_is_drawn(x):
    mixer = MLPMixer(SIZES, hidden=5, rngs=nnx.Rngs(0))
    jacobian = np.asarray(jax.jit(jax.jacobian(lambda x: mixer(x, None)[0]))(x))[:, :, 0]  # [L, D, L, D]
    expected = np.sqrt(np.square(jacobian).sum((1, 3)) / 12)
    assert np.allclose(mixing_weights(mixer, x), expected[None], atol=1e-6)


def test_every_form_of_a_picture_says_what_it_is():
    weights = np.random.default_rng(0).random((2, 4, 6, 6))
    facts = {"family": "low_rank", "cost": "2 * L * rank * D", "paper": "Wang et al. 2020, arXiv:2006.04768"}
    heads = tuple(f"head {number}" for number in range(1, 5))
    made_up = Mixing("linformer", **facts, weights=weights, is_pattern=False, heads=heads, input="of six tokens")
    title, second, *rest = texts(pictures.of_variant(made_up))
    assert title == "linformer"
    assert second == "low rank  |  cost: 2 · L · rank · D  |  Wang et al. 2020, arXiv:2006.04768"
    assert {"layer 1, head 1", "layer 2, head 4"} <= set(rest)
    assert "Weights of six tokens. On the left the mean of 2 layers and 4 heads." in " ".join(rest)
    cells = texts(pictures.sheet([mixing("local"), mixing("hybrid")]))
    assert {"local", "hybrid", "L · (2 · window + 1) · D", "Luong et al. 2015; Parmar et al. 2018"} <= set(cells)


def test_files_are_written_and_the_same_again(tmp_path, capsys):
    words = ["model=strided", "model.stride=3", "length=12", f"results={tmp_path}"]
    contents = []
    for _ in range(2):
        assert main(words) == 0
        contents.append({path.name: path.read_bytes() for path in (tmp_path / "gallery").iterdir()})
    assert set(contents[0]) == {"strided.png", "strided.svg"}
    assert contents[0] == contents[1]
    assert f"wrote {tmp_path}/gallery/: strided.png, strided.svg" in capsys.readouterr().out


def test_the_command_line_wins_over_the_gallery_s_sizes():
    (run,) = options(["model=bigbird", "model.block_size=8"]).variants
    assert model_of(run)[1] | {"_target_": ""} == {"_target_": "", "block_size": 8, "random_blocks": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=bigbrid"], "unknown variant 'bigbrid'. Did you mean bigbird?"),
        (["model=local", "model.windw=3"], "unknown key in model 'windw'. Did you mean window?"),
        (["model=local", "length=0"], "length=0: expected a whole number from 2 to 512"),
        (["model=local", "lenght=5"], "unknown key 'lenght'"),
        (["task=listop"], "unknown task 'listop'. Did you mean listops?"),
        (["task=listops", "preset=minni"], "unknown preset 'minni'. Did you mean mini?"),
        (["checkpoint=nowhere"], "checkpoint=nowhere: not the work folder of a run"),
        (["checkpoint="], "checkpoint= names no folder"),
        (["task=text", "preset=lra", "data_dir=nowhere"], "text: no IMDb reviews (source=official)"),
    ],
)
def test_wrong_input_is_a_clear_message_and_exit_code_2(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))
    assert main([*arguments, f"results={tmp_path}", f"cache_dir={tmp_path / 'cache'}"]) == 2
    assert capsys.readouterr().err.startswith(f"lra.gallery: {message}")
    assert not (tmp_path / "gallery").exists()


def test_a_run_of_another_version_is_refused(tmp_path, capsys):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "specification.json").write_text('{"title": "x", "config": {"sede": 0}}')
    assert main([f"checkpoint={tmp_path}", f"results={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert "its run was made by another version of this program" in said
    assert said.count("\n") == 1


def test_a_trained_run_is_drawn_and_left_alone(tmp_path, encoded):
    run, training = stopped(tmp_path, encoded, "encoder.layers=1", step=2, times=3)
    before = {path: path.stat().st_mtime_ns for path in run.work_folder.rglob("*")}

    drawn = trained(run.work_folder, 8)
    assert {path: path.stat().st_mtime_ns for path in run.work_folder.rglob("*")} == before
    split = run.task.validation
    example = next(i for i, length in enumerate(split.lengths) if length >= 8)
    tokens = split.sequence(example)[:8].astype(np.int32)
    assert drawn.weights.shape == (1, 2, 9, 9)  # the class token in front
    classifier = build_classifier(run.config.model, run.config.encoder, seed=0, **training.sizes)
    nnx.update(classifier, training.best.params)
    layer: Any = classifier.encoder.layers[0]
    x, _ = classifier.embedding(jnp.asarray(tokens)[None], None)
    q, k, _ = (np.asarray(a)[0] for a in layer.mixer.inputs(layer.mixer_norm(x)))
    expected = softmax(np.einsum("ihk,jhk->hij", q, k) / q.shape[-1] ** 0.5)
    assert np.allclose(drawn.weights[0], expected, atol=1e-5)
    assert f"after step 2, of the first 8 tokens behind the class token of validation example {example}" in drawn.input


def test_a_contact_sheet_shows_examples_with_their_labels(tmp_path, encoded):
    run = options(["task=listops", f"results={tmp_path}", f"cache_dir={encoded}"]).tasks[0]
    examples = contact.load_examples(run)
    assert len(examples.task.train) == contact.FEW["train"]
    for (shown,), label in zip(examples.shown, examples.labels, strict=True):
        tokens = encode(shown)
        assert label == f"label {evaluate(tokens, np.array([0, len(tokens)]))[0]}"
    assert len(set(examples.labels)) > 4  # labels take turns
    said = texts(contact.sheet(examples))
    assert "generated: made here by the task's own published law" in said
    assert [line for line in said if line.startswith("#")] == [
        f"#{number}  {label}" for number, label in zip(examples.chosen, examples.labels, strict=True)
    ]


def task_of(name: str, source: str, sequences: list[np.ndarray], labels: list[int], **facts) -> Task:
    offsets = np.cumsum([0, *map(len, sequences)])
    split = Split(np.concatenate(sequences), offsets, np.array(labels), facts.get("paired", False))
    sizes = {"vocab_size": 257, "num_classes": 2, "fingerprint": "", "baselines": {}}
    return Task(name, 1, source, split, split, split, **sizes, **facts)  # type: ignore[arg-type]


def test_pairs_padding_and_cuts_are_visible_and_a_surrogate_is_marked():
    bytes_of = [np.frombuffer(text, np.uint8).astype(int) + 1 for text in (b"a" * 20, b"short", b"\x00b", b"end\n")]
    task = task_of("retrieval", "surrogate", bytes_of, [1, 0], paired=True, max_length=20, truncated_fraction=0.25)
    config = compose_run(["model=transformer", "task=retrieval", "preset=lra", "seed=0"])
    figure = contact.sheet(contact.choose("retrieval", task, config))
    said = texts(figure)
    assert "surrogate: a stand-in made here, not the data of this name" in said
    assert [line for line in said if line.startswith("#")] == ["#1  label 0", "#0  label 1"]  # no official names
    assert {"a" * 20, "short", "·b", "end↵"} <= set(said)
    assert "20 tokens, cut there (or just as long)" in said
    assert "5 tokens, then padding" in said
    bars = [line for line in figure.artists if isinstance(line, Line2D) and line.get_linewidth() == 3]
    width = {round(float(np.ptp(line.get_xdata())), 3) for line in bars}
    assert len(bars) == 8
    assert round(max(width) / 4, 3) in width  # 5 of 20 tokens


def test_pictures_are_the_pixels():
    pixels = [np.arange(1024) % 251, np.arange(1000) % 251]
    task = task_of("pathfinder", "generated", pixels, [1, 0], max_length=1024, truncated_fraction=0.5)
    config = compose_run(["model=transformer", "task=pathfinder", "preset=lra", "seed=0"])
    examples = contact.choose("pathx", task, config)
    assert examples.labels == ["label 0: apart", "label 1: joined"]
    assert "pathx, preset lra" in texts(contact.sheet(examples))
    images: list[Any] = [axes.images[0].get_array() for axes in contact.sheet(examples).axes]
    first, second = (np.ma.filled(image.astype(float), np.nan) for image in images)
    assert second.reshape(-1).tolist() == pixels[0].tolist()
    assert np.isnan(first).sum() == 24


def test_excerpts_say_what_they_leave_out():
    assert contact.excerpt("abcdefgh", 3, 3) == ["abc", "def", "gh"]
    assert contact.excerpt("abcdefghijklm", 3, 4) == ["abc", "def", "... 6 more letters ...", "m"]


def test_the_gallery_lists_variants_that_there_are():
    assert set(settings()["models"]) == set(variant_names())
    assert settings()["encoder"]["pooling"] == "mean"
