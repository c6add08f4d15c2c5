"""What is measured, on cases whose answer is known."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lra import child
from lra.flops import program_flops
from lra.lecture import features, orders, reach, record, share
from lra.lecture.__main__ import main
from lra.lecture.trained import Trained, attention_weights, low_rank, needed
from lra.subject import fast_jit
from lra.timing import Program
from lra.train import use_compile_cache
from models.dense.transformer import Transformer
from models.mixer import Sizes
from tests.lra.stopped import stopped

CLASSES = (share.WithoutAttention, Transformer)


@pytest.fixture(scope="module", autouse=True)
def programs_kept(compiled):
    """A program that one test has compiled is read by the next."""
    use_compile_cache(compiled)
    yield
    jax.config.update("jax_enable_compilation_cache", False)


def test_needed_counts_the_largest_values():
    assert needed(np.array([1.0, 8.0, 1.0])).tolist() == 2
    assert needed(np.array([9.0, 1.0])).tolist() == 1  # nine tenths exactly are enough
    assert needed(np.ones((2, 20))).tolist() == [18, 18]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, encoded) -> Path:
    """The work folder of a tiny run that is complete, whose best parameters are twice the first ones."""
    run, _ = stopped(tmp_path_factory.mktemp("finished"), encoded, "encoder.layers=2", step=3, times=2)
    (run.work_folder / child.OUTCOME_FILE).write_text('{"status": "complete", "error": null}')
    return run.work_folder


@pytest.fixture(scope="module")
def run(finished) -> Trained:
    return Trained.of(finished, pytest.fail)


def test_a_run_is_restored_with_its_best_parameters_and_its_first(run):
    trained, initial = (nnx.state(model, nnx.Param) for model in (run.trained, run.initial))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == 2 * b).all()), trained, initial))
    assert run.facts["best_step"] == 3


def test_weights_are_those_that_the_model_attends_with(run):
    tokens, mask = run.documents(run.by_length()[-1][:3])
    graph, state = nnx.split(run.trained)

    @fast_jit
    def both(state, tokens, mask):
        model = nnx.merge(graph, state)
        weights, real = attention_weights(model, tokens, mask)
        x, _ = model.embedding(tokens, mask)
        outputs = []
        for number, layer in enumerate(model.encoder.layers):
            q, k, v = layer.mixer.inputs(layer.mixer_norm(x))
            ours = jnp.einsum("bhlm,bmhk->blhk", weights[:, number], v)
            outputs.append((ours, layer.mixer.attend(q, k, v, real, None)))
            x, _ = layer(x, real, None, deterministic=True, rngs=None)
        return weights, real, outputs

    weights, real, outputs = jax.device_get(both(state, tokens, mask))
    assert real[:, 1:].tolist() == mask.tolist()  # and a class token in front
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    assert not weights[0][:, :, :, ~real[0]].any()
    assert all(np.allclose(ours, expected, atol=1e-4) for ours, expected in outputs)


def test_documents_are_grouped_by_length(run):
    lengths = [run.task.test.lengths[group] for group in run.by_length()]
    means = [each.mean() for each in lengths]
    assert means == sorted(means)
    assert means[0] < means[-1]
    assert lengths[-1].max() == run.task.test.lengths.max()


def test_singular_values_are_those_of_the_real_part(run):
    found = low_rank(run)
    points = [point for point in found["points"] if point["which"] == "initial" and point["layer"] == 1]
    group = run.by_length()[-1]
    graph, state = nnx.split(run.initial)
    attend = fast_jit(lambda state, *batch: attention_weights(nnx.merge(graph, state), *batch))
    weights, real = attend(state, *run.documents(group))
    counts, shares = [], []
    for example, length in zip(weights, np.asarray(real.sum(-1)), strict=True):
        matrix = np.asarray(example[1, 0, :length, :length], np.float64)
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix @ matrix.T), 0))[::-1]
        counts.append(1 + int((np.cumsum(values) < 0.9 * values.sum()).sum()))
        shares.append(counts[-1] / length)
    last = [point for point in points if point["head"] == 0][-1]
    assert last["of_sum"]["count"]["mean"] == pytest.approx(np.mean(counts))
    share = last["of_sum"]["share"]
    assert share["mean"] == pytest.approx(np.mean(shares))
    assert share["high"] - share["low"] == pytest.approx(2 * 1.96 * np.std(shares, ddof=1) / len(shares) ** 0.5)
    assert last["of_energy"]["count"]["mean"] <= last["of_sum"]["count"]["mean"]
    json.dumps(found, allow_nan=False)


@pytest.mark.slow
def test_more_features_come_nearer_and_elu_stays_away(monkeypatch):
    monkeypatch.setattr(features, "FEATURES", (8, 512))
    monkeypatch.setattr(features, "DRAWS", 3)
    monkeypatch.setattr(features, "LENGTH", 48)
    monkeypatch.setattr(features, "HEAD_DIM", 8)
    normal = features.normal_source()
    q, k, v = normal.layers[0]
    small = [(q / 2, k / 2, v)]  # of normal ones the kernel varies too much for this many features
    found = features.errors(features.Source(normal.facts, small, normal.real))
    few, many = found["plain"]
    assert few["low"] <= few["mean"] <= few["high"]
    assert many["high"] < few["low"] / 2
    assert many["low"] > 1e-3
    assert [point["features"] for point in found["performer"]] == [8, 512]
    assert found["performer"][1]["mean"] != many["mean"]
    assert found["order"] < 1e-5
    assert found["elu"] > 1e-2
    assert found["equal_weights"] > many["high"]


def test_a_trained_model_is_a_source_of_every_layer(run):
    source = features.trained_source(run)
    assert len(source.layers) == 2
    assert [x.shape for x in source.layers[0]] == [(8, run.task.max_length + 1, 2, 8)] * 3
    assert source.real.shape == (8, run.task.max_length + 1)


def test_relative_error_leaves_padding_out():
    exact = jnp.ones((1, 4, 1, 2))
    off = exact.at[0, 1].add(1.0).at[0, 3].add(100.0)
    assert features.relative_error([off], [exact], jnp.array([[True, True, True, False]])) == pytest.approx(3**-0.5)


def test_both_orders_are_counted_and_give_the_same(monkeypatch):
    monkeypatch.setattr(orders, "LENGTHS", (8, 32))
    monkeypatch.setattr(orders, "DIMS", (8,))
    monkeypatch.setattr(orders, "SECONDS", 0.001)
    short, long = orders.orders()
    assert short["queries_first"]["flops"] == short["values_first"]["flops"] == 4 * 8**3
    assert (long["queries_first"]["flops"], long["values_first"]["flops"]) == (4 * 8 * 32**2, 4 * 8**2 * 32)
    assert long["difference"] < 1e-5
    assert 0 < long["values_first"]["seconds"]["p10"] <= long["values_first"]["seconds"]["p90"]


def test_the_step_without_attention_keeps_everything_else():
    sizes = Sizes(16, 2, 16, 32, 8)
    ours, transformer = (nnx.eval_shape(lambda cls=cls: cls(sizes, rngs=nnx.Rngs(0))) for cls in CLASSES)
    shapes = [jax.tree.map(jnp.shape, nnx.state(mixer, nnx.Param)) for mixer in (ours, transformer)]
    assert shapes[0] == shapes[1]
    graph, state = nnx.split(share.WithoutAttention(sizes, rngs=nnx.Rngs(0)))
    x = np.random.default_rng(0).standard_normal((1, 8, 16)).astype(np.float32)

    @fast_jit
    def differentiate(state, x):
        jacobian = jax.jacobian(lambda x: nnx.merge(graph, state)(x, None)[0].sum(-1))(x)[:, 0]
        return jacobian, jax.grad(lambda state: (nnx.merge(graph, state)(x, None) ** 2).sum())(state)

    jacobian, gradients = differentiate(state, x)
    assert not (np.abs(jacobian).sum(-1) * (1 - np.eye(8))).any()  # no token sees another
    assert all(bool(leaf.any()) for leaf in jax.tree.leaves(gradients))  # and every projection is used


@pytest.mark.slow
def test_the_difference_of_the_steps_is_the_attention(monkeypatch):
    short, long = (p["with_attention"]["flops"] - p["without_attention"]["flops"] for p in _flops(monkeypatch))
    assert long / short == pytest.approx(4)


def _flops(monkeypatch):
    """Both steps counted at two lengths that blocks of queries divide, neither compiled nor run."""

    def count(step, arguments, *, advances):
        return Program(None, arguments, program_flops(jax.jit(step).trace(*arguments)), 0.0, advances)

    monkeypatch.setattr("lra.speed.compile_program", count)
    monkeypatch.setattr(share, "time_steps", lambda run, seconds: np.ones(4))
    return share.shares("mini", (256, 512), seconds=0)["points"]


CHAIN = abs(np.arange(9)[:, None] - np.arange(9)) <= 2
STRIDE = (np.arange(9)[:, None] - np.arange(9)) % 3 == 0
STAR = (np.arange(9)[:, None] == np.arange(9)) | (np.arange(9) == 0) | (np.arange(9)[:, None] == 0)


@pytest.mark.parametrize(
    ("pattern", "keys", "furthest", "second", "layers"),
    [
        (CHAIN, 39 / 9, 2, 5 / 9, 4),
        (STRIDE, 3, 6, 3 / 9, None),
        (STAR, 25 / 9, 8, 1, 2),
        (np.ones((9, 9), bool), 9, 8, 1, 1),
        (~np.eye(9, dtype=bool), 8, 8, 1, 1),  # a token keeps itself past every layer
    ],
)
def test_reach(pattern, keys, furthest, second, layers):
    found = reach.reach(pattern)
    assert found["keys"] == pytest.approx(keys)
    assert (found["furthest"], found["layers_to_all"]) == (furthest, layers)
    assert found["layers"][1]["least"] == pytest.approx(second)


@pytest.mark.slow
def test_every_fixed_pattern_is_walked():
    found = {each["variant"]: each for each in reach.reaches("mini", 64)["variants"]}
    assert {"local", "strided", "global_tokens", "sparse_transformer", "longformer", "bigbird"} <= set(found)
    assert found["global_tokens"]["layers_to_all"] == 2
    assert found["strided"]["layers_to_all"] is None
    assert "transformer" not in found


def test_parts_are_kept_beside_each_other(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reach, "reaches", lambda preset: {"length": 9, "variants": []})
    record.write_part(tmp_path, "share", {"points": []})
    assert main(["measure=true", f"results={tmp_path}", "parts=reach"]) == 0
    parts = record.read(tmp_path)
    assert set(parts) == {"share", "reach"}
    assert parts["reach"]["length"] == 9
    assert {"git_commit", "hardware", "software", "measured", "preset"} <= set(parts["reach"])
    assert f"in {tmp_path}/lecture.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "specification.json").unlink(), "not the work folder of a run"),
        (lambda folder: (folder / "outcome.json").write_text('{"status": "interrupted"}'), "its run is not complete"),
        (lambda folder: _respecify(folder, "models.patterns.local.Local"), "a run of models.patterns.local.Local"),
        (lambda folder: (folder / "checkpoints").rename(folder / "gone"), "no checkpoint that can be used"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_one_clear_line(finished, tmp_path, capsys, change, message):
    folder = tmp_path / "work"
    shutil.copytree(finished, folder)
    change(folder)
    assert main(["measure=true", f"results={tmp_path / 'results'}", f"checkpoint={folder}"]) == 2
    said = capsys.readouterr().err
    assert f"lra.lecture: checkpoint={folder}: " in said
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "results").exists()


def _respecify(folder: Path, target: str) -> None:
    file = folder / "specification.json"
    content = json.loads(file.read_text())
    content["config"]["model"] = {"_target_": target}
    file.write_text(json.dumps(content))
