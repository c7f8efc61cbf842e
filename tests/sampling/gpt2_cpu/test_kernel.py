"""The functions of which the kernel is made."""

import numpy as np
import pytest
from numba import njit

from neuropil.sampling.gpt2_cpu import kernel

exponential = kernel.exponential


@njit
def exponentials(x):
    out = np.empty_like(x)
    for place in range(len(x)):
        out[place] = exponential(x[place])
    return out


def test_the_exponential_is_right_to_the_last_digits():
    x = np.linspace(-87, 88, 1_000_003).astype(np.float32)
    np.testing.assert_allclose(exponentials(x), np.exp(x.astype(np.float64)), rtol=2**-22)


def test_the_exponential_ends_where_single_precision_does_and_keeps_what_is_no_number():
    ends = exponentials(np.array([-1e30, -np.inf, 1e30, np.inf, np.nan], np.float32))
    assert (ends[:2] <= np.exp(np.float64(-86.99))).all()
    assert (ends[2:4] >= np.exp(np.float64(87.99))).all()
    assert np.isnan(ends[4])


@pytest.mark.parametrize(
    ("rows", "padded"), [(1, 1), (2, kernel.VECTORS), (33, -(-33 // kernel.VECTORS) * kernel.VECTORS)]
)
def test_rows_fill_tiles(rows: int, padded: int):
    assert kernel.padded_rows(rows) == padded
