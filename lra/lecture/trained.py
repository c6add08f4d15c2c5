"""The attention of a trained Transformer on real examples, and how many singular values hold most of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from lra import child
from lra.errors import BadInput
from lra.record import read_json
from lra.restored import restored, specification
from models.attention import masked_softmax
from models.classifier import Classifier
from models.dense.transformer import Transformer
from tasks.task import Task

SHARE = 0.9  # of the sum, or of the sum of squares, that the counted singular values hold
GROUPS = 6  # of examples, from the shortest of the test split to the longest
EXAMPLES = 16  # a group
NORMAL = 1.96  # half the width of a 95 % interval, in standard errors


@dataclass(frozen=True)
class Trained:
    """A finished run of the Transformer.

    Attributes:
        facts: what the result says of it.
        task: its data.
        trained, initial: the model with its best parameters, and as it was before the first step.
    """

    facts: dict[str, Any]
    task: Task
    trained: Classifier
    initial: Classifier

    @classmethod
    def of(cls, folder: Path, say: Callable[[str], None]) -> "Trained":
        """Restores a run from its work folder as training itself does; raises BadInput if that can't be."""
        key = f"checkpoint={folder}"
        config = specification(folder)[1]
        if (read_json(folder / child.OUTCOME_FILE) or {}).get("status") != "complete":
            raise BadInput(f"{key}: its run is not complete")
        if config.model["_target_"] != f"{Transformer.__module__}.{Transformer.__name__}":
            raise BadInput(f"{key}: a run of {config.model['_target_']}; attention matrices are the Transformer's")
        run = restored(folder, say)
        facts = {
            "title": run.title,
            "task": run.task.name,
            "source": run.task.source,
            "preset": config.preset,
            "seed": config.seed,
            "best_step": run.best.step,
            "validation_accuracy": run.best.accuracy,
        }
        return cls(facts, run.task, run.trained, run.initial)

    def documents(self, sequences: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [N, L] and mask [N, L] of test documents, which are half an example where a task has pairs."""
        split, length = self.task.test, self.task.max_length
        tokens, real = np.zeros((len(sequences), length), np.int32), np.zeros((len(sequences), length), bool)
        for row, sequence in enumerate(sequences):
            document = split.sequence(int(sequence))[:length]
            tokens[row, : len(document)], real[row, : len(document)] = document, True
        return tokens, real

    def by_length(self) -> list[np.ndarray]:
        """Numbers of test documents in groups, each of about one length, from the shortest to the longest."""
        lengths = np.minimum(self.task.test.lengths, self.task.max_length)
        order = np.argsort(lengths, kind="stable")
        count = min(EXAMPLES, len(order))
        wanted = np.geomspace(max(lengths.min(), 1), lengths.max(), GROUPS)
        middles = np.searchsorted(lengths[order], wanted)
        starts = np.unique(np.clip(middles - count // 2, 0, len(order) - count))
        return [order[start : start + count] for start in starts]


Projected = tuple[Float[Array, "B L H K"], Float[Array, "B L H K"], Float[Array, "B L H K"]]


def projections(
    model: Classifier, tokens: Int[Array, "B L"], mask: Bool[Array, "B L"]
) -> tuple[list[Projected], Bool[Array, "B L"]]:
    """Queries, keys and values of every layer, and the mask with the class token in it."""
    x, real = model.embedding(tokens, mask)
    assert real is not None
    found: list[Projected] = []
    layers: Any = model.encoder.layers
    for layer in layers:
        found.append(layer.mixer.inputs(layer.mixer_norm(x)))
        x, _ = layer(x, real, None, deterministic=True, rngs=None)
    return found, real


def attention_weights(
    model: Classifier, tokens: Int[Array, "B L"], mask: Bool[Array, "B L"]
) -> tuple[Float[Array, "B N H L L"], Bool[Array, "B L"]]:
    """Softmax weights of every layer (N of them) and head, and the mask of real tokens, class token included."""
    found, real = projections(model, tokens, mask)
    weights = [
        masked_softmax(jnp.einsum("blhk,bmhk->bhlm", q * q.shape[-1] ** -0.5, k), real[:, None, None, :])
        for q, k, _ in found
    ]
    return jnp.stack(weights, axis=1), real


def needed(values: Float[np.ndarray, "... L"], share: float = SHARE) -> np.ndarray:
    """How many of these values, largest first, hold `share` of their sum."""
    held = np.cumsum(-np.sort(-values, axis=-1), axis=-1)
    return 1 + (held < share * held[..., -1:] * (1 - 1e-9)).sum(-1)


def low_rank(run: Trained) -> dict[str, Any]:
    """Singular values that hold 90 % of the attention matrices, as counts and as shares of the length.

    `of_sum` holds the singular values' sum, as in Wang et al. 2020, figure 1, https://arxiv.org/abs/2006.04768;
    `of_energy` the sum of their squares, which is the matrix's squared norm. Points are by group of lengths, with
    mean and 95 % interval over examples: one for each layer and head, and one (layer null) for the mean of these.
    """
    graph = nnx.split(run.trained)[0]
    weigh = jax.jit(lambda state, tokens, mask: attention_weights(nnx.merge(graph, state), tokens, mask))
    points = []
    for which, model in (("trained", run.trained), ("initial", run.initial)):
        state = nnx.split(model)[1]
        for group in run.by_length():
            weights, real = (np.asarray(x) for x in weigh(state, *run.documents(group)))
            lengths = real.sum(-1)
            # [examples, layers, heads] of singular values, as many as an example has tokens
            values = [np.linalg.svd(w[..., :n, :n], compute_uv=False) for w, n in zip(weights, lengths, strict=True)]
            counts = {
                "of_sum": np.stack([needed(each) for each in values]),
                "of_energy": np.stack([needed(each**2) for each in values]),
            }
            points += _points(which, counts, lengths)
    return run.facts | {"share": SHARE, "points": points}


def _points(which: str, counts: dict[str, np.ndarray], lengths: np.ndarray) -> list[dict[str, Any]]:
    layers, heads = counts["of_sum"].shape[1:]
    of_each = [(layer, head) for layer in range(layers) for head in range(heads)]
    points: list[dict[str, Any]] = []
    for place in (None, *of_each):
        point: dict[str, Any] = {"which": which, "length": float(lengths.mean()), "examples": len(lengths)}
        point |= {"layer": None, "head": None} if place is None else dict(zip(("layer", "head"), place, strict=True))
        for name, count in counts.items():
            own = count.mean((1, 2)) if place is None else count[:, place[0], place[1]]
            point[name] = {"count": _mean(own), "share": _mean(own / lengths)}
        points.append(point)
    return points


def _mean(values: np.ndarray) -> dict[str, float]:
    """Mean and 95 % interval over examples."""
    mean = float(values.mean())
    half = NORMAL * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {"mean": mean, "low": mean - half, "high": mean + half}
