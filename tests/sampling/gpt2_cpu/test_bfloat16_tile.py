"""Dot products in bfloat16, beside NumPy's."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from torch import nn

from neuropil.sampling.gpt2_cpu.bfloat16_tile import PAIRS_ADDED, bfloat16_dots_with, in_bfloat16
from neuropil.sampling.gpt2_cpu.matrix import packed
from neuropil.sampling.gpt2_cpu.tile import VECTORS, WEIGHTS

pytestmark = pytest.mark.skipif(not PAIRS_ADDED, reason="this processor does not compute in bfloat16")
with_one: Any = bfloat16_dots_with(1)
with_several: Any = bfloat16_dots_with(VECTORS)


@njit
def products(weights, rows, x):
    """With all vectors at once, and with each vector alone."""
    alone = np.empty((WEIGHTS, VECTORS), np.float32)
    for vector in range(VECTORS):
        sums = with_one(weights, rows, x, vector)
        for row in range(WEIGHTS):
            alone[row, vector] = sums[row][0]
    return with_several(weights, rows, x, 0), alone


@given(columns=st.integers(1, 200), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=50)
def test_products_are_those_of_the_rounded_numbers_and_have_the_same_bits_alone(columns: int, seed: int):
    torch.manual_seed(seed)
    matrix, rows, x = packed(nn.Linear(columns, 9), "bfloat16"), (7, 0, 8, 3), torch.randn(VECTORS, columns)
    together, alone = products(matrix.weights, rows, in_bfloat16(x.numpy(), columns))
    assert np.array_equal(together, alone)
    expected = matrix.widened()[list(rows)].double() @ x.bfloat16().double().T
    np.testing.assert_allclose(together, expected.numpy(), atol=2e-6 * columns**0.5, rtol=1e-5)


def test_rounding_is_to_the_nearest_and_to_the_even_one_between_two():
    x = torch.cat([torch.randn(70), torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, torch.inf, -torch.inf, 3.4e38])])
    rounded = torch.from_numpy(in_bfloat16(x[None].numpy(), 75)).view(torch.bfloat16)
    assert torch.equal(rounded[0, :75], x.bfloat16())
    assert not rounded[0, 75:].any()


def test_what_is_no_number_stays_so():
    x = torch.tensor([[1.0, torch.nan]])
    assert torch.from_numpy(in_bfloat16(x.numpy(), 2)).view(torch.bfloat16).isnan().tolist()[0][:3] == [
        False,
        True,
        False,
    ]
