"""How far information gets through fixed patterns: the pairs joined in one layer, in two, and how many join all."""

from typing import Any

import numpy as np
from jaxtyping import Bool

from lra.build import build_mixer, layer_sizes
from lra.config import compose_run
from lra.variants import variant_names

LENGTH = 1024


def reaches(preset: str, length: int = LENGTH) -> dict[str, Any]:
    """Every variant that states its pattern, with the preset's keywords; a layer joins what any of its heads joins."""
    found = []
    for name in variant_names():
        config = compose_run([f"model={name}", "task=listops", f"preset={preset}", "seed=0"])
        sizes = layer_sizes(config.speed.encoder, length, config.speed.precision)
        mixer: Any = build_mixer(config.model, sizes)
        pattern = mixer.pattern(length) if hasattr(mixer, "pattern") else None
        if pattern is not None:
            joined: Any = np.asarray(pattern).any(axis=0)
            found.append({"variant": name, "family": mixer.family} | reach(joined))
    return {"length": length, "variants": found}


def reach(joined: Bool[np.ndarray, "L L"]) -> dict[str, Any]:
    """Row i of `joined` says which tokens token i attends to in one layer; past every layer it also keeps itself.

    `keys`: how many, on average. `furthest`: the largest distance between two of them. `layers`: for one layer and for
    two the share of the tokens that reach a token, on average and at the least. `layers_to_all`: how many layers let
    every token reach every other, null if none do.
    """
    length = len(joined)
    distance = abs(np.arange(length)[:, None] - np.arange(length))
    reached = joined | np.eye(length, dtype=bool)
    step, layers, shares = reached.astype(np.float32), 1, [_shares(reached)]
    while not reached.all():
        further = reached.astype(np.float32) @ step > 0
        if layers == 1:
            shares.append(_shares(further))
        if (further == reached).all():
            break
        reached, layers = further, layers + 1
    return {
        "keys": float(joined.sum(1).mean()),
        "furthest": int(distance[joined].max()),
        "layers": shares if len(shares) == 2 else [*shares, *shares],
        "layers_to_all": layers if reached.all() else None,
    }


def _shares(reached: Bool[np.ndarray, "L L"]) -> dict[str, float]:
    return {"mean": float(reached.mean()), "least": float(reached.mean(1).min())}
