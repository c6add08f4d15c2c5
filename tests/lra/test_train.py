"""One step is pure and compiled once; a run repeats itself bit for bit, learns, and says when it can't."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lra.build import build_classifier
from lra.config import compose_run
from lra.optimiser import build_optimiser
from lra.progress import TrainingProgress
from lra.step import TrainState, make_predict, make_train_step, real_tokens, split_model
from lra.train import Diverged, Training, metrics, use_compile_cache
from tasks.task import Batch, Split, Task
from tests.lra import tiny

LENGTH, CLASSES = 8, 3


@pytest.fixture(scope="module", autouse=True)
def programs_kept(compiled):
    """A program that one test has compiled is read by the next."""
    use_compile_cache(compiled)
    yield
    jax.config.update("jax_enable_compilation_cache", False)


def first_token_task(examples=96):
    """The class is the first token's: a model that learns anything learns this."""
    draw = np.random.default_rng(0)

    def split(count):
        lengths = draw.integers(2, LENGTH + 1, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = draw.integers(1, CLASSES + 1, offsets[-1]).astype(np.uint8)
        return Split(tokens, offsets, tokens[offsets[:-1]] - 1)

    return Task(
        name="first_token",
        version=1,
        source="generated",
        train=split(examples),
        validation=split(30),
        test=split(45),
        vocab_size=CLASSES + 1,
        num_classes=CLASSES,
        max_length=LENGTH,
        fingerprint="first token",
        baselines={"majority": 0.4},
    )


def configuration(*more):
    return compose_run(tiny.overrides(*more))


def training(folder, *more, task=None):
    folder.mkdir(exist_ok=True)
    config = configuration(*more)
    return Training(config, task or first_token_task(), folder, {"run": "x"}, lambda text: pytest.fail(text))


def run(trained, steps=tiny.STEPS):
    with TrainingProgress("a test", steps) as progress:
        trained.run(progress)
    return trained


def program(*more):
    """The jitted step, its first state and a batch."""
    config, task = configuration(*more), first_token_task()
    model = build_classifier(config.model, config.encoder, max_length=LENGTH, **task.shape._asdict())
    graph, params, rest = split_model(model)
    optimiser = build_optimiser(config.train)
    step = jax.jit(make_train_step(graph, optimiser, jax.random.key(0)))
    state = TrainState(params, rest, optimiser.init(params), jnp.zeros((), jnp.int32))
    return step, state, task.train.batch(np.arange(8), LENGTH)


def equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_many_steps_are_traced_once():
    step, state, batch = program("encoder.dropout=0.1")
    for _ in range(50):
        state, _ = step(state, batch)
    assert int(state.step) == 50
    assert step._cache_size() == 1


def test_noise_follows_from_the_step_and_from_nothing_else():
    step, state, batch = program("encoder.dropout=0.1")
    losses = [float(step(state._replace(step=jnp.int32(number)), batch)[1]) for number in (0, 0, 1, 2)]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3
    step, state, batch = program("encoder.dropout=0", "encoder.attention_dropout=0")
    assert len({float(step(state._replace(step=jnp.int32(number)), batch)[1]) for number in (0, 1)}) == 1


def test_the_step_is_one_of_gradient_descent_on_the_mean_cross_entropy():
    step, state, batch = program("encoder.dropout=0", "encoder.attention_dropout=0")
    config, task = configuration(), first_token_task()
    graph, *_ = split_model(build_classifier(config.model, config.encoder, max_length=LENGTH, **task.shape._asdict()))
    predict = make_predict(graph)

    def mean_loss(params):
        return predict(params, state.rest, batch)[1].mean()

    after, loss = step(state, batch)
    expected_loss, gradients = jax.jit(jax.value_and_grad(mean_loss))(state.params)
    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-5)
    optimiser = build_optimiser(config.train)
    updates, _ = jax.jit(optimiser.update)(gradients, state.optimiser, state.params)
    expected = optax.apply_updates(state.params, updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), after.params, expected)


@pytest.mark.parametrize("lengths", [[0, 2, 4], [[4, 0], [1, 3]]])
def test_the_mask_follows_from_the_lengths(lengths):
    lengths = np.array(lengths)
    batch = Batch(np.zeros((*lengths.shape, 4), np.int32), lengths, np.zeros(len(lengths)))
    np.testing.assert_array_equal(real_tokens(batch).sum(-1), lengths)
    assert real_tokens(batch)[0].shape == (*lengths.shape[1:], 4)


def test_predictions_do_not_depend_on_the_rest_of_the_batch(tmp_path):
    """A row full of NaN, which nothing but another row's leak could spread."""
    trained = training(tmp_path / "run")
    batch = trained.task.test.batch(np.arange(4), LENGTH)
    params = jax.tree.map(np.array, trained.state.params)
    params["embedding"]["tokens"][...][3] = np.nan
    clean = np.where((batch.tokens == 3).any(1))[0]
    tokens = np.where(batch.tokens == 3, 2, batch.tokens)
    expected = trained.predict(params, trained.state.rest, batch._replace(tokens=tokens))
    tokens[1] = 3
    found = trained.predict(params, trained.state.rest, batch._replace(tokens=tokens))
    for row in (0, 2, 3):
        assert float(found[1][row]) == float(expected[1][row]) == pytest.approx(float(found[1][row]))
    assert np.isnan(found[1][1])
    assert clean.size


def test_two_runs_of_one_seed_are_bit_identical_and_another_seed_is_not(tmp_path):
    first, second = (run(training(tmp_path / name, "encoder.dropout=0.1")) for name in "ab")
    equal(first.state, second.state)
    equal(first.best, second.best)
    assert first.history == second.history
    equal(first.test().losses, second.test().losses)
    other = run(training(tmp_path / "c", "encoder.dropout=0.1", "seed=1"))
    assert other.history != first.history


def test_a_run_learns_and_keeps_its_best_parameters(tmp_path):
    steps = 60
    more = (f"train.steps={steps}", "train.evaluate_every=20", "train.learning_rate=0.01", "encoder.dropout=0")
    trained = run(training(tmp_path / "run", *more), steps)
    losses = [row["train_loss"] for row in trained.history]
    assert losses[-1] < losses[0] / 2
    assert [row["step"] for row in trained.history] == [20, 40, 60]
    assert tiny.history(tmp_path / "run") == trained.history
    accuracies = [row["validation_accuracy"] for row in trained.history]
    assert (trained.best.accuracy, trained.best.step) == (max(accuracies), 20 * (1 + int(np.argmax(accuracies))))
    test = trained.test()
    found = metrics(trained, test)
    assert found["test_accuracy"] > 0.9
    assert (found["n_test"], found["at_chance"], found["constant"]) == (45, False, False)
    assert found["interval"][0] < found["test_accuracy"] < found["interval"][1]


def test_the_test_split_is_read_once_after_selection(tmp_path):
    class Unread(Split):
        def batch(self, examples, max_length):
            reads.append(len(trained.history))
            return super().batch(examples, max_length)

    reads, task = [], first_token_task()
    unread = Unread(task.test.tokens, task.test.offsets, task.test.labels)
    trained = training(tmp_path / "run", task=Task(**(vars(task) | {"test": unread})))
    run(trained)
    assert reads == []
    trained.best = trained.best._replace(params=jax.tree.map(np.zeros_like, trained.best.params))
    assert trained.test().constant  # it is the best parameters that are tested, not the last
    assert set(reads) == {len(trained.history)}


def test_a_constant_predictor_at_chance_is_named(tmp_path):
    trained = training(tmp_path / "run")
    trained.best = trained.best._replace(params=jax.tree.map(np.zeros_like, trained.best.params))
    found = metrics(trained, trained.test())
    assert (found["constant"], found["at_chance"]) == (True, True)


def test_a_rate_far_too_high_diverges(tmp_path):
    trained = training(tmp_path / "run", "train.learning_rate=1e30", "train.schedule=rsqrt")
    with pytest.raises(Diverged, match=r"the loss of step \d+ is (nan|inf)"):
        run(trained)


def test_training_ends_by_the_clock(tmp_path):
    trained = training(tmp_path / "run", "train.minutes=0.0000001")
    run(trained)
    assert trained.step == 1
    assert [row["step"] for row in trained.history] == [1]  # evaluated and saved all the same
    assert trained.checkpoints.manager.latest_step() == 1


def test_pairs_of_documents_train_too(tmp_path):
    draw = np.random.default_rng(0)

    def split(count):
        tokens = draw.integers(1, 5, 2 * count * LENGTH).astype(np.uint8)
        labels = (draw.random(count) < 0.5).astype(np.uint8)
        return Split(tokens, np.arange(2 * count + 1) * LENGTH, labels, paired=True)

    parts = vars(first_token_task()) | {name: split(30) for name in ("train", "validation", "test")}
    task = Task(**(parts | {"vocab_size": 6, "num_classes": 2, "paired": True}))
    trained = run(training(tmp_path / "run", "train.steps=2", task=task), 2)
    assert len(trained.test().predictions) == 30


def test_a_failed_save_in_the_background_stops_the_run(tmp_path, monkeypatch):
    import orbax.checkpoint as ocp

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    trained = training(tmp_path / "run")
    monkeypatch.setattr(ocp.path.atomicity.AtomicRenameTemporaryPath, "finalize", full)
    with pytest.raises(OSError, match="No space left"):
        run(trained)
    assert [row["step"] for row in trained.history] in ([3], [3, 6])  # at the next save, not at the end


def test_training_from_a_checkpoint_in_this_process_goes_on_as_it_would_have(tmp_path):
    whole = run(training(tmp_path / "whole", "encoder.dropout=0.1"))
    stopped = training(tmp_path / "parts", "encoder.dropout=0.1")
    with (
        TrainingProgress("a test", tiny.STEPS) as progress,
        pytest.raises(Exception, match="stopped after step 7 of 12"),
    ):
        stopped.run(progress, lambda: stopped.step >= 7)
    again = training(tmp_path / "parts", "encoder.dropout=0.1")
    assert again.resume() == 7
    run(again)
    equal(again.state, whole.state)
    assert again.history == whole.history
