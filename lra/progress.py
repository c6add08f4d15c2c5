"""What a person sees while a model trains: a bar with rate and time left, or plain lines without one of its own."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingProgress:
    """Progress of one run; use it as a context. Without `bar`, or a terminal, there are lines only."""

    def __init__(self, title: str, steps: int, *, bar: bool = True) -> None:
        self.title, self.steps, self.started, self.first = title, steps, time.monotonic(), 0
        self.console = Console(stderr=True)
        self.plain = not (bar and sys.stderr.isatty())
        self.rate = 0.0  # steps a second
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
            transient=True,
            disable=self.plain,
        )
        self.task = self.bar.add_task(title, total=steps, rate="compiling", figures="")

    def __enter__(self) -> "TrainingProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """One line above the bar."""
        self.console.print(f"{self.title}: {text}", highlight=False, soft_wrap=True)

    def resumed(self, step: int) -> None:
        """Says that the run goes on from a checkpoint."""
        self.first = step
        self.bar.update(self.task, completed=step)
        self.say(f"goes on after step {step:,}")

    def step(self, done: int) -> None:
        """Says that `done` steps are done."""
        timed = done - self.first - 1
        if timed == 0:
            self.started = time.monotonic()  # the first step compiles and says nothing about the rate
        self.rate = timed / max(time.monotonic() - self.started, 1e-9)
        self.bar.update(self.task, completed=done, rate=f"{self.rate:.1f} steps/s" if timed else "compiling")

    def evaluated(self, step: int, loss: float, accuracy: float) -> None:
        """Shows the figures of an evaluation."""
        figures = f"loss {loss:.3f}, validation {100 * accuracy:.1f} %"
        self.bar.update(self.task, figures=figures)
        if self.plain:
            left = f", about {(self.steps - step) / self.rate:.0f} s left" if self.rate and step < self.steps else ""
            self.say(f"step {step:,} of {self.steps:,}, {figures}{left}")
