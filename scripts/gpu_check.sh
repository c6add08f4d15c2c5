#!/usr/bin/env bash
# What to run on a machine with a GPU or a TPU whose Python has jax, flax, optax, orbax and numpy, and nothing else of ours:
#     scripts/gpu_check.sh > check.json            # PYTHON=... chooses the Python, --help lists the options
# Times layers, dense forms and a training step in float32 and bfloat16, each in a process of its own, and prints JSON.
set -euo pipefail
cd "$(dirname "$0")/.."
export XLA_PYTHON_CLIENT_PREALLOCATE=false   # so that memory in use is what the cell uses
exec "${PYTHON:-python3}" scripts/gpu_check.py "$@"
