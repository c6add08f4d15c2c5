"""`python -m lra.sweep preset=lra launcher=slurm`: a bench of every variant with three seeds, here or on a cluster.

The same command as `lra.bench` with other defaults, which also tries failed runs again until their attempts are used
up. Run again, it skips what is finished and goes on with the rest. Exit codes as there: 3 while runs are not complete.
"""

import sys
from collections.abc import Sequence

from lra import bench

DEFAULTS = {"model": "all", "seed": "0,1,2"}


def main(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    given = {text.partition("=")[0] for text in arguments}
    defaults = [f"{key}={value}" for key, value in DEFAULTS.items() if key not in given]
    return bench.main([*defaults, *arguments], repeat=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
