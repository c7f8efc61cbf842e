"""Dot products of whole numbers in registers, beside NumPy's."""

from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from torch import nn

from neuropil.sampling.gpt2_cpu.integer_tile import UNPACKED, WHOLE, integer_dots_with, num_groups, round_rows, unpack
from neuropil.sampling.gpt2_cpu.matrix import PACKED, ZERO_OF_BYTES, ZERO_OF_NIBBLES, filled, packed
from neuropil.sampling.gpt2_cpu.tile import VECTORS, WEIGHTS

with_one: Any = integer_dots_with(1)
with_several: Any = integer_dots_with(VECTORS)
COLUMNS = [1, 31, 33, 128, 130, 512, 515, 1200]


@njit
def products(weights, rows, groups, whole, scale, offset):
    """With all vectors at once and widened weights, and with each vector alone."""
    wide = np.empty((WEIGHTS, whole.shape[1]), UNPACKED)
    unpack(wide, weights, rows, groups)
    alone = np.empty((WEIGHTS, VECTORS), np.float32)
    for vector in range(VECTORS):
        sums = with_one(weights, rows, groups, rows, whole, scale, offset, vector)
        for row in range(WEIGHTS):
            alone[row, vector] = sums[row][0]
    return with_several(wide, (0, 1, 2, 3), groups, rows, whole, scale, offset, 0), alone


def rounded(x: np.ndarray, zero: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    whole = np.empty((len(x), filled(x.shape[1], PACKED)), WHOLE)
    scale = np.empty((len(x), num_groups(whole.shape[1])), np.float32)
    offset = np.empty(scale.shape, np.int32)
    round_rows(whole, scale, offset, x, x.shape[1], zero)
    return whole, scale, offset


def values(whole: np.ndarray, scale: np.ndarray) -> np.ndarray:
    columns = np.arange(whole.shape[1])
    return whole * scale[:, columns // 512 * 16 + columns % 64 // 4].astype(np.float64)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("precision", "zero"), [("int8", ZERO_OF_BYTES), ("int4", ZERO_OF_NIBBLES)])
def test_products_are_those_of_the_rounded_numbers_and_have_the_same_bits_alone(
    precision: str, zero: int, columns: int
):
    torch.manual_seed(0)
    matrix = packed(nn.Linear(columns, 9), precision)
    x = np.random.default_rng(0).standard_normal((VECTORS, columns)).astype(np.float32)
    whole, scale, offset = rounded(x, zero)
    rows = (7, 0, 8, 3)
    together, alone = products(matrix.weights, rows, matrix.groups, whole, scale, offset)
    assert np.array_equal(together, alone)
    weights = matrix.widened().double().numpy() / matrix.scale[:, None]
    expected = weights[list(rows)] @ values(whole, scale)[:, :columns].T
    np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_number_is_rounded_by_half_a_step_of_its_group_at_most_and_the_rest_is_zero(columns: int):
    x = np.random.default_rng(0).standard_cauchy((3, columns)).astype(np.float32)
    x[1] = 0
    whole, scale, offset = rounded(x, 9)
    assert not whole[:, columns:].any()
    groups = np.arange(columns) // 512 * 16 + np.arange(columns) % 64 // 4
    assert (np.abs(values(whole, scale)[:, :columns] - x) <= 0.501 * scale[:, groups]).all()
    for group in set(groups):
        assert (offset[:, group] == -9 * whole[:, :columns][:, groups == group].sum(1, dtype=np.int64)).all()
        np.testing.assert_allclose(scale[:, group], np.abs(x[:, groups == group]).max(1) / 127, rtol=1e-6)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_so(odd: float):
    x = np.ones((VECTORS, 700), np.float32)
    x[1, 650] = odd
    matrix = packed(nn.Linear(700, 4), "int8")
    together, _ = products(matrix.weights, (0, 1, 2, 3), matrix.groups, *rounded(x, ZERO_OF_BYTES))
    assert np.isfinite(np.array(together)).all(0).tolist() == [vector != 1 for vector in range(VECTORS)]
