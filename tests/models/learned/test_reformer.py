"""Reformer: the hash, what is sorted next to what, and the maths where no chunk divides the length."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lra.subject import fast_jit
from models.learned.reformer import Reformer, lsh_attention, lsh_buckets, sort_by_bucket
from models.mixer import Sizes

GOLDEN = Path(__file__).parents[2] / "golden"
SIZES = Sizes(dim=16, heads=2, qkv_dim=16, mlp_dim=32, max_length=64)


@pytest.mark.parametrize("file", ["reformer_hf_L32_c8_h2_b8", "reformer_rp_L32_bs4_h1"])
def test_buckets_are_those_of_the_peers(file: str) -> None:
    with np.load(GOLDEN / f"{file}.npz") as arrays:
        rotations = arrays["rotations"] if arrays["rotations"].ndim == 4 else arrays["rotations"][None]
        ours = lsh_buckets(jnp.asarray(arrays["qk"]), jnp.asarray(rotations))
        offset = 2 * rotations.shape[3] * np.arange(rotations.shape[2])  # their numbers go on from round to round
        np.testing.assert_array_equal(ours, arrays["buckets"] - offset[:, None])


def test_the_number_of_buckets_follows_the_real_length() -> None:
    qk = jax.random.normal(jax.random.key(0), (3, 512, 2, 8))
    rotations = jax.random.normal(jax.random.key(1), (2, 8, 2, 16))
    buckets = np.asarray(lsh_buckets(qk, rotations, jnp.array([1, 5, 16])))
    for example, count in enumerate((1, 5, 16)):
        assert set(np.unique(buckets[example])) == set(range(2 * count))


def naive(qk: np.ndarray, v: np.ndarray, buckets: np.ndarray, chunk_size: int) -> np.ndarray:
    """One example and head: [n, K], [n, V] and [R, n], from the paper, one query at a time."""
    length, rounds = len(qk), len(buckets)
    order = [np.lexsort((np.arange(length), own)) for own in buckets]
    chunks = [[tokens[i : i + chunk_size] for i in range(0, length, chunk_size)] for tokens in order]
    unit = qk / np.linalg.norm(qk, axis=1, keepdims=True)
    out = np.zeros_like(v)
    for query in range(length):
        met: list[int] = []
        for r in range(rounds):
            place = next(i for i, chunk in enumerate(chunks[r]) if query in chunk)
            before = chunks[r][place - 1] if place else chunks[r - 1][-1]
            met += [*before, *chunks[r][place]]
        others = [key for key in met if key != query] or [query]
        weights = np.exp(unit[others] @ qk[query] / np.sqrt(qk.shape[1]))
        out[query] = weights @ v[others] / weights.sum()
    return out


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_equals_the_paper_at_any_real_length(rounds: int) -> None:
    lengths, padded, chunk_size = [1, 2, 8, 9, 20, 37], 40, 8
    rng = np.random.default_rng(rounds)
    qk, v = (rng.standard_normal((len(lengths), padded, 2, 8)) for _ in range(2))
    buckets = rng.integers(0, 5, (len(lengths), 2, rounds, padded))
    with jax.enable_x64(True):
        mask = jnp.arange(padded)[None] < jnp.array(lengths)[:, None]
        out = fast_jit(partial(lsh_attention, chunk_size=chunk_size))(qk, v, mask, buckets)
    for b, n in enumerate(lengths):
        for h in range(2):
            expected = naive(qk[b, :n, h], v[b, :n, h], buckets[b, h, :, :n], chunk_size)
            np.testing.assert_allclose(out[b, :n, h], expected, atol=1e-10)


def test_padding_is_sorted_behind_all_real_tokens() -> None:
    buckets = jax.random.randint(jax.random.key(0), (2, 3, 2, 30), 0, 6)
    lengths = np.array([17, 30])
    order, place = (np.asarray(x) for x in sort_by_bucket(buckets, jnp.asarray(lengths)[:, None, None], 8))
    for example, n in enumerate(lengths):
        own = order[example, :, :, 8:]  # behind the chunk that is looked back to
        assert (np.sort(own[..., :n]) == np.arange(n)).all()
        assert (own[..., n:] >= n).all()
        last = 8 * ((n - 1) // 8)
        np.testing.assert_array_equal(order[example, :, 1, :8], own[:, 0, last : last + 8])
        np.testing.assert_array_equal(order[example, :, 0, :8], own[:, 1, last : last + 8])
    np.testing.assert_array_equal(
        np.take_along_axis(order[..., 8:], place, 3), np.broadcast_to(np.arange(30), place.shape)
    )


def test_every_layer_and_head_has_rotations_of_its_own() -> None:
    rngs = nnx.Rngs(0)
    first, second = (Reformer(SIZES, chunk_size=4, rngs=rngs).rotations[...] for _ in range(2))
    assert first.shape == (2, 8, 2, 8)
    assert abs(first - second).min() > 0
    assert abs(first[0] - first[1]).min() > 0
