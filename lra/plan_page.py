"""The table of `make plan`: on the terminal, and as `docs/plan.md` has it, task by task."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import jax
from rich.table import Table

from lra.console import table
from lra.errors import BadInput
from lra.growth import put_between_markers
from lra.variants import ROOT

PAGE = ROOT / "docs" / "plan.md"
FIGURES = ("batch", "steps", "parameters", "GFLOP a step", "MiB temporary", "MiB in all", "device hours")
DASH = "\N{EN DASH}"


class Plan(NamedTuple):
    """What one training step takes: parameters, matrix operations, bytes of temporary and of all memory."""

    parameters: int
    flops: float
    temp_bytes: int | None
    total_bytes: int | None


class Rate(NamedTuple):
    """TFLOP/s of a device: what it was measured or stated to reach, or a stated peak and the share of it reached."""

    peak: float
    share: float = 1.0

    @classmethod
    def of(cls, text: str) -> "Rate":
        """Reads `46.8` or `156x0.3`; raises BadInput."""
        found = re.fullmatch(r"(\d+\.?\d*|\.\d+)(?:x(\d+\.?\d*|\.\d+))?", text)
        rate = cls(*(float(part) for part in found.groups() if part)) if found else cls(0)
        if not (rate.peak > 0 and 0 < rate.share <= 1):
            raise BadInput(f"rate={text}: give TFLOP/s of the device, such as 46.8, or peak x share, such as 156x0.3")
        return rate

    def __str__(self) -> str:
        peak, share, rate = (f"{value:.4g}" for value in (self.peak, self.share, self.peak * self.share))
        return f"{rate} TFLOP/s" if self.share == 1 else f"{peak} x {share} = {rate} TFLOP/s"

    def hours(self, flops: float) -> float:
        """Device hours for so many operations."""
        return flops / (self.peak * self.share * 1e12) / 3600


class Row(NamedTuple):
    """One variant on one task; either its plan or the error that stands in its way."""

    variant: str
    task: str
    preset: str
    length: int
    batch: int
    steps: int
    plan: Plan | None
    error: Exception | None

    def __str__(self) -> str:
        name = f"{self.variant} on {self.task}, {self.preset}"
        if self.plan is None:
            return f"{name}: not compiled, {reason(self.error)}"
        parameters, flops, temporary, _ = _plan_cells(self.plan)
        return f"{name}: {parameters} parameters, {flops} GFLOP a step, {temporary} MiB temporary"

    def hours(self, rate: Rate) -> float:
        """Device hours of all training steps of one seed, evaluation left out; 0 without a plan."""
        return rate.hours(self.plan.flops * self.steps) if self.plan else 0.0

    def cells(self, rate: Rate | None) -> list[str]:
        """The figures as text."""
        plan = _plan_cells(self.plan) if self.plan else [DASH] * 4
        hours = f"{self.hours(rate):,.2f}" if rate and self.plan else DASH
        return [str(self.batch), f"{self.steps:,}", *plan, hours]


def _plan_cells(plan: Plan) -> list[str]:
    memory = [DASH if size is None else f"{size / 2**20:,.0f}" for size in (plan.temp_bytes, plan.total_bytes)]
    return [f"{plan.parameters:,}", f"{plan.flops / 1e9:,.1f}", *memory]


def reason(error: Exception | None) -> str:
    """The kind and the first line of an error."""
    first = next(iter(str(error).splitlines()), "")
    return first if isinstance(error, BadInput) else f"{type(error).__name__}: {first}"


def terminal(rows: Sequence[Row], rate: Rate | None) -> Table:
    """The table for a person at the terminal."""
    hours = f"; device hours of one seed's training steps at {rate}" if rate else ""
    shown = slice(None) if rate else slice(-1)
    title = f"One training step, compiled for {jax.default_backend()} and not run{hours}"
    made = table(title, ("variant", "task", "preset"), ("length", *FIGURES[shown]))
    for row in rows:
        made.add_row(row.variant, row.task, row.preset, f"{row.length:,}", *row.cells(rate)[shown])
    return made


def markers(preset: str, task: str) -> tuple[str, str]:
    """The lines around a table."""
    return f"<!-- plan of {task}, {preset}: written by make plan -->", f"<!-- end of plan of {task}, {preset} -->"


def write(rows: Sequence[Row], rate: Rate) -> None:
    """Puts the table of each preset and task in its place on the page."""
    for place in dict.fromkeys((row.preset, row.task) for row in rows):
        content = markdown([row for row in rows if (row.preset, row.task) == place], rate)
        PAGE.write_text(put_between_markers(PAGE.read_text(), content, markers(*place)))


def markdown(rows: Sequence[Row], rate: Rate) -> str:
    """The table of one preset and task; then what could not be compiled, with the reason."""
    compiler = f"Compiled for {jax.default_backend()} by jax {jax.__version__}"
    lines = [f"{rows[0].length:,} tokens. {compiler}; device hours at {rate}.", ""]
    lines += [_line(["variant", *FIGURES]), _line(["---", *["---:"] * len(FIGURES)])]
    lines += [_line([f"`{row.variant}`", *row.cells(rate)]) for row in rows]
    lines += [_line(["all", *[""] * (len(FIGURES) - 1), f"{sum(row.hours(rate) for row in rows):,.2f}"])]
    failed = [f"- {row}" for row in rows if row.error]
    return "\n".join([*lines, *(["", *failed] if failed else [])])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
