"""Which variants there are, and what a name stands for. Reads YAML and source text only: jax is never imported here."""

import ast
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from lra.errors import BadInput, unknown

ROOT = Path(__file__).parent.parent
MODEL_CONFIGS = ROOT / "configs" / "model"

# Names that people search for, and the variant they mean.
ALIASES = {
    "truncated": "local",
    "compressive": "compressed",
    "memory_compressed": "compressed",
    "lformer": "linformer",
    "linear": "linear_transformer",
    "sparsity_network": "sinkhorn",
    "learned_pattern": "sinkhorn",
    "random_synthesizer": "synthesizer",
    "dense_synthesizer": "synthesizer",
    "mixer": "mlp_mixer",
    "h1d": "h_transformer",
}

FAMILIES = ("dense", "patterns", "learned", "low_rank", "kernels", "synthetic", "attention_free", "hierarchical")


@dataclass(frozen=True)
class Variant:
    """A variant before it is built.

    Attributes:
        name: the file name in configs/model/, or the dotted path of a user's class.
        target: dotted path of the class.
        keywords: its own keywords, as configured.
    """

    name: str
    target: str
    keywords: dict[str, Any] = field(default_factory=dict)


def variant_names() -> list[str]:
    """Every variant with a file in configs/model/, in the order of the taxonomy and then of the alphabet."""
    names = sorted(path.stem for path in MODEL_CONFIGS.glob("*.yaml"))
    families = {name: resolve(name).target.split(".")[1] for name in names}
    return sorted(names, key=lambda name: FAMILIES.index(families[name]) if families[name] in FAMILIES else 99)


def canonical(name: str) -> str:
    """The variant's own name for a name, an alias or a dotted class; raises BadInput for anything else."""
    name = ALIASES.get(name, name)
    if "." in name:
        _source(name)
    elif not (MODEL_CONFIGS / f"{name}.yaml").is_file():
        raise unknown("variant", name, [*variant_names(), *(a for a, v in ALIASES.items() if v in variant_names())])
    return name


def resolve(name: str) -> Variant:
    """The class and default keywords that a name, an alias or a dotted class stands for."""
    if "." in name:
        canonical(name)
        return Variant(name, name)
    name = ALIASES.get(name, name)
    if not (MODEL_CONFIGS / f"{name}.yaml").is_file():
        canonical(name)
    config: Any = OmegaConf.to_container(OmegaConf.load(MODEL_CONFIGS / f"{name}.yaml"))
    return Variant(name, config.pop("_target_"), config)


def literal_facts(target: str) -> dict[str, Any]:
    """The facts that the class of a variant states as literals in its body, such as `family` and `version`."""
    for node in ast.walk(_source(target)):
        if isinstance(node, ast.ClassDef) and node.name == target.rpartition(".")[2]:
            return {
                statement.targets[0].id: statement.value.value
                for statement in node.body
                if isinstance(statement, ast.Assign)
                and isinstance(statement.targets[0], ast.Name)
                and isinstance(statement.value, ast.Constant)
            }
    return {}


def family(target: str) -> str:
    """The family a variant states, `user` where it states none."""
    return literal_facts(target).get("family", "user")


def version(target: str) -> int:
    """The version a variant states, 1 where it states none."""
    return literal_facts(target).get("version", 1)


def _source(target: str) -> ast.Module:
    """The syntax tree of the module of a dotted class; raises BadInput when there is no such module or class."""
    module, _, name = target.rpartition(".")
    try:
        found = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):
        found = None
    if found is None or not found.origin or not found.origin.endswith(".py"):
        raise BadInput(f"variant {target!r}: there is no module {module!r} on the path (give package.module.Class)")
    tree = ast.parse(Path(found.origin).read_text(), found.origin)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    imported = [
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    if name not in classes + imported and "*" not in imported:
        raise unknown(f"class in {module}", name, classes)
    return tree
