"""Hybrid: every head has a pattern of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from models.attention import Drop, by_heads
from models.mixer import AttentionMixer, Growth, Sizes, split_heads
from models.patterns.bigbird import BigBird
from models.patterns.global_tokens import GlobalTokens
from models.patterns.local import Local
from models.patterns.longformer import Longformer
from models.patterns.sparse_transformer import SparseTransformer
from models.patterns.strided import Strided

PATTERNS: dict[str, Any] = {
    "local": Local,
    "strided": Strided,
    "global_tokens": GlobalTokens,
    "sparse_transformer": SparseTransformer,
    "longformer": Longformer,
    "bigbird": BigBird,
}


class Hybrid(AttentionMixer):
    """Multi-head attention whose heads follow the patterns named in `heads`, repeated if the model has more heads.

    `options` gives a pattern keywords of its own: `{local: {window: 32}}`. Heads of the same pattern are computed
    together. All share the projections of the mixer; what else a pattern has, such as random blocks, it keeps.
    """

    family = "patterns"
    paper = "Child et al. 2019, arXiv:1904.10509; Beltagy et al. 2020, arXiv:2004.05150"
    growth = Growth(1.5, 1.5)
    cost = "mean of its heads' patterns"

    def __init__(
        self,
        sizes: Sizes,
        *,
        heads: Sequence[str] = ("local", "local", "strided", "global_tokens"),
        options: Mapping[str, Mapping[str, Any]] | None = None,
        rngs: nnx.Rngs,
    ) -> None:
        options = options or {}
        for name in (*heads, *options):
            if name not in PATTERNS:
                raise ValueError(f"{name!r} is no pattern; there are {', '.join(PATTERNS)}")
        super().__init__(sizes, rngs=rngs)
        self.patterns = tuple(str(name) for name in np.resize(heads, sizes.heads))
        self.parts: nnx.Dict[Any] = nnx.Dict({})
        for name in dict.fromkeys(self.patterns):
            number = self.patterns.count(name)
            own = replace(sizes, heads=number, qkv_dim=number * sizes.head_dim)
            part = PATTERNS[name](own, **options.get(name, {}), rngs=rngs)
            for shared in (*AttentionMixer.projected, "out"):
                delattr(part, shared)
            self.parts[name] = part

    def inputs(self, x: Float[Array, "B L D"]) -> tuple[Float[Array, "B L H K"], ...]:
        """Queries, keys and values of all heads, then the further projections of the parts, in their order."""
        further = [
            split_heads(getattr(part, name)(x), part.heads)
            for part in self.parts.values()
            for name in part.projected[len(self.projected) :]
        ]
        return (*super().inputs(x), *further)

    def pattern(self, length: int) -> np.ndarray | None:
        """Which pairs are computed, bool [heads, length, length]; None if a part can't say."""
        of_part = {name: part.pattern(length) for name, part in self.parts.items()}
        if any(pattern is None for pattern in of_part.values()):
            return None
        rows = {name: iter(pattern) for name, pattern in of_part.items()}
        return np.stack([next(rows[name]) for name in self.patterns])

    def attend(self, q, k, v, *rest):
        *further, mask, drop = rest
        left = iter(further)
        own = {name: [next(left) for _ in part.projected[3:]] for name, part in self.parts.items()}

        def attend(name: str, q: Array, k: Array, v: Array, drop: Drop | None) -> Array:
            return self.parts[name].attend(q, k, v, *own[name], mask, drop)

        return by_heads(self.patterns, attend, q, k, v, drop=drop)
