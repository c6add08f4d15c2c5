"""Tables on the terminal, in one look."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

FILE_WIDTH = 160  # of lines that go into a file or a pipe, where nothing says how wide they may be


def console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error."""
    plain = Console(highlight=False, stderr=stderr)
    return plain if plain.is_terminal else Console(highlight=False, stderr=stderr, width=FILE_WIDTH)


def table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    """An empty table with columns for `names`, to the left, and `figures`, to the right."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in names:
        made.add_column(name, overflow="fold")
    for name in figures:
        made.add_column(name, justify="right", overflow="fold")
    return made
