"""The published law of ListOps: a sampler of whole levels at once, the written form, and the value of an expression.

An expression is a digit or an operator over 2 to `max_args` expressions. A node is an operator with probability
`operator_probability` and a digit otherwise; at `max_depth` it is always a digit. Arity, operator and digit are
uniform. An expression is kept when its length, `#digits + 2 #operators`, lies strictly between the two bounds. That
is the token count once the parentheses of the released files are dropped; `]` stays: without it there is no answer.

Nangia and Bowman 2018, https://arxiv.org/abs/1804.06028; lengths and depth of Tay et al. 2020,
https://arxiv.org/abs/2011.04006. The released files were written in the order of a Python set, so no seed gives them
back; ours are the same on every machine: the random bits are the raw stream of PCG64, which numpy keeps fixed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from tasks.errors import DataError

# The order of the token ids, stated here and nowhere else: id 0 is padding, id i is VOCABULARY[i - 1].
VOCABULARY = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]")
IDS = {token: i for i, token in enumerate(VOCABULARY, start=1)}
DIGIT, MIN, MAX, MED, SM, CLOSE = (IDS[token] for token in ("0", "[MIN", "[MAX", "[MED", "[SM", "]"))
OPERATORS = CLOSE - MIN

_BATCH_TOKENS = 2**20  # bound on the tokens sampled at once; part of the stream, like the order of the draws


class Expressions(NamedTuple):
    """Encoded expressions, one after the other."""

    tokens: np.ndarray  # uint8 [total length]
    offsets: np.ndarray  # int64 [N + 1]
    values: np.ndarray  # uint8 [N]


@dataclass(frozen=True)
class Law:
    """Parameters of the law; the defaults are those of the released task. Both length bounds are exclusive."""

    min_length: int = 500
    max_length: int = 2000
    max_depth: int = 10
    max_args: int = 10
    operator_probability: float = 0.25

    def __post_init__(self) -> None:
        if self.max_depth < 2 or self.max_args < 2:
            raise DataError(f"listops: max_depth {self.max_depth} and max_args {self.max_args} must be 2 or more")
        if not 0 < self.operator_probability < 1:
            raise DataError(f"listops: operator_probability {self.operator_probability} must lie between 0 and 1")
        if not 1 <= self.min_length < self.max_length - 1:
            raise DataError(
                f"listops: no length lies strictly between min_length {self.min_length} and max_length "
                f"{self.max_length} (min_length must be 1 or more)"
            )


def length_probabilities(law: Law) -> np.ndarray:
    """Exact probability of every length below `max_length`, float64 [max_length], before any is rejected."""

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.convolve(a, b)[: law.max_length]

    digit = np.array([0.0, 1.0])
    node = digit
    for _ in range(law.max_depth - 1):
        powers = node  # node^2 + ... + node^max_args, by Horner's rule
        for _ in range(law.max_args - 2):
            powers = product(powers, node)
            powers[: len(node)] += node
        powers = product(powers, node)
        operator = np.concatenate([[0, 0], powers])[: law.max_length] / (law.max_args - 1)
        node = law.operator_probability * operator
        node[1] += 1 - law.operator_probability
    return np.pad(node, (0, law.max_length - len(node)))


def sample(law: Law, seed: int) -> Iterator[Expressions]:
    """Endless batches of accepted expressions with their values; some batches may be empty, some items repeated."""
    bits = np.random.PCG64(seed)
    while True:
        tokens, offsets = _sample_trees(law, bits)
        yield Expressions(tokens, offsets, evaluate(tokens, offsets))


def sample_distinct(law: Law, seed: int, count: int) -> Iterator[Expressions]:
    """Batches of `count` expressions in all, none like another; of equal ones the first drawn is kept.

    Raises:
        DataError: the law has (nearly) no expression of such a length, or fewer distinct ones than asked for.
    """
    accepted = length_probabilities(law)[law.min_length + 1 :].sum()
    if accepted < 1e-4:
        raise DataError(
            f"listops: only {accepted:.1e} of all expressions of depth {law.max_depth} with up to {law.max_args} "
            f"arguments have a length between {law.min_length} and {law.max_length}; "
            "raise max_depth or max_args, or move the lengths"
        )
    seen: set[bytes] = set()
    drawn = 0
    for batch in sample(law, seed):
        text, bounds = batch.tokens.tobytes(), batch.offsets.tolist()
        new = []
        for i in range(len(batch.values)):
            digest = blake2b(text[bounds[i] : bounds[i + 1]], digest_size=16).digest()
            if digest not in seen and len(seen) < count:
                seen.add(digest)
                new.append(i)
        drawn += len(batch.values)
        if new:
            yield batch if len(new) == len(batch.values) else _take(batch, np.array(new))
        if len(seen) == count:
            return
        if drawn > 20 * count + 10_000:
            raise DataError(
                f"listops: {drawn:,} draws gave {len(seen):,} distinct expressions of the {count:,} asked for; "
                f"ask for fewer, or raise max_length ({law.max_length}), max_depth or max_args"
            )


def evaluate(tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Value 0..9 of every well-formed expression, uint8 [N]: MED is the median cut to an integer, SM the sum mod 10."""
    is_operator = (tokens >= MIN) & (tokens < CLOSE)
    depth = np.cumsum(is_operator.view(np.int8) - (tokens == CLOSE).view(np.int8), dtype=np.int16)
    depth -= is_operator  # an operator and its bracket stand at their own depth, what is between them one deeper
    values = tokens - np.uint8(DIGIT)  # right for digits at once; operators follow from the innermost outwards
    children = np.empty(0, np.int64)
    for level in range(int(depth.max(initial=0)), -1, -1):
        at = np.flatnonzero(depth == level)
        operators = at[is_operator[at]]
        if len(operators):
            first = np.searchsorted(children, operators)  # every node one deeper is the child of the operator before it
            values[operators] = _apply(tokens[operators], values[children], first)
        children = at[tokens[at] != CLOSE]
    return values[offsets[:-1]]


def _median(arguments: np.ndarray) -> np.ndarray:
    ranked = np.sort(arguments, axis=0)
    return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) // 2


_MEANING = {  # over arguments uint8 [arity, operators]
    MIN: lambda arguments: arguments.min(0),
    MAX: lambda arguments: arguments.max(0),
    MED: _median,
    SM: lambda arguments: arguments.sum(0) % 10,
}


def _apply(operators: np.ndarray, children: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Values of `operators` [n]; the arguments of operator i are `children[first[i]:first[i + 1]]`, at least one."""
    arity = np.diff(first, append=len(children))
    values = np.empty(len(operators), np.uint8)
    for operator, meaning in _MEANING.items():
        chosen = np.flatnonzero(operators == operator)
        for n in np.flatnonzero(np.bincount(arity[chosen])):
            rows = chosen[arity[chosen] == n]
            values[rows] = meaning(children[first[rows] + np.arange(n)[:, None]])
    return values


def serialise(tokens: np.ndarray) -> str:
    """The form of the released files: an operator takes its arguments one by one, each step in parentheses.

    `[MAX 2 9 ]` is written `( ( ( [MAX 2 ) 9 ) ] )`: an operator with n arguments adds n + 1 pairs.
    """
    parts: list[str] = []  # finished text of every open operator, with its number of closed steps
    steps: list[int] = []
    opened: list[int] = []
    for token in tokens.tolist():
        if MIN <= token < CLOSE:
            opened.append(len(parts))
            steps.append(0)
            parts.append(VOCABULARY[token - 1])
            continue
        parts.append(VOCABULARY[token - 1])
        if token == CLOSE:
            start = opened.pop()
            parts[start] = "( " * (steps.pop() + 1) + parts[start]
            parts[-1] += " )"
        if steps:
            steps[-1] += 1
            parts[-1] += " )"
    return " ".join(parts)


class _Level(NamedTuple):
    is_operator: np.ndarray  # bool [nodes]
    arity: np.ndarray  # int32 [operators]


def _sample_trees(law: Law, bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and offsets of the trees of an accepted length in one batch.

    A node's place is its parent's, plus 1, plus the tokens of its earlier siblings.
    """
    levels, lengths = _sample_shapes(law, bits)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    tokens = np.empty(offsets[-1], np.uint8)
    start = offsets[:-1]
    subtree_lengths = _subtree_lengths(levels)
    for i, (is_operator, arity) in enumerate(levels):
        operators, digits = start[is_operator], start[~is_operator]
        tokens[operators] = MIN + _integers(bits, len(operators), OPERATORS)
        tokens[operators + subtree_lengths[i][is_operator] - 1] = CLOSE
        tokens[digits] = DIGIT + _integers(bits, len(digits), 10)
        if len(operators):
            child = subtree_lengths[i + 1]
            before = np.cumsum(child) - child  # tokens of all earlier nodes of the next level
            start = np.repeat(operators + 1 - before[np.cumsum(arity) - arity], arity) + before
    return tokens, offsets


def _sample_shapes(law: Law, bits: np.random.PCG64) -> tuple[list[_Level], np.ndarray]:
    """Which nodes are operators, with how many children, from the roots down; and the length of every tree.

    Grows a batch of trees and returns those of an accepted length. A tree stops growing once it is too long.
    """
    threshold = round(law.operator_probability * 2**32)
    trees = max(1, _BATCH_TOKENS // law.max_length)
    lengths = np.ones(trees, np.int64)  # of what has grown: 1, and for every operator its children and its bracket
    levels, owners = [], []
    owner = np.arange(trees, dtype=np.int32)  # the tree of each node of the level
    for depth in range(1, law.max_depth + 1):
        if depth == 1:  # a lone digit is never long enough, so the roots are drawn given that they are operators
            is_operator = np.ones(len(owner), bool)
        elif depth == law.max_depth:
            is_operator = np.zeros(len(owner), bool)
        else:
            is_operator = _integers(bits, len(owner), 2**32) < threshold
            is_operator &= (lengths < law.max_length)[owner]
        parents = owner[is_operator]
        arity = (2 + _integers(bits, len(parents), law.max_args - 1)).astype(np.int32)
        lengths += np.bincount(parents, arity + 1, minlength=trees).astype(np.int64)
        levels.append(_Level(is_operator, arity))
        owners.append(owner)
        owner = np.repeat(parents, arity)
        if not len(owner):
            break
    keep = (lengths > law.min_length) & (lengths < law.max_length)
    kept = [
        _Level(level.is_operator[keep[owner]], level.arity[keep[owner[level.is_operator]]])
        for level, owner in zip(levels, owners, strict=True)
    ]
    return kept, lengths[keep]


def _subtree_lengths(levels: list[_Level]) -> list[np.ndarray]:
    """Number of tokens of the expression under every node, level by level: 1, or 2 + those of its children."""
    lengths: list[np.ndarray] = []
    for is_operator, arity in reversed(levels):
        length = np.ones(len(is_operator), np.int32)
        if len(arity):
            length[is_operator] = 2 + np.add.reduceat(lengths[-1], np.cumsum(arity) - arity)
        lengths.append(length)
    return lengths[::-1]


def _integers(bits: np.random.PCG64, count: int, below: int) -> np.ndarray:
    """Uniform integers in [0, below), int64 [count], from 32 bits each (bias under 3e-9 for the sizes used here)."""
    words = bits.random_raw((count + 1) // 2).astype("<u8").view("<u4")[:count]
    return ((words.astype(np.uint64) * np.uint64(below)) >> np.uint64(32)).astype(np.int64)


def _take(batch: Expressions, rows: np.ndarray) -> Expressions:
    lengths = np.diff(batch.offsets)[rows]
    tokens = [batch.tokens[batch.offsets[i] : batch.offsets[i + 1]] for i in rows]
    return Expressions(np.concatenate(tokens), np.concatenate([[0], np.cumsum(lengths)]), batch.values[rows])
