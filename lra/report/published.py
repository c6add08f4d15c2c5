"""Figures from papers (`results/reference/`), to be read beside ours. They never count as results."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lra.report.rows import SIX

REFERENCE = Path(__file__).parents[2] / "results" / "reference"
PAPER, REFERENCE_MODEL = "LRA paper", "Transformer"
LENGTHS = (1024, 2048, 3072, 4096)  # of the speeds, printed as 1K to 4K

# The models of the papers that are variants here, and their family.
VARIANTS = {
    "Transformer": ("transformer", "dense"),
    "Local Attention": ("local", "patterns"),
    "Sparse Transformer": ("sparse_transformer", "patterns"),
    "Longformer": ("longformer", "patterns"),
    "BigBird": ("bigbird", "patterns"),
    "Reformer": ("reformer", "learned"),
    "Sinkhorn Transformer": ("sinkhorn", "learned"),
    "Linformer": ("linformer", "low_rank"),
    "Nystromformer": ("nystromformer", "low_rank"),
    "Luna-256": ("luna", "low_rank"),
    "Linear Transformer": ("linear_transformer", "kernels"),
    "Performer": ("performer", "kernels"),
    "Synthesizer": ("synthesizer", "synthetic"),
    "FNet": ("fnet", "attention_free"),
    "H-Transformer-1D": ("h_transformer", "hierarchical"),
    "S4D-LegS": ("s4d", "recurrent"),
    "S5": ("s5", "recurrent"),
    "LRU": ("lru", "recurrent"),
    "Mega": ("mega", "recurrent"),
}


@dataclass(frozen=True)
class Published:
    """One row of a paper's table. Scores in percent by task; FAIL on Path-X stays a word."""

    model: str
    setting: str
    scores: dict[str, str]
    average: str
    average_tasks: str
    source: str
    confidence: str

    @property
    def variant(self) -> str | None:
        """The variant here that the row is about."""
        return VARIANTS.get(self.model, (None, None))[0]

    def mean(self, tasks: Sequence[str]) -> float | None:
        """Mean over `tasks` in percent; None where a task is missing or failed."""
        try:
            values = [float(self.scores[task]) for task in tasks]
        except (KeyError, ValueError):
            return None
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Bubbles:
    """The paper's other models, as multiples of its Transformer.

    Attributes:
        length: at which they were timed, as in "4K".
        bubbles: name, family, speed, score, memory (None where none is printed).
        without: names of the models that have a score but no speed.
        confidence: how the scores were checked.
    """

    length: str
    bubbles: tuple[tuple[str, str, float, float, float | None], ...]
    without: tuple[str, ...]
    confidence: str


def scores() -> list[Published]:
    """All published scores, in the order of the file."""
    return [
        Published(
            model=line["model"],
            setting=line["setting"],
            scores={task: line[task] for task in SIX if line[task]},
            average=line["average_printed"],
            average_tasks=line["average_tasks"],
            source=line["source"],
            confidence=line["confidence"],
        )
        for line in _read("lra_scores.csv")
    ]


def costs() -> dict[str, tuple[dict[int, tuple[float | None, float | None]], str]]:
    """By model: speed and memory over the Transformer's at each of `LENGTHS`, None where not printed; and a note."""
    lines = {line["model"]: line for line in _read("lra_speed_memory.csv")}

    def ratio(model: str, key: str) -> float | None:
        printed, base = lines[model][key], lines[REFERENCE_MODEL][key]
        return float(printed) / float(base) if printed else None

    return {
        model: (
            {
                1024 * k: (ratio(model, f"steps_per_second_{k}k"), ratio(model, f"peak_gb_{k}k"))
                for k in range(1, 1 + len(LENGTHS))
            },
            line["note"] or "",
        )
        for model, line in lines.items()
    }


def bubbles(tasks: Sequence[str], length: int) -> Bubbles:
    """The LRA paper's models with score, speed and, if printed, memory, at the nearest of its lengths (1K to 4K)."""
    nearest = min((1, 2, 3, 4), key=lambda thousands: abs(thousands * 1024 - length))
    rows = [row for row in scores() if row.setting == PAPER]
    means = {row.model: row.mean(tasks) for row in rows}
    costs = {
        line["model"]: (line[f"steps_per_second_{nearest}k"], line[f"peak_gb_{nearest}k"])
        for line in _read("lra_speed_memory.csv")
    }
    own_score, (own_speed, own_memory) = means.pop(REFERENCE_MODEL), costs[REFERENCE_MODEL]
    found, without = [], []
    for model, score in means.items():
        speed, memory = costs.get(model, ("", ""))
        if not speed:
            without.append(model)
        elif score is not None and own_score is not None:
            ratio = float(memory) / float(own_memory) if memory else None
            found.append((model, VARIANTS[model][1], float(speed) / float(own_speed), score / own_score, ratio))
    confidence = " or ".join(sorted({row.confidence for row in rows}))
    return Bubbles(f"{nearest}K", tuple(found), tuple(without), confidence)


def _read(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
