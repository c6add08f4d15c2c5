"""The parts written once: positions, class token, pooling, head, and the two towers of retrieval."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from models.classifier import Classifier, mean_pooling
from models.dense.transformer import Transformer
from models.embedding import Embedding, sinusoidal_positions
from models.encoder import Variant
from models.mixer import Sizes
from tests.models.test_variants import variant_class
from tests.models.variants import VARIANTS

TOY = Sizes(dim=16, heads=2, qkv_dim=16, mlp_dim=32, max_length=65)


def classifier(variant: Variant = Transformer, sizes: Sizes = TOY, **given: Any) -> Classifier:
    return Classifier(
        variant,
        sizes,
        **{
            "layers": 1,
            "vocab_size": 11,
            "num_classes": 3,
            "pooling": "cls",
            "positions": "sinusoidal",
            "paired": False,
            **given,
        },
        rngs=nnx.Rngs(0),
    )


def documents(*lengths: int, padded: int, padding: int = 0) -> tuple[jax.Array, jax.Array]:
    """Random token ids and the mask of documents of these lengths."""
    mask = np.arange(padded) < np.array(lengths)[:, None]
    tokens = np.stack([np.random.default_rng(length).integers(1, 11, padded) for length in lengths])
    return jnp.asarray(np.where(mask, tokens, padding)), jnp.asarray(mask)


@pytest.mark.parametrize("dim", [16, 7])
def test_sinusoidal_positions(dim: int) -> None:
    table = sinusoidal_positions(2001, dim)
    assert table.shape == (2001, dim)
    for position in (0, 1, 2000):
        for feature in range(dim):
            angle = position / 10_000 ** (feature // 2 * 2 / dim)
            assert table[position, feature] == pytest.approx((math.sin, math.cos)[feature % 2](angle), abs=1e-6)


def test_embedding_adds_tokens_and_positions() -> None:
    embedding = Embedding(11, TOY, positions="learned", class_token=False, rngs=nnx.Rngs(0))
    tokens, mask = documents(5, padded=5)
    x, same = embedding(tokens, mask)
    assert embedding.positions[...].shape == (65, 16)
    np.testing.assert_allclose(x[0, 3], embedding.tokens[...][tokens[0, 3]] + embedding.positions[3], rtol=1e-6)
    np.testing.assert_array_equal(same, mask)


def test_class_token_stands_in_front_and_is_always_real() -> None:
    embedding = Embedding(11, TOY, positions="sinusoidal", class_token=True, rngs=nnx.Rngs(0))
    tokens, mask = documents(0, 3, padded=6)
    x, grown = embedding(tokens, mask)
    assert x.shape == (2, 7, 16)
    np.testing.assert_allclose(x[:, 0], embedding.class_token[0] + sinusoidal_positions(1, 16).repeat(2, 0), rtol=1e-6)
    np.testing.assert_array_equal(grown.sum(1), [1, 4])
    np.testing.assert_array_equal(grown[:, 1:], mask)
    assert embedding(tokens, None)[1] is None


def test_class_token_counts_towards_the_maximum() -> None:
    model = classifier()
    with pytest.raises(ValueError, match=r"66 tokens .* max_length 65"):
        jax.eval_shape(lambda tokens: model(tokens, None), jnp.zeros((1, 65), int))
    assert jax.eval_shape(lambda tokens: model(tokens, None), jnp.zeros((1, 64), int)).shape == (1, 3)


def test_mean_pooling_takes_real_tokens_only() -> None:
    x = np.random.default_rng(0).standard_normal((2, 10, 4)).astype(np.float32)
    x[0, 3:] = np.nan
    pooled = mean_pooling(jnp.asarray(x), jnp.asarray(np.arange(10) < np.array([[3], [0]])))
    np.testing.assert_allclose(pooled[0], x[0, :3].mean(0), rtol=1e-6)
    np.testing.assert_array_equal(pooled[1], 0)
    np.testing.assert_allclose(mean_pooling(jnp.asarray(x[1:]), None), x[1:].mean(1), rtol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_logits_ignore_padding(pooling: str) -> None:
    model = classifier(pooling=pooling)
    predict = jax.jit(model)
    tokens, mask = documents(37, 12, padded=64, padding=7)
    logits = predict(tokens, mask)
    for padded in (37, 50):
        np.testing.assert_allclose(predict(tokens[:, :padded], mask[:, :padded]), logits, atol=1e-5)
    np.testing.assert_allclose(predict(jnp.where(mask, tokens, 3), mask), logits, atol=1e-5)
    changed = predict(tokens.at[0, 5].set(10 - tokens[0, 5]), mask)
    assert abs(changed[0] - logits[0]).max() > 1e-3
    np.testing.assert_array_equal(changed[1], logits[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_logits_ignore_padding_for_every_variant(name: str) -> None:
    cls: Any = variant_class(VARIANTS[name])
    if not cls.padding_invariant:
        pytest.skip("declares padding_invariant = False")
    model = classifier(partial(cls, **VARIANTS[name].toy), layers=2)
    tokens, mask = documents(37, 12, padded=64)
    predict = jax.jit(model)
    logits = predict(tokens, mask)
    np.testing.assert_allclose(predict(tokens[:, :37], mask[:, :37]), logits, atol=1e-5)
    np.testing.assert_allclose(predict(tokens[:1, :37], None), logits[:1], atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_masks_are_boolean(dtype: Any, pooling: str) -> None:
    model = classifier(pooling=pooling)
    tokens, mask = documents(5, padded=8)
    with pytest.raises(TypeError, match="boolean"):
        jax.eval_shape(model, tokens, mask.astype(dtype))


def test_head_compares_two_documents_of_one_encoder() -> None:
    model = classifier(paired=True)
    tokens, mask = documents(20, 33, 7, 40, padded=40)
    logits = jax.jit(model)(tokens.reshape(2, 2, 40), mask.reshape(2, 2, 40))
    encode = jax.jit(model.encode)
    x = np.concatenate([encode(tokens[i : i + 1], mask[i : i + 1]) for i in range(4)]).reshape(2, 2, -1)
    first, second = x[:, 0], x[:, 1]
    features = np.concatenate([first, second, first * second, first - second], axis=-1)
    hidden = np.maximum(linear(model.hidden, features), 0)
    np.testing.assert_allclose(logits, linear(model.logits, hidden), atol=1e-5)


def linear(module: nnx.Linear, x: np.ndarray) -> np.ndarray:
    assert module.bias is not None
    return x @ np.asarray(module.kernel[...]) + np.asarray(module.bias[...])


def test_encoding_of_one_document_has_no_gradient_in_the_other() -> None:
    model = classifier(paired=True, pooling="mean")
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 9, 16)), jnp.float32)  # document 1, document 2
    mask = documents(9, 6, padded=9)[1]

    def first_encoding(x: jax.Array) -> jax.Array:
        return (mean_pooling(model.encoder(x, mask), mask)[0] ** 3).sum()

    gradient = jax.jit(jax.grad(first_encoding))(x)
    assert abs(gradient[0]).max() > 1e-3
    np.testing.assert_array_equal(gradient[1], 0)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("paired", [pytest.param(False, marks=pytest.mark.slow), True])
def test_every_variant_classifies(name: str, paired: bool) -> None:
    cls: Any = variant_class(VARIANTS[name])
    shape = (2, 2, 40) if paired else (2, 40)

    def logits(tokens: jax.Array, mask: jax.Array) -> jax.Array:
        model = classifier(partial(cls, **VARIANTS[name].toy), layers=2, paired=paired)
        return model(tokens, mask, rngs=nnx.Rngs(1))

    result = jax.eval_shape(logits, jax.ShapeDtypeStruct(shape, jnp.int32), jax.ShapeDtypeStruct(shape, jnp.bool_))
    assert (result.shape, result.dtype) == ((2, 3), jnp.float32)


def test_dropout_acts_in_training_only() -> None:
    sizes = Sizes(dim=16, heads=2, qkv_dim=16, mlp_dim=32, max_length=65, dropout=0.5, attention_dropout=0.5)
    tokens, mask = documents(30, padded=40)
    dropping, without = classifier(sizes=sizes), classifier()
    train = jax.jit(lambda key: dropping(tokens, mask, rngs=nnx.Rngs(key)))
    one, same, other = train(jax.random.key(1)), train(jax.random.key(1)), train(jax.random.key(2))
    np.testing.assert_array_equal(one, same)
    assert abs(one - other).max() > 1e-3
    np.testing.assert_array_equal(jax.jit(dropping)(tokens, mask), jax.jit(without)(tokens, mask))


def test_transformer_has_the_parameters_of_the_release() -> None:
    sizes = Sizes(dim=256, heads=4, qkv_dim=256, mlp_dim=1024, max_length=1025)
    model = nnx.eval_shape(lambda: classifier(sizes=sizes, layers=4, vocab_size=257, num_classes=2))
    embedding = 257 * 256 + 256  # bytes and padding; the class token; positions are fixed
    layer = 4 * 256 * 256 + (256 * 1024 + 1024) + (1024 * 256 + 256) + 2 * 2 * 256
    head = (256 * 1024 + 1024) + (1024 * 2 + 2)
    count = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
    assert count == embedding + 4 * layer + 2 * 256 + head
    assert round(count / 1e6, 2) == 3.49
