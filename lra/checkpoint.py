"""Checkpoints of a run, with orbax: saved in the background, committed in one go, checked when read.

A checkpoint holds everything that the rest of the run depends on: parameters, other state, the optimiser's state, the
best parameters so far, and a small JSON with the step, the history and what the checkpoint belongs to.
"""

import contextlib
import copy
import errno
import hashlib
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from lra.errors import BadInput

KEPT = 2  # the newest, and the one before it in case the newest is damaged


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: where they lie; created if need be.
        belongs_to: what must be equal for a checkpoint to be this run's, such as hashes of configuration and data.
        say: takes one line about every checkpoint that is passed over.
    """

    def __init__(self, folder: Path, belongs_to: dict[str, Any], say: Callable[[str], None]) -> None:
        self.folder, self.belongs_to, self.say = folder, belongs_to, say
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # what goes wrong is raised
        for left in sorted(folder.glob(f"*{ocp.path.atomicity_types.TMP_DIR_SUFFIX}*")):  # orbax clears it away
            say(f"checkpoint {left.name.partition('.')[0]} in {folder} was never finished and is passed over")
        folder.mkdir(parents=True, exist_ok=True)
        alone = jax.process_index()  # where a run has several processes, one of them saves and waits for no other
        options = ocp.CheckpointManagerOptions(
            max_to_keep=KEPT,
            create=False,
            cleanup_tmp_directories=True,
            multiprocessing_options=ocp.options.MultiprocessingOptions(primary_host=alone, active_processes={alone}),
        )
        # Named, because a stranger's checkpoint without names would otherwise make all others unreadable.
        self.manager = ocp.CheckpointManager(folder.absolute(), options=options, item_names=("arrays", "facts"))

    def save(self, step: int, arrays: Any, facts: dict[str, Any]) -> None:
        """Starts to save a pytree and JSON facts as step `step`; raises what went wrong with the save before."""
        # Copies: training goes on while this is being written, gives the state's memory away and adds to lists.
        flat = {name: np.array(leaf) for name, leaf in _named_leaves(arrays)}
        facts = copy.deepcopy(facts) | {"belongs_to": self.belongs_to}
        facts["checksum"] = _checksum(flat, facts)
        with self._disk_errors():
            self.manager.wait_until_finished()  # all_steps() names one under way too, and that must not be deleted
            if step in self.manager.all_steps():  # left by a stop before this step's evaluation; orbax would keep that
                self.manager.delete(step)
            self.manager.save(
                step, args=ocp.args.Composite(arrays=ocp.args.StandardSave(flat), facts=ocp.args.JsonSave(facts))
            )

    def wait(self) -> None:
        """Waits until everything is on the disk; raises what went wrong."""
        with self._disk_errors():
            self.manager.wait_until_finished()

    def close(self) -> None:
        """Waits, then lets go of the folder."""
        with self._disk_errors():
            self.manager.close()

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Turns what tensorstore says of a disk, such as RESOURCE_EXHAUSTED of a full one, into an OSError."""
        try:
            yield
        except ValueError as error:
            for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number), str(self.folder)) from error
            raise

    def restore_latest(self, like: Any) -> tuple[Any, dict[str, Any]] | None:
        """The newest usable checkpoint as (pytree shaped like `like`, facts); None if there is none.

        One that is damaged or another run's is named, moved aside and passed over.
        """
        for step in sorted(self.manager.all_steps(), reverse=True):
            try:
                found = self._restore(step, like)
            except Exception as error:  # orbax and tensorstore raise whatever the damage leads to
                reason = " ".join(str(error).split())[:200]
                self.say(f"checkpoint {step} in {self.folder} can't be used and is passed over: {reason}")
                self._move_aside(step)
                continue
            return found
        return None

    def _restore(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        facts: dict[str, Any] = self.manager.restore(step, args=ocp.args.Composite(facts=ocp.args.JsonRestore())).facts
        checksum = facts.pop("checksum")
        if facts["belongs_to"] != self.belongs_to:
            raise BadInput(f"it belongs to {facts['belongs_to']}, this run is {self.belongs_to}")
        names = dict(_named_leaves(like))
        template = {name: np.empty(leaf.shape, leaf.dtype) for name, leaf in names.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sharding, which the caller decides on
            flat = self.manager.restore(step, args=ocp.args.Composite(arrays=ocp.args.StandardRestore(template))).arrays
        if _checksum(flat, facts) != checksum:
            raise BadInput("its content is not what was saved")
        return jax.tree.unflatten(jax.tree.structure(like), [flat[name] for name in names]), facts

    def _move_aside(self, step: int) -> None:
        source = self.folder / str(step)
        target = next(p for n in range(1000) if not (p := self.folder / f"unusable-{step}-{n}").exists())
        source.rename(target)
        self.manager.reload()


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a pytree, each with its path."""
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _checksum(flat: dict[str, Any], facts: dict[str, Any]) -> str:
    """Hash of the facts and of the arrays' names, types, shapes and bytes."""
    total = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
    for name in sorted(flat):
        array = np.ascontiguousarray(flat[name])
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
