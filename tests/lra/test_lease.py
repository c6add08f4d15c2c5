"""One writer at a time: the living are waited for, the dead are followed, and who lost the lease hears of it."""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lra import lease as lease_module
from lra.lease import Lease


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease_module, "POLL_SECONDS", 0.02)


def lease_on(folder, said=None, lost=lambda: None, stopped=lambda: False):
    return Lease(folder, [].append if said is None else said.append, lost, stopped)


def write(folder, **changes):
    """A lease that another process has left."""
    own = lease_module._process(os.getpid())
    content = {"owner": "other", "host": platform.node(), "processes": [own], "beat": time.time()}
    (folder / "lease.json").write_text(json.dumps(content | changes))


def read(folder):
    return json.loads((folder / "lease.json").read_text())


def taken_over(folder):
    """Enters, and says whether without waiting; what it said."""
    said, deadline = [], time.monotonic() + 0.5
    with lease_on(folder, said, stopped=lambda: time.monotonic() > deadline) as lease:
        return lease.held, said


def test_a_lease_is_there_inside_the_block_and_gone_after_it(tmp_path):
    folder = tmp_path / "new"
    with lease_on(folder) as lease:
        assert lease.held
        first = read(folder)
        assert first["host"] == platform.node()
        assert [process["pid"] for process in first["processes"]] == [os.getpid()]
        lease.include(os.getppid())
        assert [process["pid"] for process in read(folder)["processes"]] == [os.getpid(), os.getppid()]
        time.sleep(0.3)
        assert read(folder)["beat"] > first["beat"]
    assert not (folder / "lease.json").exists()
    assert not lease.held


def test_the_living_are_waited_for(tmp_path):
    write(tmp_path)
    threading.Timer(0.3, (tmp_path / "lease.json").unlink).start()
    said, started = [], time.monotonic()
    with lease_on(tmp_path, said) as lease:
        assert lease.held
        assert time.monotonic() - started > 0.25
    assert said == [f"{tmp_path} is in use by process {os.getpid()} on {platform.node()}; waiting for it"]


def test_whoever_is_stopped_waits_no_longer(tmp_path):
    write(tmp_path)
    assert taken_over(tmp_path)[0] is False
    assert read(tmp_path)["owner"] == "other"


def test_the_dead_are_followed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    write(tmp_path, processes=[lease_module._process(process.pid)])
    assert taken_over(tmp_path)[0] is False
    process.kill()
    while "zombie" not in Path(f"/proc/{process.pid}/status").read_text():
        time.sleep(0.01)
    held, said = taken_over(tmp_path)  # a zombie, which nobody has waited for
    assert held
    assert said == [f"process {process.pid} on {platform.node()} left {tmp_path} unfinished; taking over"]
    process.communicate()
    write(tmp_path, processes=[{"pid": process.pid, "started": 1}])
    assert taken_over(tmp_path)[0] is True  # nobody has the number any more


def test_a_number_that_is_used_again_is_another_process(tmp_path):
    own = lease_module._process(os.getpid())
    write(tmp_path, processes=[own | {"started": own["started"] - 1}])
    assert taken_over(tmp_path)[0] is True


def test_a_living_child_holds_the_lease_of_its_dead_parent(tmp_path):
    write(tmp_path, processes=[{"pid": 2**22 + 1, "started": 1}, lease_module._process(os.getpid())])
    assert taken_over(tmp_path)[0] is False


def test_another_machine_lives_as_long_as_its_heart_beats(tmp_path):
    dead = [{"pid": 2**22 + 1, "started": 1}]  # whatever runs here says nothing about it
    write(tmp_path, host="elsewhere", processes=dead, beat=time.time() - 30)
    assert taken_over(tmp_path)[0] is False
    write(tmp_path, host="elsewhere", processes=dead, beat=time.time() - lease_module.DEAD_SECONDS - 1)
    held, said = taken_over(tmp_path)
    assert held
    assert said == [f"process {2**22 + 1} on elsewhere left {tmp_path} unfinished; taking over"]


def test_half_a_lease_is_none(tmp_path):
    (tmp_path / "lease.json").write_text('{"owner": "ot')
    assert taken_over(tmp_path)[0] is True


def test_a_lost_lease_is_noticed_and_left_to_its_new_holder(tmp_path):
    lost = threading.Event()
    with lease_on(tmp_path, lost=lost.set) as lease:
        write(tmp_path)
        assert lost.wait(5)
        assert not lease.held
    assert read(tmp_path)["owner"] == "other"


def test_of_many_at_once_one_holds(tmp_path):
    inside, most, lock = [0], [0], threading.Lock()

    def work():
        with lease_on(tmp_path):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.02)
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not (tmp_path / "lease.json").exists()


def test_a_killed_holder_leaves_nothing_in_the_way(tmp_path):
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom lra.lease import Lease\n"
        "with Lease(Path(sys.argv[1]), print, print, lambda: False):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert read(tmp_path)["host"] == platform.node()
    assert taken_over(tmp_path)[0] is True
