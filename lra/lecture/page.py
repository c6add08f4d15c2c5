"""The page: every claim with its figures, its verdict and where they come from, as Markdown."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from lra.lecture import claims
from lra.lecture.claims import Claim
from lra.lecture.evidence import REFERENCE, Evidence
from lra.lecture.verdicts import Figure, Range, Verdict
from lra.report import notes, style
from lra.report.rows import FIVE

FOLDER = "lecture"  # of the pictures, beside the page
DASH = style.number(None)

UNITS: dict[str, Callable[[float], str]] = {
    "points": lambda value: f"{value:+.1f}",
    "times": lambda value: f"{value:.2f}x" if value < 100 else f"{value:,.0f}x",
    "percent": lambda value: f"{100 * value:.1f} %",
    "error": lambda value: f"{value:.2g}",
    "number": lambda value: f"{value:.2f}",
    "count": lambda value: f"{value:,.0f}",
}


def markdown(evidence: Evidence, made: Sequence[Claim], pictures: Collection[str]) -> str:
    """`docs/lecture.md`; only pictures that were drawn are shown."""
    lines = [*_opening(evidence), "", *_overview(made)]
    section = ""
    for number, claim in enumerate(made, 1):
        if claim.section != section:
            section = claim.section
            lines += ["", f"## {section}"]
        lines += [
            "",
            f'<a id="{claim.key}"></a>',
            "",
            f"### {number}. {claim.says}",
            "",
            f"**{_capital(claim.verdict)}**",
        ]
        lines += ["", *_figures(claim)]
        for note in claim.notes:
            lines += ["", note]
        if claim.picture in pictures:
            lines += ["", f"![{claim.says}]({FOLDER}/{claim.picture})"]
    return "\n".join(lines) + "\n"


def counts(made: Sequence[Claim]) -> str:
    """How many claims got which verdict."""
    found = Counter(claim.verdict for claim in made)
    return ", ".join(f"{found[verdict]} {words}" for verdict, words in SUMS.items())


SUMS = {Verdict.holds: "hold", Verdict.fails: "do not hold", Verdict.untold: "can't be told"}


def _capital(verdict: Verdict) -> str:
    return verdict.value[0].upper() + verdict.value[1:] + "."


def _opening(evidence: Evidence) -> list[str]:
    about = " ".join(notes.about_scores(list(evidence.rows.values()), evidence.preset))
    lines = [
        "# The lecture, claim by claim",
        "",
        "Hung-yi Lee's lecture on the variants of self-attention (2022) ends at the Long Range Arena's chart. Each of",
        "its claims, in our words, stands here beside what was measured. `make lecture` writes this page and its",
        "pictures from result files; no figure is written by hand, and other results give other verdicts.",
        "",
        "A claim's words stand for a range, printed with each figure. The claim **holds** if the whole interval lies",
        "in it, **does not hold** if the whole interval lies outside, and **can't be told** if the interval reaches",
        "over an edge of it or the figure is missing. Of several figures all must hold, and one that fails is enough.",
        "A figure without a range only stands beside the others.",
        "",
        "- *Score*: mean accuracy of the five tasks minus the Transformer's, in points; the interval is a 95 %",
        f"  bootstrap over test examples and seeds. {_seeds(evidence)}",
        f"- *Speed*: training steps a second over the Transformer's{_condition(evidence)};",
        "  the interval sets slow steps (90th percentile) against fast ones (10th).",
        "- *Paper*: Tay et al. 2020, Tables 1 and 2 (`results/reference`), and what the same rule says of the bare",
        "  figure. The Long Range Arena printed neither intervals nor, for the Sparse Transformer, a speed.",
    ]
    if machines := sorted({part["hardware"]["name"] for part in evidence.measured.values()}):
        lines.append(f"- *`lecture.json`*: what the lecture's other claims need, measured on {', '.join(machines)}.")
    if about:
        lines += ["", about]
    if evidence.preset == "mini":
        lines += [
            "",
            "**mini is a short form.** Sequences, models and training are a fraction of the paper's, so a verdict here",
            "says what these variants do at that size, not what the paper's would have done.",
        ]
    return lines


def _seeds(evidence: Evidence) -> str:
    named = [evidence.rows[name] for name in (REFERENCE, *claims.CHART) if name in evidence.rows]
    numbers = {len(row.tasks[task].complete) for row in named for task in FIVE if task in row.tasks}
    if numbers <= {0}:
        return "There are no scores yet."
    if numbers <= {0, 1}:
        return "One seed: it knows nothing of the luck of training."
    return f"Seeds: {' or '.join(map(str, sorted(numbers - {0})))}."


def _condition(evidence: Evidence) -> str:
    condition = evidence.condition
    if condition is None:
        return ""
    return (
        f" at {condition.length:,} tokens, batch {condition.batch_size}, {condition.precision}, on {condition.hardware}"
    )


def _overview(made: Sequence[Claim]) -> list[str]:
    lines = [f"Of {len(made)} claims: {counts(made)}.", "", "| | claim | verdict |", "|---|---|---|"]
    for number, claim in enumerate(made, 1):
        lines.append(f"| {number} | [{_cell(claim.says)}](#{claim.key}) | {claim.verdict.value} |")
    return lines


def _figures(claim: Claim) -> list[str]:
    lines = ["| figure | ours | interval | claimed | verdict | paper | from |", "|---|---:|---:|---:|---|---:|---|"]
    for figure in claim.figures:
        cells = [figure.name, _value(figure), _interval(figure), _range(figure.wanted, figure.unit)]
        cells += [figure.verdict.value if figure.verdict else "", _paper(figure), f"`{figure.source}`"]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return lines


def _value(figure: Figure) -> str:
    if figure.value is None:
        return f"{DASH} ({figure.missing})"
    return UNITS[figure.unit](figure.value) + figure.mark


def _interval(figure: Figure) -> str:
    if figure.interval is None:
        return ""
    low, high = map(UNITS[figure.unit], figure.interval)
    counted = figure.interval[0] == figure.interval[1] and figure.unit != "points"
    return "exact" if counted else f"{low} to {high}"


def _range(wanted: Range | None, unit: str) -> str:
    if wanted is None:
        return ""
    show = UNITS[unit]
    if wanted.high == Range().high:
        return f"above {show(wanted.low)}"
    return f"below {show(wanted.high)}" if wanted.low == Range().low else f"{show(wanted.low)} to {show(wanted.high)}"


def _paper(figure: Figure) -> str:
    if figure.paper is None:
        return ""
    said = f" ({figure.paper_verdict.value})" if figure.paper_verdict else ""
    return UNITS[figure.unit](figure.paper) + said


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
