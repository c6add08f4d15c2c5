"""How compute and memory grow with length, by compiling only: `python -m lra.growth model=all write=true`.

One mixer of every variant, forward and backward, batch 1, 4 heads of 64, at 1K to 16K, is compiled and not run.
Exponents of its matrix operations and of its temporary memory are fitted and printed beside what the class declares.
`write=true` puts the table into the README. Before that the instrument is held against plain dense attention, both
figures of which must grow 3 to 5 times from each length to twice as much.
Exit codes: 0 done, 2 bad input, 3 the instrument is wrong or a variant grows faster than declared.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from lra.console import console, table
from lra.errors import BadInput
from lra.flops import program_flops
from lra.layer import layer_step
from lra.options import take
from lra.subject import FULL, Subject, fast_jit
from lra.timing import compiled_bytes
from lra.variants import ROOT, Variant, canonical, resolve, variant_names
from models.attention import dense_attention
from models.mixer import AttentionMixer, Growth, Sizes

LAYER = Sizes(dim=256, heads=4, qkv_dim=256, mlp_dim=1024, max_length=0)
SLACK = 0.15  # of a fitted exponent: at these lengths smaller terms and rounding to blocks still show
DOUBLING = (3.0, 5.0)  # how many times the figures of dense attention grow from L to 2 L
README = ROOT / "README.md"
MARKERS = "<!-- growth: written by make plan -->", "<!-- end of growth -->"


class Plain(AttentionMixer):
    """Attention with the whole L x L matrix in memory, which holds the instrument."""

    growth = Growth(2, 2)
    quadratic = True

    def attend(self, q: Any, k: Any, v: Any, mask: Any, drop: Any) -> jax.Array:
        """Softmax attention over all real tokens."""
        return dense_attention(q, k, v, mask, drop=drop)


class Costs(NamedTuple):
    """Matrix operations and temporary bytes of one mixer, forward and backward, one of each a length."""

    lengths: tuple[int, ...]
    compute: tuple[float, ...]
    memory: tuple[float, ...]

    def exponents(self, first: int | None = None) -> Growth:
        """Fitted from the length number `first` on; the upper half, where smaller terms show least, unless given."""
        first = (len(self.lengths) - 1) // 2 if first is None else first
        x = np.log(self.lengths[first:])
        return Growth(*(float(np.polyfit(x, np.log(each[first:]), 1)[0]) for each in (self.compute, self.memory)))


def costs(subject: Subject, lengths: Sequence[int]) -> Costs:
    """Compiles one mixer at each length, its hyper-parameters following their rules for that length."""
    measured = [cost(subject, length) for length in lengths]
    compute, memory = zip(*measured, strict=True)
    return Costs(tuple(lengths), compute, memory)


def cost(subject: Subject, length: int) -> tuple[float, float]:
    """Operations and temporary bytes of one mixer, forward and backward, batch 1; compiled, not run."""
    sizes = replace(LAYER, max_length=length + subject.cls.extra_tokens)
    step, state = layer_step(nnx.eval_shape(lambda: subject.build(sizes)))
    x = jax.ShapeDtypeStruct((1, length, sizes.dim), jnp.float32)
    traced = fast_jit(step).trace(*state, x, jax.ShapeDtypeStruct((1, length), jnp.bool_), x)
    memory = compiled_bytes(traced.lower().compile())[0]
    return program_flops(traced), float(memory or 0)


def require_sound(plain: Costs) -> None:
    """Raises ValueError when dense attention does not show the growth that it is known to have."""
    for what, figures in (("compute", plain.compute), ("memory", plain.memory)):
        for length, once, twice in zip(plain.lengths, figures, figures[1:], strict=False):
            if not DOUBLING[0] <= twice / max(once, 1) <= DOUBLING[1]:
                raise ValueError(
                    f"the instrument is wrong: {what} of dense attention grows {twice / max(once, 1):.2f} times from "
                    f"{length:,} to {2 * length:,} tokens, not {DOUBLING[0]:g} to {DOUBLING[1]:g} times"
                )


def rows(variants: Sequence[Variant], lengths: Sequence[int]) -> Iterator[tuple[str, Growth, Costs]]:
    """Name, declared growth and costs of each variant; raises ValueError for an unsound instrument."""
    require_sound(costs(Subject(Variant("plain", f"{Plain.__module__}.{Plain.__name__}"), FULL), lengths))
    for variant in variants:
        subject = Subject(variant, FULL)
        yield variant.name, subject.cls.growth, costs(subject, lengths)


def faster_than_declared(declared: Growth, measured: Growth) -> bool:
    """Whether an exponent is above what the class declares, by more than smaller terms explain."""
    return any(found > claimed + SLACK for claimed, found in zip(declared, measured, strict=True))


def row_cells(name: str, declared: Growth, found: Costs) -> list[str]:
    """One row as text."""
    fitted = found.exponents(0), found.exponents()
    compute = [f"{declared.compute:g}", *(f"{fit.compute:.2f}" for fit in fitted), f"{found.compute[-1] / 1e9:,.1f}"]
    memory = [f"{declared.memory:g}", *(f"{fit.memory:.2f}" for fit in fitted), f"{found.memory[-1] / 2**20:,.0f}"]
    return [name, *compute, *memory]


def columns(lengths: Sequence[int]) -> list[str]:
    """The names of the columns: declared exponent, fitted over all lengths and over the upper half, longest figure."""
    first, middle, last = (f"{lengths[i] // 1024}K" for i in (0, (len(lengths) - 1) // 2, -1))
    fitted = [f"{first}-{last}", f"{middle}-{last}"]
    return ["compute declared", *fitted, f"GFLOP at {last}", "memory declared", *fitted, f"MiB at {last}"]


def markdown(texts: Sequence[Sequence[str]], lengths: Sequence[int]) -> str:
    """The table as it stands in the README."""
    head = ["variant", *columns(lengths)]
    rule = ["---", *["---:"] * (len(head) - 1)]
    body = [[f"`{name}`", *cells] for name, *cells in texts]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *body))


def put_between_markers(text: str, content: str, markers: tuple[str, str] = MARKERS) -> str:
    """`text` with `content` in place of what stands between the markers; raises ValueError without them."""
    begin, end = markers
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the text lacks the lines {begin!r} and {end!r}")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def parse(arguments: Sequence[str]) -> tuple[list[Variant], bool]:
    """Variants of a command line, and whether the README is to be written; raises BadInput."""
    options, others = take(arguments, {"write": bool})
    unread = [argument for argument in others if not argument.startswith(("model=", "task=", "preset="))]
    if unread:
        raise BadInput(f"{unread[0]}: growth is compiled for the variants' defaults; it takes model=... and write=true")
    given = dict(argument.split("=", 1) for argument in others).get("model", "all")
    names = variant_names() if given == "all" else [canonical(name.strip()) for name in given.split(",")]
    if options["write"] and given != "all":
        raise BadInput("write=true is for the table of all variants: model=all")
    return [resolve(name) for name in names], options["write"]


def main(arguments: Sequence[str]) -> int:
    """Compiles, prints and writes; returns the exit code."""
    lengths = FULL.growth
    try:
        variants, write = parse(arguments)
        found = []
        with console(stderr=True).status("compiling"):
            for row in rows(variants, lengths):
                found.append(row)
    except BadInput as problem:
        print(f"lra.growth: {problem}", file=sys.stderr)
        return 2
    except ValueError as problem:
        print(f"lra.growth: {problem}", file=sys.stderr)
        return 3
    texts = [row_cells(*row) for row in found]
    title = f"One layer, forward and backward, compiled for {jax.default_backend()} and not run"
    printed = table(title, ("variant",), columns(lengths))
    for cells in texts:
        printed.add_row(*cells)
    console().print(printed)
    if write:
        README.write_text(put_between_markers(README.read_text(), markdown(texts, lengths)))
    too_fast = [name for name, declared, cost in found if faster_than_declared(declared, cost.exponents())]
    if too_fast:
        print(f"lra.growth: {', '.join(too_fast)}: grows faster than declared", file=sys.stderr)
    return 3 if too_fast else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
