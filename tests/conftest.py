"""What every test runs under: on the CPU, without a network, with a home and caches of its own."""

import gc
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

NOWHERE = "http://127.0.0.1:9"  # nothing listens there: programs that tests start fail at once on any download


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported, so that jax and matplotlib see it; workers and children inherit it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        home = Path(tempfile.mkdtemp(prefix="lra-test-"))
        config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
        os.environ |= {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "LRA_CACHE": str(home / "lra"),
            "LRA_WORK": str(home / "work"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis"),
            "JAX_PLATFORMS": "cpu",
            "JAX_NUMPY_RANK_PROMOTION": "raise",  # [B, L] + [L] is more often a mistake than meant
            "MPLBACKEND": "agg",
            "WANDB_MODE": "offline",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
        }
        if config.option.markexpr == "not slow":  # `make test` compiles much and computes little
            os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
            # the older emitters in one piece: half the time to compile
            os.environ["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
            os.environ["JAX_NUM_CPU_DEVICES"] = "1"  # a program for one device compiles sooner
        for name in (
            "DATA_DIR",
            "RESULTS",
            "MAKEFLAGS",
            "MAKELEVEL",
            "MFLAGS",
            "NO_PROXY",
            "no_proxy",
            "WANDB_API_KEY",
        ):
            os.environ.pop(name, None)
    gc.set_threshold(50_000)  # tracing makes so many objects that looking for garbage took a tenth of the time
    socket.socket.connect = _local_only(socket.socket.connect)  # type: ignore[method-assign]
    socket.socket.connect_ex = _local_only(socket.socket.connect_ex)  # type: ignore[method-assign]


def _local_only(connect: Any) -> Any:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"a test asked for the network: {address}")
        return connect(self, address)

    return guarded
