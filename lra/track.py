"""Weights & Biases beside a run: `python -m lra.track <work folder> <parent>`, a process of its own.

It follows the history that the run writes anyway, so training neither waits for it nor knows of it, and a tracker that
hangs or dies costs nothing but its own page. Nothing else imports wandb.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any, Literal, cast

from lra.config import Tracking
from lra.record import read_json, write_json
from lra.variants import ROOT

FINAL_FILE, PROGRESS_FILE = "tracking_final.json", "tracked.json"
Mode = Literal["none", "offline", "online"]
POLL_SECONDS = 1.0
ONLINE_SECONDS, PATIENCE_SECONDS = 20.0, 60.0  # for the first answer of the server, and for the last
KEPT_OFFLINE = 4  # exit code


def mode(tracking: Tracking) -> Mode:
    """`none`, `offline` or `online`; `auto` is online where there is a key for it."""
    if tracking is not Tracking.auto:
        return cast(Mode, tracking.value)
    try:
        logged_in = netrc().authenticators("api.wandb.ai") is not None
    except (OSError, NetrcParseError):
        logged_in = False
    return "online" if logged_in or os.environ.get("WANDB_API_KEY") else "offline"


class Tracker:
    """The supervisor's handle on the tracking process of one run; does nothing when tracking is off."""

    def __init__(self, tracking: Tracking, folder: Path) -> None:
        self.folder, self.process = folder, None
        (folder / FINAL_FILE).unlink(missing_ok=True)
        if mode(tracking) != "none":
            command = [sys.executable, "-m", "lra.track", str(folder), str(os.getpid())]
            with open(folder / "tracking.log", "ab") as log:
                self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def finish(self, score: dict[str, Any], score_file: Path) -> str | None:
        """Hands over the score and waits a minute at most; returns a warning if the tracker did not end well."""
        if self.process is None:
            return None
        write_json(self.folder / FINAL_FILE, {"score": score, "file": str(score_file.absolute())})
        try:
            code = self.process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # wandb has a process of its own
            self.process.wait()
            return f"tracking did not end within {PATIENCE_SECONDS:.0f} s and was ended"
        if code == KEPT_OFFLINE:
            return f"no connection to W&B, the run was kept in {self.folder / 'wandb'}; scripts/sync_wandb.sh sends it"
        return f"tracking failed; see {self.folder / 'tracking.log'}" if code else None


def rows(folder: Path, history_file: str, parent: int) -> Iterator[dict[str, Any]]:
    """Every row of the history as it appears, until the run's score is there or the supervisor, `parent`, is gone."""
    position = 0
    while True:
        final = (folder / FINAL_FILE).exists() or os.getppid() != parent
        path = folder / history_file
        if path.exists():
            if path.stat().st_size < position:
                position = 0  # the run was set back to a checkpoint and writes its later rows again
            with open(path) as file:
                file.seek(position)
                while (line := file.readline()).endswith("\n"):
                    position = file.tell()
                    yield json.loads(line)
        if final:
            return
        time.sleep(POLL_SECONDS)


def main(folder: Path, parent: int) -> int:
    """Follows one run to its end; returns the exit code."""
    import wandb

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run decides when it ends; this follows
    specification: dict[str, Any] = read_json(folder / "specification.json") or {}
    tracked = read_json(folder / PROGRESS_FILE) or {"step": 0}
    asked = mode(Tracking[specification["config"]["tracking"]])
    try:
        run = _start(folder, specification, asked)
    except wandb.errors.Error as error:
        if asked == "offline":
            raise
        print(f"{error}\nkept offline instead", file=sys.stderr)
        wandb.teardown()
        run = _start(folder, specification, "offline")
    for row in rows(folder, specification["history"], parent):
        if row["step"] > tracked["step"]:
            run.log(row, step=row["step"])
            tracked["step"] = row["step"]
            write_json(folder / PROGRESS_FILE, tracked)
    final = read_json(folder / FINAL_FILE)
    if final is None:  # the supervisor was killed
        run.finish(exit_code=1)
        return 1
    score: dict[str, Any] = final["score"]
    run.summary.update({"status": score["status"], **(score["metrics"] or {})})
    if Path(final["file"]).is_file():
        artifact = wandb.Artifact(f"score-{specification['id']}", type="score")
        artifact.add_file(final["file"])
        run.log_artifact(artifact)
    run.finish(exit_code=0 if score["status"] == "complete" else 1)
    return KEPT_OFFLINE if run.offline and asked == "online" else 0


def _start(folder: Path, specification: dict[str, Any], mode: Any) -> Any:
    """One W&B run for all attempts at a run: they have one id."""
    import wandb

    return wandb.init(
        project=os.environ.get("WANDB_PROJECT", "long-range-arena"),
        id=specification["id"],
        name=specification["title"],
        group=specification["group"],
        config=specification["config"],
        dir=folder,
        mode=mode,
        resume="allow",
        settings=wandb.Settings(init_timeout=ONLINE_SECONDS),
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
