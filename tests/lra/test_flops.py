"""Matrix operations against counts by hand; loops count as often as they turn."""

import jax
import jax.numpy as jnp
import pytest

from lra.flops import program_flops
from models.dense.transformer import Transformer
from models.encoder import EncoderLayer
from models.mixer import Sizes


def flops(function, *arguments):
    return program_flops(jax.jit(function).trace(*arguments))


def of_shape(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def test_a_matrix_product():
    assert flops(lambda a, b: a @ b, of_shape(3, 5), of_shape(5, 7)) == 2 * 3 * 5 * 7


def test_what_is_no_product_is_free():
    assert flops(lambda a: jnp.exp(a).sum() + a.max(), of_shape(64, 64)) == 0


@pytest.mark.parametrize(
    ("text", "shapes", "expected"),
    [
        ("bqhk,bmhk->bhqm", [(2, 6, 4, 8), (2, 9, 4, 8)], 2 * 2 * 4 * 6 * 9 * 8),
        ("bhqm,bmhk->bqhk", [(2, 4, 6, 9), (2, 9, 4, 8)], 2 * 2 * 4 * 6 * 9 * 8),
        ("ij,j->i", [(5, 7), (7,)], 2 * 5 * 7),
        ("ij,ij->", [(5, 7), (5, 7)], 2 * 5 * 7),
    ],
)
def test_einsum(text, shapes, expected):
    assert flops(lambda *a: jnp.einsum(text, *a), *(of_shape(*shape) for shape in shapes)) == expected


def product(a, b):
    return a @ b


@pytest.mark.parametrize(
    ("turns", "function"),
    [
        (11, lambda a, b: jax.lax.scan(lambda x, _: (x @ b, None), a, None, length=11)[0]),
        (11, lambda a, b: jax.lax.fori_loop(0, 11, lambda _, x: x @ b, a)),
        (12, lambda a, b: jax.lax.map(lambda row: row @ b, jnp.zeros((12, *a.shape)))),
        (2, lambda a, b: jax.lax.fori_loop(0, 2, lambda _, x: jax.jit(product)(x, b), a)),
        (
            6,
            lambda a, b: jax.lax.scan(lambda x, _: (jax.lax.fori_loop(0, 3, lambda _, y: y @ b, x), None), a, None, 2)[
                0
            ],
        ),
        (5, lambda a, b: jax.vmap(lambda x: x @ b)(jnp.zeros((5, *a.shape)))),
    ],
    ids=["scan", "fori_loop", "map", "inner jit", "nested", "vmap"],
)
def test_a_loop_counts_every_turn(turns, function):
    assert flops(function, of_shape(4, 6), of_shape(6, 6)) == turns * 2 * 4 * 6 * 6


def test_a_loop_of_unknown_length_is_an_error():
    def until_small(a, b):
        return jax.lax.while_loop(lambda x: x.sum() > 1, lambda x: x @ b, a)

    with pytest.raises(ValueError, match="trip count"):
        flops(until_small, of_shape(6, 6), of_shape(6, 6))
    # one without products costs nothing however often it turns
    assert flops(lambda a: jax.lax.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, a), of_shape(6, 6)) == 0


def test_a_branch_counts_as_its_dearest_side():
    def either(a, b):
        return jax.lax.cond(a.sum() > 0, lambda: a @ b @ b, lambda: a @ b)

    assert flops(either, of_shape(6, 6), of_shape(6, 6)) == 2 * 2 * 6**3


def test_a_gradient_is_two_products_more_and_recomputation_counts():
    weight = of_shape(6, 6)

    def loss(x, w):
        return jnp.sum(jnp.sin(x @ w) @ w)

    forward = 2 * 2 * 4 * 6 * 6
    assert flops(loss, of_shape(4, 6), weight) == forward
    assert flops(jax.grad(loss, argnums=(0, 1)), of_shape(4, 6), weight) == 3 * forward
    recomputed = flops(jax.grad(jax.checkpoint(loss), argnums=(0, 1)), of_shape(4, 6), weight)
    assert recomputed == 3 * forward + 2 * 4 * 6 * 6  # the inner product; the outer one is not needed again


def test_convolutions():
    full = flops(lambda x, w: jax.lax.conv(x, w, (1,), "SAME"), of_shape(2, 3, 10), of_shape(8, 3, 5))
    assert full == 2 * (2 * 8 * 10) * (3 * 5)
    strided = flops(lambda x, w: jax.lax.conv(x, w, (2,), "VALID"), of_shape(2, 3, 11), of_shape(8, 3, 5))
    assert strided == 2 * (2 * 8 * 4) * (3 * 5)

    def depthwise(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (1,), "SAME", feature_group_count=6, dimension_numbers=("NWC", "WIO", "NWC")
        )

    assert flops(depthwise, of_shape(2, 10, 6), of_shape(5, 1, 6)) == 2 * (2 * 10 * 6) * 5


def test_fourier_transforms():
    """5 n log2 n a transform."""
    assert flops(jnp.fft.fft, of_shape(3, 64)) == 3 * 5 * 64 * 6
    assert flops(jnp.fft.fft2, of_shape(3, 16, 32)) == 3 * 5 * 512 * 9
    assert flops(jnp.fft.rfft, of_shape(3, 64)) == 3 * 5 * 64 * 6 / 2
    assert flops(lambda x: jnp.fft.irfft(x.astype(complex), 64), of_shape(3, 33)) == 3 * 5 * 64 * 6 / 2


def test_a_transformer_layer():
    """Per token: four projections, two linear maps; per pair of tokens and head: one score and one weighted value."""
    from flax import nnx

    batch, length, dim, heads, qkv, mlp = 2, 32, 24, 4, 16, 40
    sizes = Sizes(dim=dim, heads=heads, qkv_dim=qkv, mlp_dim=mlp, max_length=length)
    layer = EncoderLayer(Transformer(sizes, rngs=nnx.Rngs(0)), sizes, rngs=nnx.Rngs(0))
    graph, state = nnx.split(layer)

    def forward(state, x, mask):
        return nnx.merge(graph, state)(x, mask, None, deterministic=True, rngs=None)[0]

    counted = flops(forward, state, of_shape(batch, length, dim), jax.ShapeDtypeStruct((batch, length), bool))
    projections = batch * length * 4 * 2 * dim * qkv
    feed_forward = batch * length * 2 * 2 * dim * mlp
    attention = batch * heads * length * length * 2 * 2 * (qkv // heads)
    assert counted == projections + feed_forward + attention
