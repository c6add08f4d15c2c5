"""The lecture's claims in its own order, each with the figures that speak to it. Wording is ours, ranges are stated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lra.errors import BadInput
from lra.lecture import mechanisms, products
from lra.lecture.evidence import (
    REFERENCE,
    Evidence,
    paper_speeds,
    score_difference,
    score_figure,
    speed_figure,
    speed_ratio,
)
from lra.lecture.verdicts import Figure, Range, Verdict, together

# What the lecture's words are taken to mean. Points: accuracy, mean of the five tasks, minus the Transformer's.
SLIGHTLY = 2.0  # points: the paper's BigBird is 0.6 above the Transformer, its Synthesizer 1.5 below
POOR = 5.0  # points: the paper's Local Attention is 8.3 below
SLIGHTLY_BETTER, SLIGHTLY_WORSE = Range(0, SLIGHTLY), Range(-SLIGHTLY, 0)
BARELY_WORSE, NOT_BETTER, WORSE, MUCH_WORSE = Range(low=-SLIGHTLY), Range(high=0), Range(high=0), Range(high=-POOR)
# Times: speed as a multiple of the Transformer's.
SLIGHTLY_FASTER, CLEARLY_FASTER = Range(1, 1.25), Range(low=1.25)
MUCH_FASTER, VERY_FAST, FASTEST = Range(low=2), Range(low=3), Range(low=1)

SINGLE_PATTERNS = ("local", "strided", "global_tokens")
CHART = (  # the variants of the lecture's chart
    *("bigbird", "synthesizer", "reformer", "local", "sparse_transformer", "linformer", "linear_transformer"),
    "performer",
)
SUMMARY: tuple[tuple[str, str, Range | None, Range | None], ...] = (
    ("bigbird", "Big Bird scores slightly above the Transformer and is slightly faster.", SLIGHTLY_BETTER,
     SLIGHTLY_FASTER),
    ("synthesizer", "Synthesizer scores slightly lower and is clearly faster.", SLIGHTLY_WORSE, CLEARLY_FASTER),
    ("reformer", "Reformer does not score better.", NOT_BETTER, None),
    ("local", "Local attention is very fast and scores poorly.", MUCH_WORSE, VERY_FAST),
    ("sparse_transformer", "The Sparse Transformer scores lower and is a class faster.", WORSE, MUCH_FASTER),
    ("linformer", "Linformer scores lower and is much faster.", WORSE, MUCH_FASTER),
    ("linear_transformer", "The Linear Transformer is the fastest of all and scores somewhat lower.", WORSE,
     MUCH_FASTER),
    ("performer", "Performer is much faster and scores a little lower.", WORSE, MUCH_FASTER),
)  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One statement of the lecture.

    Attributes:
        key: names it in links.
        section: of the lecture.
        says: the statement in our words.
        figures: ours and the paper's.
        notes: what else the files say, and what they can't.
        picture: file name, if it has one.
    """

    key: str
    section: str
    says: str
    figures: Sequence[Figure]
    notes: Sequence[str] = ()
    picture: str | None = None

    @property
    def verdict(self) -> Verdict:
        """All its figures together."""
        return together(self.figures)


def claims(evidence: Evidence) -> list[Claim]:
    """All of them; raises BadInput when a measurement lacks what belongs to it."""
    try:
        return _claims(evidence)
    except (KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{evidence.lecture} is damaged ({error!r}): measure again") from None


def _claims(evidence: Evidence) -> list[Claim]:
    cost, fixed = "Why attention is made faster", "Patterns fixed by hand"
    order = "Another order of the products"
    found = [
        Claim(
            "quadratic",
            cost,
            "The cost of attention grows with the square of the length.",
            mechanisms.quadratic(evidence),
        ),
        Claim(
            "share",
            cost,
            "Making attention faster only pays for very long sequences, where it dominates the whole network.",
            mechanisms.share(evidence),
            mechanisms.share_notes(evidence),
            "share.svg",
        ),
        Claim(
            "local",
            fixed,
            "Local attention sees a small neighbourhood only.",
            mechanisms.local(evidence),
            picture="reach.svg",
        ),
        Claim("strided", fixed, "Strided attention widens the view by skipping.", mechanisms.strided(evidence)),
        Claim(
            "global",
            fixed,
            "Global tokens carry information between any two tokens, though others do not see each other.",
            mechanisms.global_tokens(evidence),
            mechanisms.reach_notes(evidence),
        ),
        Claim(
            "hybrid",
            fixed,
            "Why choose? Giving heads different patterns is better than any one pattern.",
            _hybrid(evidence),
            ["The single pattern with the best score here stands for the three; that choice favours it a little."],
        ),
        Claim(
            "low_rank",
            "Fewer keys",
            "Attention matrices are of low rank: many columns repeat or depend on each other.",
            mechanisms.low_rank(evidence),
            mechanisms.low_rank_notes(evidence),
            "low_rank.svg",
        ),
        Claim(
            "orders",
            order,
            "Without the softmax, taking K and V first turns 2 D N^2 multiplications into 2 D^2 N, far fewer for long "
            "sequences.",
            products.orders(evidence),
            ["The lecture counts multiplications, our program additions too: 4 D N^2 and 4 D^2 N operations."],
            "orders.svg",
        ),
        Claim("order", order, "The order changes the cost and not the result.", products.same_result(evidence)),
        Claim(
            "identical",
            order,
            "With exp(q . k) taken apart as phi(q) . phi(k), the result is completely identical to softmax attention.",
            products.identical(evidence),
            products.identical_notes(evidence),
            "features.svg",
        ),
        Claim(
            "synthesizer",
            "Attention rethought",
            "Attention weights that are mere parameters, the same for every input, do barely worse.",
            [score_figure(evidence, "synthesizer", BARELY_WORSE)],
        ),
    ]
    return found + _summary(evidence)


def _summary(evidence: Evidence) -> list[Claim]:
    """The reading of the chart that ends the lecture."""
    section = "The chart: score against speed"
    found: list[Claim] = []
    for variant, says, score, speed in SUMMARY:
        figures, notes = [score_figure(evidence, variant, score), speed_figure(evidence, variant, speed)], []
        if variant == "linear_transformer":
            figures.append(_fastest(evidence, variant))
            notes.append("The paper's last figure is over its own fastest other variant.")
        picture = "summary.svg" if not found else None
        found.append(Claim(f"chart-{variant.replace('_', '-')}", section, says, figures, notes, picture))
    return found


def _hybrid(evidence: Evidence) -> list[Figure]:
    """The hybrid against the best of the patterns that it joins; all three if one has no score."""
    against = {name: score_difference(evidence, name).value for name in SINGLE_PATTERNS}
    known = {name: value for name, value in against.items() if value is not None}
    if len(known) < len(against):
        return [score_figure(evidence, "hybrid", Range(low=0), name) for name in SINGLE_PATTERNS]
    return [score_figure(evidence, "hybrid", Range(low=0), max(known, key=lambda name: known[name]))]


def _fastest(evidence: Evidence, variant: str) -> Figure:
    """Its speed over that of the fastest other variant of the chart."""
    others = [name for name in (REFERENCE, *CHART) if name != variant]
    ours = {name: speed_ratio(evidence, name).value for name in others}
    known = {name: value for name, value in ours.items() if value is not None}
    figure = speed_figure(evidence, variant, FASTEST, max(known, key=lambda name: known[name]) if known else REFERENCE)
    paper = paper_speeds(evidence.condition.length if evidence.condition else 4096)
    rival = max(paper[name] for name in others if name in paper)
    return replace(figure, name=f"{figure.name}, the fastest other", paper=paper[variant] / rival)
