"""Dropout: the stated share is dropped, the mean stays, and the key decides which."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.dropout import drop_entries


@pytest.mark.parametrize(("rate", "share"), [(0.1, 26 / 256), (0.5, 0.5), (1e-4, 1 / 256), (0.9999, 255 / 256)])
def test_the_rounded_share_is_dropped_and_the_mean_stays(rate: float, share: float) -> None:
    x = jnp.ones((500, 7, 131))
    found = np.asarray(drop_entries(x, rate, jax.random.key(0)))
    dropped = (found == 0).mean()
    assert abs(dropped - share) < 4 * (share * (1 - share) / x.size) ** 0.5
    np.testing.assert_allclose(found[found != 0], 1 / (1 - share), rtol=1e-6)
    for axis in range(3):  # no row or column has less of it than another
        others = tuple({0, 1, 2} - {axis})
        size = x.size / x.shape[axis]
        assert abs((found == 0).mean(others) - share).max() < 5 * (share * (1 - share) / size) ** 0.5


def test_the_key_decides() -> None:
    x = jnp.ones((3, 50))
    first, again, other = (np.asarray(drop_entries(x, 0.5, jax.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.3


def test_nothing_to_drop_from_is_no_error() -> None:
    assert drop_entries(jnp.ones((2, 0, 4, 9)), 0.1, jax.random.key(0)).shape == (2, 0, 4, 9)
