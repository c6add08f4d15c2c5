"""MLP-Mixer: weights belong to positions, and padding has none."""

import jax.numpy as jnp
import numpy as np

from models.attention_free.mlp_mixer import mix_tokens


def test_a_shorter_sequence_takes_the_first_positions() -> None:
    rng = np.random.default_rng(0)
    x, weight1, bias1, weight2, bias2 = (
        jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in ((1, 9, 3), (5, 9), (5,), (9, 5), (9,))
    )
    alone = mix_tokens(x[:, :6], None, weight1, bias1, weight2, bias2)
    mask = jnp.arange(9)[None] < 6
    padded = mix_tokens(x, mask, weight1, bias1, weight2, bias2)
    assert alone.shape == (1, 6, 3)
    np.testing.assert_allclose(padded[:, :6], alone, atol=1e-5)
    moved = mix_tokens(jnp.roll(x, 1, axis=1), None, weight1, bias1, weight2, bias2)
    assert abs(jnp.roll(moved, -1, axis=1) - mix_tokens(x, None, weight1, bias1, weight2, bias2)).max() > 0.1
