"""A run that is killed or stopped, however often and wherever, ends as the undisturbed run does, bit for bit."""

import functools
import os
import random
import signal
import sys
import time

import jax
import numpy as np
import pytest

from lra.record import PREDICTIONS_FILE
from lra.soak import attempt, committed, differences, last_arrays, start_attempt
from tests.lra import tiny

SEED, KILLS, KILLS_IN_A_SAVE = 20_260_401, 20, 8
QUICK_KILLS, QUICK_KILLS_IN_A_SAVE = 3, 2
STEPS, QUICK_STEPS, EVERY = 90, 40, 2
EVENTS = 24  # operations on the files of one save, its commit included


def assert_same(run, other):
    """Predictions, metrics, history and every array of the last checkpoint are equal, not merely close."""
    assert differences(run, other) == []
    assert tiny.history(run.work_folder) == tiny.result(run.work_folder)["history"]
    assert len(np.load(run.work_folder / PREDICTIONS_FILE)["id"]) == tiny.TEST_EXAMPLES


def long_run(root, encoded, steps):
    return tiny.run_of(
        f"train.steps={steps}", f"train.evaluate_every={EVERY}", *tiny.places(root / f"{steps}", encoded)
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, encoded, compiled):
    """The run of so many steps that nobody interrupts."""

    @functools.cache
    def finished(steps):
        run = long_run(tmp_path_factory.mktemp("undisturbed"), encoded, steps)
        assert attempt(run, compiled) == (0, {"status": "complete", "error": None})
        return run

    return finished


def kill_at_step(number):
    """Hook: the process dies as it begins its `number`-th step, all earlier saves being on the disk."""
    from lra.train import Training

    original, steps = Training._batch, iter(range(1, 10_000))

    def batch(training, step):
        if next(steps) == number:
            training.checkpoints.wait()
            tiny.kill()
        return original(training, step)

    Training._batch = batch


def kill_in_save(number, event):
    """Hook: the process dies before the `event`-th operation on the files of its `number`-th save."""
    from lra.checkpoint import Checkpoints

    original, saves = Checkpoints.save, iter(range(1, 10_000))
    seen = None

    def save(checkpoints, *arguments):
        nonlocal seen
        if next(saves) == number:
            checkpoints.wait()
            seen = 0
        original(checkpoints, *arguments)

    def count(name, arguments):
        nonlocal seen
        if seen is not None and any(".orbax-checkpoint-tmp" in str(argument) for argument in arguments):
            seen += 1
            if seen == event:
                tiny.kill()

    Checkpoints.save = save
    sys.addaudithook(count)


@pytest.mark.parametrize(
    ("steps", "kills", "in_a_save", "unfinished"),
    [
        pytest.param(QUICK_STEPS, QUICK_KILLS, QUICK_KILLS_IN_A_SAVE, 1, id="three"),
        pytest.param(STEPS, KILLS, KILLS_IN_A_SAVE, 5, id="twenty", marks=pytest.mark.slow),
    ],
)
def test_killed_at_seeded_points(tmp_path, encoded, compiled, undisturbed, steps, kills, in_a_save, unfinished):
    draw = random.Random(SEED)
    hooks = [
        functools.partial(kill_in_save, 2, draw.randint(1, EVENTS))
        if number < in_a_save
        else functools.partial(kill_at_step, draw.randint(EVERY + 1, 2 * EVERY))
        for number in range(kills)
    ]
    draw.shuffle(hooks)
    run = long_run(tmp_path, encoded, steps)
    reached = 0
    for hook in hooks:
        assert attempt(run, compiled, hook) == (-signal.SIGKILL, None), hook
        before, reached = reached, committed(run)[-1]
        assert reached > before, f"{hook} made no progress"
    assert attempt(run, compiled) == (0, {"status": "complete", "error": None})
    assert_same(run, undisturbed(steps))
    log = (run.work_folder / "attempts.log").read_text()
    assert log.count("goes on after step") == kills
    assert "can't be used" not in log  # a kill never leaves a damaged checkpoint under its final name
    assert log.count("was never finished") >= unfinished  # the kills inside a save did hit one


def test_killed_by_the_clock(tmp_path, encoded, compiled, undisturbed):
    run = long_run(tmp_path, encoded, QUICK_STEPS)
    process = start_attempt(run, compiled)
    while len(committed(run)) < 2:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it was done before the kill"
    assert attempt(run, compiled) == (0, {"status": "complete", "error": None})
    assert_same(run, undisturbed(QUICK_STEPS))


@pytest.fixture(scope="module")
def short(tmp_path_factory, encoded, compiled):
    """A shorter run that nobody interrupts."""
    run = tiny.run_of(*tiny.places(tmp_path_factory.mktemp("short"), encoded))
    assert attempt(run, compiled) == (0, {"status": "complete", "error": None})
    return run


def signal_at_step(number, step):
    """Hook: the process gets a signal while it works on a step."""
    from lra.train import Training

    original = Training._batch

    def batch(training, current):
        if current + 1 == step:
            os.kill(os.getpid(), number)
        return original(training, current)

    Training._batch = batch


def signal_at_evaluation(step):
    """Hook: the process gets SIGTERM while it evaluates after a step."""
    from lra.train import Training

    original = Training._evaluate

    def evaluate(training, current, *arguments):
        if current == step:
            os.kill(os.getpid(), signal.SIGTERM)
        original(training, current, *arguments)

    Training._evaluate = evaluate


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGUSR1", marks=pytest.mark.slow)])
def test_a_signal_at_step_7_saves_at_once_and_the_run_goes_on(tmp_path, encoded, compiled, short, name):
    run = tiny.run_of(*tiny.places(tmp_path, encoded))
    hook = functools.partial(signal_at_step, signal.Signals[name], 7)
    code, outcome = attempt(run, compiled, hook)
    assert (code, outcome["status"]) == (75, "interrupted")
    assert "step 7 of 12" in outcome["error"]
    assert committed(run)[-1] == 7
    assert attempt(run, compiled) == (0, {"status": "complete", "error": None})
    assert [row["step"] for row in tiny.history(run.work_folder)] == [3, 6, 9, 12]
    assert_same(run, short)


@pytest.mark.parametrize("step", [6, pytest.param(tiny.STEPS, marks=pytest.mark.slow)])
def test_a_signal_during_an_evaluation_stops_it_and_the_next_attempt_begins_with_it(
    tmp_path, encoded, compiled, short, step
):
    run = tiny.run_of(*tiny.places(tmp_path, encoded))
    code, outcome = attempt(run, compiled, functools.partial(signal_at_evaluation, step))
    assert (code, outcome["status"]) == (75, "interrupted")
    assert committed(run)[-1] == step
    assert tiny.history(run.work_folder)[-1]["step"] < step
    assert attempt(run, compiled) == (0, {"status": "complete", "error": None})
    assert_same(run, short)


def poison_parameters(step):
    """Hook: the parameters become NaN before a step, as an overflow would make them."""
    from lra.train import Training

    original = Training.resume

    def resume(training):
        train_step = training.train_step

        def poisoned(state, batch):
            if int(state.step) + 1 == step:
                state = state._replace(params=jax.tree.map(lambda leaf: leaf * np.float32(np.nan), state.params))
            return train_step(state, batch)

        training.train_step = poisoned
        return original(training)

    Training.resume = resume


def test_a_loss_that_is_not_finite_ends_the_run_and_the_last_good_checkpoint_stays(tmp_path, encoded, compiled):
    run = tiny.run_of(*tiny.places(tmp_path, encoded))
    code, outcome = attempt(run, compiled, functools.partial(poison_parameters, 8))
    assert (code, outcome) == (0, {"status": "diverged", "error": "the loss of step 8 is nan"})
    found = tiny.result(run.work_folder)
    assert "metrics" not in found
    assert [row["step"] for row in found["history"]] == [3, 6]
    assert committed(run)[-1] == 6
    assert all(np.isfinite(array).all() for array in last_arrays(run).values())
