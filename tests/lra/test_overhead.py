"""The overhead of the training loop, on a run so small that a test can afford it."""

import time

import pytest

from lra import child, overhead
from lra.config import compose_run
from lra.overhead import Subject
from tests.lra import tiny


@pytest.fixture(scope="module")
def subject(tmp_path_factory, encoded):
    """A tiny run whose loop has taken its first steps."""
    folder = tmp_path_factory.mktemp("overhead")
    config = compose_run(tiny.overrides(*tiny.places(folder, encoded)))
    found = Subject(config, child.load_task(config.task), folder, batch_size=8)
    found.loop_seconds(1)
    return found


def test_the_loop_trains_on_from_where_it_was_and_never_evaluates(subject):
    before = subject.training.step
    subject.loop_seconds(20)
    assert subject.training.step == before + 21
    subject.bare_seconds(5)
    assert subject.training.step == before + 26
    assert subject.training.history == []


def test_what_the_loop_does_beside_its_step_shows(subject, monkeypatch):
    gather = subject.training._batch

    def slow(step):
        time.sleep(0.02)
        return gather(step)

    bare = subject.bare_seconds(5)
    monkeypatch.setattr(subject.training, "_batch", slow)
    assert subject.loop_seconds(5) > 0.02
    assert subject.bare_seconds(5) < 0.02 or bare > 0.02


@pytest.mark.slow
def test_batches_grow_until_a_step_is_long_enough(subject, tmp_path, monkeypatch):
    config = subject.training.config
    monkeypatch.setattr(overhead, "LONG_STEP", 3 * subject.bare_seconds(10))
    monkeypatch.setattr(overhead, "ROUND_SECONDS", 0.02)
    found = overhead.overhead(config, subject.training.task, tmp_path)
    assert found["batch_size"] > 8
    assert found["batch_size"] % 8 == 0
    assert found["bare_seconds"] > 0 < found["loop_seconds"]
    assert 0 < found["throughput_over_bare"] < 10
