"""Whatever a child does, the supervisor says what became of it and goes on."""

import itertools
import os
import signal
import threading
import time

import pytest

from lra import supervise
from lra.supervise import Outcome, Supervisor
from tests.lra.faking import tell

pytestmark = pytest.mark.usefixtures("signals_restored")


def run(folder, behaviour, minutes=1.0, **keywords):
    specification = folder / "specification.json"
    specification.write_text("{}")
    return Supervisor().run_child("tests.lra.fake_child", tell(folder, behaviour), minutes=minutes, **keywords)


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        ("measured", Outcome("complete", None)),
        ("diverged", Outcome("diverged", "the loss of step 4 is nan")),
        ("kill", Outcome("failed", "killed by SIGKILL")),
        ("segfault", Outcome("failed", "killed by SIGSEGV")),
        ("leave_with_code_5", Outcome("failed", "exit code 5")),
        ("raises", Outcome("failed", "RuntimeError: no such luck")),
        ("exhausted", Outcome("out_of_memory", "RuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")),
        ("memory_error", Outcome("out_of_memory", "the machine's memory ran out")),
        ("bad_input", Outcome("failed", "unknown keyword of BigBird 'bolck'")),
        ("full_disk", Outcome("failed", "cannot read or write /some/history.jsonl: No space left on device")),
    ],
)  # fmt: skip
def test_an_end_becomes_a_status(tmp_path, behaviour, outcome, capfd):
    assert run(tmp_path, behaviour) == outcome
    assert ("Traceback" in capfd.readouterr().err) == (behaviour in ("raises", "exhausted"))


def test_an_outcome_of_an_earlier_child_is_not_taken_for_this_ones(tmp_path):
    assert run(tmp_path, "measured").status == "complete"
    assert run(tmp_path, "kill").status == "failed"


def test_a_kill_by_the_kernel_for_want_of_memory(tmp_path, monkeypatch):
    assert supervise._out_of_memory_kills() >= 0
    counts = itertools.count()
    monkeypatch.setattr(supervise, "_out_of_memory_kills", lambda: next(counts))
    assert run(tmp_path, "kill") == Outcome("out_of_memory", "killed by the kernel: the machine's memory ran out")


def test_a_child_past_its_limit_is_stopped(tmp_path):
    pids = []
    started = time.monotonic()
    assert run(tmp_path, "sleep", minutes=0.01, started=pids.append) == Outcome(
        "timed_out", "stopped after 0.01 minutes"
    )
    assert time.monotonic() - started < 20
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_child_that_does_not_stop_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 0.5)
    pids = []
    assert run(tmp_path, "stubborn", minutes=0.01, started=pids.append).status == "timed_out"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def once_ready(folder, action):
    def wait_and_act():
        while not (folder / "ready").exists():
            time.sleep(0.01)
        action()

    threading.Thread(target=wait_and_act).start()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_is_passed_on_once(tmp_path, name):
    def twice():
        os.kill(os.getpid(), signal.Signals[name])
        time.sleep(0.2)
        os.kill(os.getpid(), signal.Signals[name])

    once_ready(tmp_path, twice)
    assert run(tmp_path, "count_signals") == Outcome("interrupted", "stopped after step 7 of 12; run again to go on")
    assert (tmp_path / "came").read_text() == f"[{signal.SIGTERM.value}]"


def test_a_child_that_ignores_a_signal_is_killed_after_a_grace(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 0.5)
    once_ready(tmp_path, lambda: os.kill(os.getpid(), signal.SIGTERM))
    started = time.monotonic()
    assert run(tmp_path, "stubborn") == Outcome("interrupted", "stopped by a signal")
    assert time.monotonic() - started < 20


def test_nothing_starts_after_a_signal(tmp_path):
    supervisor = Supervisor()
    os.kill(os.getpid(), signal.SIGTERM)
    outcome = supervisor.run_child("tests.lra.fake_child", tell(tmp_path, "measured"), minutes=1)
    assert outcome.status == "interrupted"
    assert not (tmp_path / "result.json").exists()


def test_a_signal_while_the_child_starts_reaches_it(tmp_path):
    outcome = run(tmp_path, "sleep", started=lambda pid: os.kill(os.getpid(), signal.SIGTERM))
    assert outcome == Outcome("interrupted", "stopped by a signal")


def test_an_abandoned_child_ends_at_once(tmp_path):
    supervisor = Supervisor()
    once_ready(tmp_path, supervisor.abandon)
    started = time.monotonic()
    outcome = supervisor.run_child("tests.lra.fake_child", tell(tmp_path, "stubborn"), minutes=1)
    assert outcome.status == "interrupted"
    assert time.monotonic() - started < 20
