"""`python -m lra.plan model=bigbird preset=lra`: compiles the full-size training step and does not run it.

Parameters, matrix operations a step, and the memory of the program that this machine's compiler makes; no array of the
model is ever allocated. `rate=` adds device hours, `write=true` puts the tables of all variants into `docs/plan.md`.
What a compiler said is kept in the cache folder, so that an interrupted table goes on where it was.
`growth=true` compiles one layer at 1K to 16K instead (`lra.growth`).
Exit codes: 0 done, 2 bad input, 3 some steps could not be compiled, 75 interrupted (run again).
"""

import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from lra import child, growth, plan_page
from lra.build import build_classifier, parameter_count
from lra.config import BenchConfig, Request, compose_run, parse
from lra.console import console
from lra.errors import BadInput
from lra.flops import program_flops
from lra.optimiser import build_optimiser
from lra.options import take
from lra.plan_page import Plan, Rate, Row
from lra.record import config_hash, read_json, require_writable, write_json
from lra.step import TrainState, make_train_step, split_model
from lra.subject import fast_jit
from lra.timing import compiled_bytes
from lra.variants import variant_names
from tasks.task import Batch

INTERRUPTED = 75
RECENT = 10  # compilations from which the time left is told; a resumed table begins with many that take no time


def plan(config: BenchConfig, sizes: dict[str, Any]) -> Plan:
    """Compiles the training step of one run for inputs of `sizes` (max_length, vocab_size, num_classes, paired)."""
    train = config.train
    options: dict[str, Any] = {"precision": train.precision, "rematerialise": train.rematerialise}
    model = nnx.eval_shape(lambda: build_classifier(config.model, config.encoder, **options, **sizes))
    graph, params, rest = split_model(model)
    optimiser = build_optimiser(config.train)
    state = TrainState(params, rest, jax.eval_shape(optimiser.init, params), jax.ShapeDtypeStruct((), jnp.int32))
    documents = (config.train.batch_size, *((2,) if sizes["paired"] else ()))
    batch = Batch(
        tokens=jax.ShapeDtypeStruct((*documents, sizes["max_length"]), jnp.int32),
        lengths=jax.ShapeDtypeStruct(documents, jnp.int32),
        labels=jax.ShapeDtypeStruct(documents[:1], jnp.int32),
    )
    # The memory of a program is laid out before its code is made, which may thus be made carelessly.
    step = fast_jit(make_train_step(graph, optimiser, jax.random.key(0), train.accumulate), donate_argnums=0)
    traced = step.trace(state, batch)
    return Plan(parameter_count(model), program_flops(traced), *_memory(traced.lower(), _cache(config)))


def _memory(lowered: jax.stages.Lowered, cache: Path) -> tuple[int | None, int | None]:
    """Temporary and all bytes of a program; compiled once for each program, compiler and kind of device."""
    compiler = {"jax": jax.__version__, "device": jax.devices()[0].device_kind, "backend": jax.default_backend()}
    file = cache / f"{config_hash(compiler | {'program': lowered.as_text()})}.json"
    kept = read_json(file)
    if kept is None:
        kept = compiler | dict(zip(("temp_bytes", "total_bytes"), compiled_bytes(lowered.compile()), strict=True))
        write_json(file, kept)
    return kept["temp_bytes"], kept["total_bytes"]


def _cache(config: BenchConfig) -> Path:
    return Path(config.cache_dir).expanduser() / "plans"


def table_rows(configs: Sequence[tuple[list[str], BenchConfig]], say: Callable[[str], None]) -> list[Row]:
    """One row for each run, said as it comes; a step that cannot be compiled is a row with its error."""
    rows, seconds = [], deque[float](maxlen=RECENT)
    for overrides, config in configs:
        began = time.monotonic()
        length, train = config.task["max_length"], config.train
        variant, task, preset = (text.partition("=")[2] for text in overrides[:3])
        found, error = None, None
        try:
            found = plan(config, {**child.task_shape(config.task), "max_length": length})
        except Exception as problem:  # whatever a variant raises, the others have their rows
            error = problem
        rows.append(Row(variant, task, preset, length, train.batch_size, train.steps, found, error))
        seconds.append(time.monotonic() - began)
        left = sum(seconds) / len(seconds) * (len(configs) - len(rows))
        say(f"{len(rows)} of {len(configs)}: {rows[-1]}; {seconds[-1]:.0f} s, about {left / 60:.0f} min left")
    return rows


def _require_whole(request: Request, rate: Rate | None) -> None:
    """Raises BadInput unless these are tables that the page has a place for."""
    text = plan_page.PAGE.read_text()
    for preset, task in itertools.product(request.presets, request.tasks):
        if plan_page.markers(preset, task)[0] not in text:
            raise BadInput(f"write=true: {plan_page.PAGE.name} has no place for task {task} of preset {preset}")
    if request.variants != variant_names() or request.overrides:
        more = f", without {request.overrides[0]}" if request.overrides else ""
        raise BadInput(f"write=true is for whole tables of the plain presets: model=all{more}")
    if rate is None:
        raise BadInput("write=true needs rate=TFLOP/s, for the device hours")


def main(arguments: Sequence[str]) -> int:
    """Plans every run of a command line; returns the exit code."""
    try:
        options, others = take(arguments, {"growth": bool})
        if options["growth"]:
            return growth.main(others)
        options, others = take(others, {"rate": str, "write": bool})
        rate = Rate.of(options["rate"]) if options["rate"] is not None else None
        request = parse(others)
        if options["write"]:
            _require_whole(request, rate)
        runs = [(run, compose_run(run)) for run in request.runs() if run[3] == f"seed={request.seeds[0]}"]
        require_writable(_cache(runs[0][1]), "cache_dir")
        rows = table_rows(runs, lambda line: print(line, file=sys.stderr, flush=True))
    except BadInput as problem:
        print(f"lra.plan: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lra.plan: interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    console().print(plan_page.terminal(rows, rate))
    console().print("Memory is that of the program this backend's compiler makes; another backend's will differ.")
    if options["write"] and rate:
        plan_page.write(rows, rate)
    failed = [row for row in rows if row.error]
    for row in failed:
        print(f"lra.plan: {row}", file=sys.stderr)
    return (2 if all(isinstance(row.error, BadInput) for row in rows) else 3) if failed else 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == INTERRUPTED:
        os._exit(code)  # sys.exit would wait for the compilation under way
    sys.exit(code)
