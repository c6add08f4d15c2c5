"""Colours, signs and words that the pictures and the tables share."""

# Paul Tol's "muted" scheme, made for colour-blind readers (https://personal.sron.nl/~pault/). The sign in the middle of
# a bubble says the same in black and white print.
FAMILIES: dict[str, tuple[str, str, str]] = {  # colour, matplotlib marker, printed name
    "dense": ("#332288", "*", "dense"),
    "patterns": ("#117733", "s", "patterns"),
    "learned": ("#CC6677", "D", "learned patterns"),
    "low_rank": ("#DDCC77", "^", "low rank"),
    "kernels": ("#88CCEE", "v", "kernels"),
    "synthetic": ("#AA4499", "P", "synthetic"),
    "attention_free": ("#999933", "X", "attention-free"),
    "hierarchical": ("#882255", "h", "hierarchical"),
    "recurrent": ("#44AA99", "o", "recurrent"),
    "user": ("#BBBBBB", "p", "user's own"),
}
MEMORY = {  # what a memory figure is
    "device": "as the device reports it",
    "compiled": "as planned by the compiler",
    "process": "as the process grew",
}
INK = "#222222"
PALE = "#8A8A8A"


def family(name: str) -> tuple[str, str, str]:
    """Colour, marker and printed name; an unknown family looks like a user's own."""
    colour, marker, _ = FAMILIES["user"]
    return FAMILIES.get(name, (colour, marker, name.replace("_", " ")))


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as percent; an en dash where it is missing."""
    return "\N{EN DASH}" if fraction is None else f"{100 * fraction:.{digits}f}"


def number(value: float | None) -> str:
    """Three significant digits, thousands separated; an en dash where it is missing."""
    if value is None:
        return "\N{EN DASH}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def mode(name: str) -> str:
    """What is timed, as it is printed."""
    return "training" if name == "train" else name


def fixed(value: float | None) -> str:
    """Two decimals; an en dash where it is missing."""
    return "\N{EN DASH}" if value is None else f"{value:.2f}"


def seconds(value: float) -> str:
    """Seconds in the unit that fits."""
    return f"{number(value)} s" if value >= 1 else f"{number(1000 * value)} ms"


def memory(count: float | None) -> str:
    """Bytes in the unit that fits: MB or GB (powers of ten, as in the papers)."""
    if count is None:
        return "\N{EN DASH}"
    return f"{number(count / 1e9)} GB" if count >= 1e9 else f"{number(count / 1e6)} MB"
