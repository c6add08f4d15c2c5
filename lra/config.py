"""The typed schema of a run, and how overrides become one configuration or one clear message. jax is not imported."""

import copy
import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lra.errors import BadInput, unknown
from lra.variants import ROOT, canonical, variant_names

CONFIGS = ROOT / "configs"


class Pooling(Enum):
    """What the head sees of the encoded sequence."""

    cls = "cls"
    mean = "mean"


class Positions(Enum):
    """Position embedding."""

    sinusoidal = "sinusoidal"
    learned = "learned"


class Schedule(Enum):
    """Learning rate after the linear warm-up: constant / sqrt(max(step, warm-up)), or half a cosine down to 0."""

    rsqrt = "rsqrt"
    cosine = "cosine"


class Precision(Enum):
    """Type of the computation; parameters and the optimiser's state are always float32."""

    float32 = "float32"
    bfloat16 = "bfloat16"


class Mode(Enum):
    """What a speed cell times: a training step, or the prediction of a batch."""

    train = "train"
    inference = "inference"


class Tracking(Enum):
    """Weights & Biases: not at all, into local files, or to the server. `auto` is online with a key, else offline."""

    none = "none"
    offline = "offline"
    online = "online"
    auto = "auto"


@dataclasses.dataclass
class EncoderConfig:
    """Sizes of the model around the mixer."""

    dim: int = MISSING
    heads: int = MISSING
    qkv_dim: int = MISSING
    mlp_dim: int = MISSING
    layers: int = MISSING
    dropout: float = MISSING
    attention_dropout: float = MISSING
    pooling: Pooling = MISSING
    positions: Positions = MISSING


@dataclasses.dataclass
class TrainConfig:
    """The optimisation.

    `minutes`, if given, ends training early by the clock. `accumulate` pieces of a batch are computed one after the
    other, and `rematerialise` computes each layer again for its gradient: less memory for the same step.
    """

    steps: int = MISSING
    batch_size: int = MISSING
    learning_rate: float = MISSING
    schedule: Schedule = MISSING
    warmup_steps: int = MISSING
    weight_decay: float = MISSING
    clip_norm: float | None = None
    evaluate_every: int = MISSING
    precision: Precision = Precision.float32
    minutes: float | None = None
    accumulate: int = 1
    rematerialise: bool = False


@dataclasses.dataclass
class SpeedConfig:
    """The work on which every variant is timed, at several lengths; the protocol says what it is."""

    lengths: list[int] = MISSING
    modes: list[Mode] = dataclasses.field(default_factory=lambda: [Mode.train, Mode.inference])
    batch_size: int = MISSING
    seconds: float = MISSING
    precision: Precision = Precision.float32
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)


@dataclasses.dataclass
class LimitsConfig:
    """What a child may take.

    Minutes after which it is stopped and recorded as timed out; attempts after which a failed run is left; cores of a
    CPU that a run trains on, with others beside it on the rest, or None for all; a cluster divides them by itself.
    """

    train_minutes: float = MISSING
    cell_minutes: float = MISSING
    attempts: int = 3
    cores: int | None = None


@dataclasses.dataclass
class BenchConfig:
    """One run: one variant on one task with one preset and one seed."""

    model: dict[str, Any] = MISSING
    task: dict[str, Any] = MISSING
    preset: str = MISSING
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    speed: SpeedConfig = dataclasses.field(default_factory=SpeedConfig)
    limits: LimitsConfig = dataclasses.field(default_factory=LimitsConfig)
    seed: int = 0
    launcher: dict[str, Any] = MISSING
    protocol: str = MISSING
    tracking: Tracking = Tracking.none
    force: bool = False
    results: str = MISSING
    work_dir: str = MISSING
    cache_dir: str = MISSING
    data_dir: str = MISSING


ConfigStore.instance().store(name="schema", node=BenchConfig)

# What does not change what a run computes, and is therefore no part of its identity.
NOT_IDENTITY = (
    *("speed", "protocol", "limits", "launcher", "tracking", "force", "results", "work_dir", "cache_dir", "data_dir"),
)
OPTION_GROUPS = ("launcher", "protocol")  # one file each in their folder of configs/, for all runs of a command line


@dataclasses.dataclass(frozen=True)
class Request:
    """What a command line asks for: every combination of these, with the same overrides."""

    variants: list[str]
    tasks: list[str]
    presets: list[str]
    seeds: list[int]
    overrides: list[str]

    def runs(self) -> list[list[str]]:
        """The overrides of each run, in the order in which they are made."""
        combinations = itertools.product(self.presets, self.variants, self.tasks, self.seeds)
        return [
            [f"model={variant}", f"task={task}", f"preset={preset}", f"seed={seed}", *self.overrides]
            for preset, variant, task, seed in combinations
        ]


def choices(group: str) -> list[str]:
    """The options of a configuration group."""
    return variant_names() if group == "model" else sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def tasks_of(preset: str) -> list[str]:
    """The tasks that a preset has sizes for."""
    return [task for task in choices("task") if (CONFIGS / "sizes" / preset / f"{task}.yaml").is_file()]


def parse(arguments: Sequence[str]) -> Request:
    """Reads a command line of `key=value`; raises BadInput with the nearest and all valid choices."""
    read = [(_parse_override(argument), argument) for argument in arguments]
    picked = {o.key_or_group: _values(o) for o, _ in read if o.key_or_group in ("model", "task", "preset", "seed")}
    overrides = []
    for override, argument in read:
        key = override.key_or_group
        if key in OPTION_GROUPS:
            overrides += [f"{key}={_known(key, name)}" for name in _values(override)]
        elif key.startswith("model.") and "." in picked.get("model", [""])[0]:
            overrides.append("++" + argument.lstrip("+"))  # the keywords of a user's class are not listed in a file
        elif key not in picked:
            overrides.append(argument)
    if not picked.get("model"):
        raise BadInput(
            f"no variant given (model=...). Allowed: all, {', '.join(variant_names())}, package.module.Class"
        )
    variants = variant_names() if picked["model"] == ["all"] else [canonical(name) for name in picked["model"]]
    for name in variants:
        if "." in name:
            ConfigStore.instance().store(group="model", name=name, node={"_target_": name})
    request = Request(
        variants=variants,
        tasks=[_known("task", name) for name in picked.get("task", ["listops"])],
        presets=[_known("preset", name) for name in picked.get("preset", ["mini"])],
        seeds=[_seed(text) for text in picked.get("seed", ["0"])],
        overrides=overrides,
    )
    _check_sizes(request)
    _check_keys(request)
    for first in _representatives(request):
        compose_run(first)
    return request


def compose_run(overrides: Sequence[str]) -> BenchConfig:
    """The resolved configuration of one run; raises BadInput."""
    # Seeds share a composition, which takes longer than everything else here.
    config = copy.deepcopy(_composed(*(text for text in overrides if not text.startswith("seed="))))
    for node in ("model", "task", "launcher"):
        _check_types(config, node, overrides)
    try:
        for text in overrides:
            if text.startswith("seed="):
                config.seed = text.partition("=")[2]
        OmegaConf.resolve(config)
        missing = OmegaConf.missing_keys(config)
        built: Any = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        raise BadInput(_plain(error)) from None
    if missing:
        raise BadInput(f"no value for {', '.join(sorted(missing))}: give it as key=value")
    _check_ranges(built)
    return built


def dump(config: BenchConfig) -> dict[str, Any]:
    """The configuration as plain values for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=attrgetter("name")))


def identity(config: BenchConfig) -> dict[str, Any]:
    """The part of the configuration that decides what the run computes."""
    kept = {key: value for key, value in dump(config).items() if key not in NOT_IDENTITY}
    kept["task"] = {key: value for key, value in kept["task"].items() if key not in NOT_IDENTITY}
    return kept


def may_change_identity(override: str) -> bool:
    """Whether an override sets something that decides what the run computes."""
    return re.split("[.=]", override.lstrip("+"))[0] not in NOT_IDENTITY


def _compose(overrides: Sequence[str]) -> DictConfig:
    if "protocol=layer" in overrides:  # a layer by itself has the variant's own defaults, whatever a preset would take
        overrides = [*overrides, "~model_sizes@_global_", "~variant_sizes@_global_"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        try:
            return compose("bench", list(overrides))
        except (HydraException, OmegaConfBaseException) as error:
            raise BadInput(_plain(error)) from None


@functools.lru_cache(maxsize=1024)
def _composed(*overrides: str) -> DictConfig:
    """A composition to read, not to change."""
    return _compose(overrides)


def _defaults(overrides: Sequence[str]) -> DictConfig:
    """What variant, task, preset and launcher alone make; to read, not to change."""
    return _composed(*overrides[:3], *(text for text in overrides[4:] if text.startswith("launcher=")))


def _plain(error: Exception) -> str:
    """The useful line of a configuration error."""
    cause = error.__cause__ or error
    key = getattr(cause, "full_key", None)
    text = str(cause).splitlines()[0]
    if found := re.fullmatch(r"Invalid value '(.*)', expected one of \[(.*)\]", text):
        return str(unknown(f"value of {key}", found[1], found[2].split(", ")))
    return f"{key}: {text}" if key and key not in text else text


def _parse_override(argument: str) -> Override:
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException:
        quoted = ", text with spaces or = in quotes, as in launcher.setup=['export A=1']" if "[" in argument else ""
        raise BadInput(f"cannot read {argument!r}: give key=value, for instance train.steps=100{quoted}") from None
    if override.is_delete():
        raise BadInput(f"cannot delete a key ({argument}); give it another value")
    return override


def _values(override: Override) -> list[str]:
    text = str(override.input_line).partition("=")[2]
    values = [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if not values:
        raise BadInput(f"{override.key_or_group}= has no value")
    return values


def _known(group: str, name: str) -> str:
    if name not in choices(group):
        raise unknown(group, name, choices(group))
    return name


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise BadInput(f"seed={text}: a seed is a whole number from 0 on")
    return int(text)


def _representatives(request: Request) -> Iterable[list[str]]:
    """Runs that together show every variant, task and preset once."""
    runs = request.runs()
    seen: set[str] = set()
    for run in runs:
        if not seen.issuperset(run[:3]):
            seen.update(run[:3])
            yield run


def _check_sizes(request: Request) -> None:
    for preset, task in itertools.product(request.presets, request.tasks):
        if task not in tasks_of(preset):
            having = [each for each in choices("preset") if task in tasks_of(each)]
            raise BadInput(
                f"task {task} has no sizes for preset {preset}, only for {', '.join(having) or 'none'}; "
                f"preset {preset} has {', '.join(tasks_of(preset))}"
            )


def _check_keys(request: Request) -> None:
    """Refuses keys that the configuration does not have, also behind + and ++."""
    base = _defaults(request.runs()[0])
    for argument in request.overrides:
        override = _parse_override(argument)
        path = override.key_or_group.split(".")
        if len(path) == 1 and path[0] in OPTION_GROUPS:
            continue
        if path[0] == "model" and len(path) == 2 and "." in request.variants[0]:
            continue  # a user's own keywords are checked against the constructor, before anything compiles
        if override.is_sweep_override():
            raise BadInput(f"{argument}: lists of values are for model, task, preset and seed only")
        node: Any = base
        for depth, key in enumerate(path):
            names = [str(name) for name in node] if isinstance(node, DictConfig) else []
            if key not in names:
                parent = ".".join(path[:depth])
                raise unknown(f"key in {parent}" if parent else "key", ".".join(path[depth:]), names)
            node = None if OmegaConf.is_missing(node, key) else node[key]
        if isinstance(node, DictConfig):
            raise BadInput(f"{argument}: {override.key_or_group} is a group of keys: {', '.join(map(str, node))}")


def _check_types(config: DictConfig, node: str, overrides: Sequence[str]) -> None:
    """Holds the values of an untyped group against the type of their defaults."""
    changed = [text for text in overrides[4:] if text.lstrip("+").startswith(f"{node}.")]
    if not changed:
        return
    defaults = _defaults(overrides)
    for text in changed:
        key = _parse_override(text).key_or_group
        default, value = OmegaConf.select(defaults, key), OmegaConf.select(config, key)
        whole_for_fraction = isinstance(default, float) and type(value) is int
        if default is not None and value is not None and not whole_for_fraction and type(value) is not type(default):
            raise BadInput(f"{key}={value}: {type(default).__name__} is wanted, such as {default}")


ENCODER_SIZES = ("dim", "heads", "qkv_dim", "mlp_dim", "layers")
POSITIVE = {
    "encoder": ENCODER_SIZES,
    "speed.encoder": ENCODER_SIZES,
    "train": ("steps", "batch_size", "learning_rate", "evaluate_every", "clip_norm", "minutes"),
    "speed": ("batch_size", "seconds"),
    "limits": ("train_minutes", "cell_minutes", "attempts", "cores"),
}
NOT_NEGATIVE = ("warmup_steps", "weight_decay")
FOLDERS = ("results", "work_dir", "cache_dir", "data_dir")


def _check_ranges(config: BenchConfig) -> None:
    for group, keys in POSITIVE.items():
        for key in keys:
            value = getattr(attrgetter(group)(config), key)
            if value is not None and not value > 0:
                raise BadInput(f"{group}.{key}={value}: must be above 0")
    for key in NOT_NEGATIVE:
        value = getattr(config.train, key)
        if not value >= 0:
            raise BadInput(f"train.{key}={value}: must be at least 0")
    for key in FOLDERS:
        if not getattr(config, key):
            raise BadInput(f"{key}= names no folder")
    if not config.speed.lengths or min(config.speed.lengths) < 1:
        raise BadInput(f"speed.lengths={config.speed.lengths}: give at least one length, each above 0")
    for name, encoder in (("encoder", config.encoder), ("speed.encoder", config.speed.encoder)):
        for key in ("dropout", "attention_dropout"):
            value = getattr(encoder, key)
            if not 0 <= value < 1:
                raise BadInput(f"{name}.{key}={value}: must be at least 0 and below 1")
        if encoder.qkv_dim % encoder.heads:
            raise BadInput(f"{name}.qkv_dim={encoder.qkv_dim} is not a multiple of {name}.heads={encoder.heads}")
