import os
import signal
import subprocess

import pytest

from lra.child import STOP_SIGNALS


@pytest.fixture(scope="session")
def encoded(tmp_path_factory):
    """Where the tiny task's encoded data is kept: one folder for all workers, so that it is built once."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "encoded"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compiled programs of all the attempts that this worker makes."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one mebibyte."""
    place = tmp_path / "small_disk"
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"a small disk can't be mounted here: {mount.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def signals_restored():
    """Gives this process its own signal handlers back after a test that makes it a supervisor."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
