"""From a configuration to a model: the class behind the name, its sizes, its parameters."""

import importlib
import inspect
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from lra.config import EncoderConfig, Precision
from lra.errors import BadInput, unknown
from models.classifier import Classifier
from models.dense.transformer import Transformer
from models.mixer import Layer, Mixer, Sizes

LRA_RULE = 1.1  # at most this many times the Transformer's parameters (Tay et al. 2020, section 3.2)


def variant_class(model: dict[str, Any]) -> type[Mixer] | type[Layer]:
    """The class of a variant; raises BadInput when it can't be imported, is no variant, or lacks a given keyword."""
    target = model["_target_"]
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"variant {target!r}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Mixer | Layer)):
        raise BadInput(f"variant {target!r} is no subclass of models.mixer.Mixer or Layer")
    allowed = [name for name in inspect.signature(found.__init__).parameters if name not in ("self", "sizes", "rngs")]
    for keyword in keywords(model):
        if keyword not in allowed:
            raise unknown(f"keyword of {name}", keyword, allowed)
    return found


def keywords(model: dict[str, Any]) -> dict[str, Any]:
    """The variant's own keywords."""
    return {key: value for key, value in model.items() if key != "_target_"}


def layer_sizes(encoder: EncoderConfig, max_length: int, precision: Precision, extra_tokens: int = 0) -> Sizes:
    """The sizes of a layer for sequences of `max_length` tokens, class token and the variant's own not counted."""
    return Sizes(
        dim=encoder.dim,
        heads=encoder.heads,
        qkv_dim=encoder.qkv_dim,
        mlp_dim=encoder.mlp_dim,
        max_length=max_length + (encoder.pooling.value == "cls") + extra_tokens,
        dropout=encoder.dropout,
        attention_dropout=encoder.attention_dropout,
        dtype=jnp.dtype(precision.value),
    )


def build_mixer(model: dict[str, Any], sizes: Sizes, *, seed: int = 0) -> Mixer | Layer:
    """The mixer or layer of a variant by itself; raises BadInput for what the variant refuses."""
    cls: Any = variant_class(model)
    try:
        return cls(sizes, **keywords(model), rngs=nnx.Rngs(params=jax.random.key(seed)))
    except (ValueError, TypeError) as error:
        raise BadInput(f"variant {model['_target_']} with {keywords(model)}: {error}") from error


def build_classifier(
    model: dict[str, Any],
    encoder: EncoderConfig,
    *,
    max_length: int,
    vocab_size: int,
    num_classes: int,
    paired: bool = False,
    precision: Precision = Precision.float32,
    rematerialise: bool = False,
    seed: int = 0,
) -> Classifier:
    """The classifier of a variant, its parameters drawn from `seed`; raises BadInput for what a variant refuses."""
    cls: Any = variant_class(model)
    try:
        return Classifier(
            partial(cls, **keywords(model)),
            layer_sizes(encoder, max_length, precision, cls.extra_tokens),
            layers=encoder.layers,
            vocab_size=vocab_size,
            num_classes=num_classes,
            pooling=encoder.pooling.value,
            positions=encoder.positions.value,
            paired=paired,
            rematerialise=rematerialise,
            rngs=nnx.Rngs(params=jax.random.key(seed)),
        )
    except (ValueError, TypeError) as error:
        raise BadInput(f"variant {model['_target_']} with {keywords(model)}: {error}") from error


def parameter_count(model: nnx.Module) -> int:
    """Number of trained parameters; works on an abstract model too."""
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


def parameter_facts(model: dict[str, Any], encoder: EncoderConfig, **sizes: Any) -> dict[str, Any]:
    """Parameters of the classifier and their ratio to the Transformer's of the same sizes, without building either."""
    transformer = {"_target_": f"{Transformer.__module__}.{Transformer.__name__}"}
    own, base = (
        parameter_count(nnx.eval_shape(lambda which=which: build_classifier(which, encoder, **sizes)))
        for which in (model, transformer)
    )
    return {"count": own, "ratio_to_transformer": own / base, "within_lra_rule": own <= LRA_RULE * base}
