"""`python -m lra.gallery`: pictures of what variants mix, and contact sheets of what tasks ask.

    model=all | NAME,...     which query-key pairs a variant computes, and with what weight; all of them on one sheet
    checkpoint=FOLDER        the weights of a trained run instead, of its work folder
    task=NAME,...            a contact sheet of examples with their labels
    length=64                tokens in a picture of a variant

Other options are those of lra.bench, such as model.window=8, task.source=official or results=FOLDER. Files go to
<results>/gallery. Exit codes: 0 done, 2 bad input or data that could not be had.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from lra.config import CONFIGS, EncoderConfig, Pooling, Positions, compose_run, parse, tasks_of
from lra.errors import BadInput
from lra.report.pictures import write_files
from lra.variants import FAMILIES, family, resolve, variant_names
from tasks.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN_KEYS = ("checkpoint", "length")
SHORTEST, LONGEST = 2, 512
PRESETS = ("mini", "lra", "paper")  # the first that has sizes for a task is the one whose examples are shown


@dataclass(frozen=True)
class Asked:
    """What a command line asks for.

    Attributes:
        variants: overrides of one composed run each.
        tasks: likewise.
        checkpoint: the work folder of a trained run.
        length: tokens in the picture of a variant.
        whole: all variants are asked for, which makes a sheet.
    """

    variants: list[list[str]]
    tasks: list[list[str]]
    checkpoint: Path | None
    length: int
    whole: bool
    results: Path


def main(arguments: Sequence[str]) -> int:
    """Draws what a command line asks for; returns the exit code."""
    try:
        asked = options(arguments)
        folder = asked.results / "gallery"
        for files in chain(_checkpoint(asked), _variants(asked), _tasks(asked)):
            write_files(folder, files)
            print(f"wrote {folder}/: {', '.join(files)}", flush=True)
    except (BadInput, DataError) as problem:
        print(f"lra.gallery: {problem}", file=sys.stderr)
        return 2
    return 0


def options(arguments: Sequence[str]) -> Asked:
    """Reads a command line of `key=value`; raises BadInput."""
    given = dict(text.partition("=")[::2] for text in arguments)
    rest = [text for text in arguments if text.partition("=")[0] not in (*OWN_KEYS, "model", "task", "preset")]
    tasks = [run for name in _listed(given.get("task", "")) for run in _task_runs(name, given.get("preset"), rest)]
    if given.get("checkpoint") == "":
        raise BadInput("checkpoint= names no folder; it is the work folder of a run")
    model = given.get("model") or ("" if tasks or "checkpoint" in given else "all")
    variants: list[list[str]] = []
    if model:
        variants = parse([f"model={model}", *rest]).runs()
    any_run = (variants or tasks or parse(["model=transformer", *rest]).runs())[0]
    return Asked(
        variants=sorted(variants, key=lambda run: _lecture_order(run[0].partition("=")[2])),
        tasks=tasks,
        checkpoint=Path(given["checkpoint"]).expanduser() if given.get("checkpoint") else None,
        length=_length(given.get("length", str(settings()["length"]))),
        whole=len(variants) == len(variant_names()),
        results=Path(compose_run(any_run).results),
    )


def settings() -> dict[str, Any]:
    """What configs/gallery.yaml says."""
    found: Any = OmegaConf.to_container(OmegaConf.load(CONFIGS / "gallery.yaml"))
    return found


def model_of(run: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Name and keywords of the variant of a run: the gallery's small ones, unless the command line says otherwise."""
    name, configured = run[0].partition("=")[2], compose_run(run).model
    changed = {text.lstrip("+").partition("=")[0].partition(".")[2] for text in run[4:]}
    small = {key: value for key, value in (settings()["models"].get(name) or {}).items() if key not in changed}
    return name, configured | small


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.strip("[]").split(",") if part.strip()]


def _length(text: str) -> int:
    if not text.isdecimal() or not SHORTEST <= int(text) <= LONGEST:
        raise BadInput(f"length={text}: expected a whole number from {SHORTEST} to {LONGEST}")
    return int(text)


def _task_runs(name: str, preset: str | None, rest: Sequence[str]) -> list[list[str]]:
    preset = preset or next((each for each in PRESETS if name in tasks_of(each)), PRESETS[0])
    return parse(["model=transformer", f"task={name}", f"preset={preset}", *rest]).runs()


def _lecture_order(name: str) -> tuple[int, int, str]:
    """Families as in the taxonomy, variants as configs/gallery.yaml lists them, others behind."""
    own, listed = family(resolve(name).target), list(settings()["models"])
    return (
        FAMILIES.index(own) if own in FAMILIES else len(FAMILIES),
        listed.index(name) if name in listed else len(listed),
        name,
    )


def _variants(asked: Asked) -> Iterator[dict[str, bytes]]:
    if not asked.variants:
        return
    from lra.gallery import pictures, weights  # they bring jax, which a misspelt name need not wait for

    encoder = EncoderConfig(**settings()["encoder"])
    encoder.pooling, encoder.positions = Pooling(encoder.pooling), Positions(encoder.positions)
    mixings = []
    for run in asked.variants:
        name, model = model_of(run)
        sizes = {"length": asked.length, "kinds": settings()["kinds"], "run": settings()["run"]}
        mixings.append(weights.at_initialisation(name, model, encoder, **sizes))
        yield _files(name, pictures.of_variant(mixings[-1]))
    if asked.whole:
        yield _files("all", pictures.sheet(mixings))


def _checkpoint(asked: Asked) -> Iterator[dict[str, bytes]]:
    if asked.checkpoint is None:
        return
    from lra.gallery import pictures, weights

    mixing = weights.trained(asked.checkpoint, asked.length)
    yield _files(mixing.file, pictures.of_variant(mixing))


def _tasks(asked: Asked) -> Iterator[dict[str, bytes]]:
    for run in asked.tasks:
        from lra.gallery import contact

        name = run[1].partition("=")[2]
        yield _files(f"task-{name}", contact.sheet(contact.load_examples(run)))


def _files(name: str, figure: "Figure") -> dict[str, bytes]:
    from lra.report import canvas

    return {f"{name}.png": canvas.png(figure), f"{name}.svg": canvas.svg(figure)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
