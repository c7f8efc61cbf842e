"""Dot products in registers, beside NumPy's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from neuropil.sampling.gpt2_cpu.tile import (
    LANES,
    VECTORS,
    WEIGHTS,
    dots_with,
    dots_with_columns,
    prefetch,
    weighted_sum_of,
)

with_one: Any = dots_with(1)
with_several: Any = dots_with(VECTORS)
add_to_one: Any = weighted_sum_of(1)
add_to_several: Any = weighted_sum_of(VECTORS)


@njit
def products(weights, rows, x):
    """With all vectors at once, and with each alone."""
    alone = np.empty((WEIGHTS, VECTORS), np.float32)
    for vector in range(VECTORS):
        sums = with_one(weights, rows, x, vector)
        for row in range(WEIGHTS):
            alone[row, vector] = sums[row][0]
    return with_several(weights, rows, x, 0), alone


@njit
def weighted_sums(weights, rows, start, stop):
    """Added to ones: for all targets at once, and for each alone."""
    together = np.ones((VECTORS, rows.shape[1]), np.float32)
    alone = together.copy()
    add_to_several(together, weights, rows, start, stop)
    for target in range(VECTORS):
        add_to_one(alone[target : target + 1], weights[target : target + 1], rows, start, stop)
    return together, alone


@njit
def ask_for(matrix, row):
    prefetch(matrix, row)


def whole_numbers(shape: tuple[int, int], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """As weights of this kind and as numbers: small ones, whose sums are exact in any order."""
    numbers = np.random.default_rng(0).integers(-100, 101, shape).astype(np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16) if dtype == np.uint16 else numbers, numbers


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
@pytest.mark.parametrize("columns", [0, 1, LANES - 1, LANES, LANES + 1, 5 * LANES, 5 * LANES + 3])
def test_products_of_whole_numbers_are_exact(dtype: type, columns: int):
    weights, numbers = whole_numbers((9, columns), dtype)
    x = whole_numbers((VECTORS, columns), np.float32)[1]
    rows = (7, 0, 8, 3)
    together, alone = products(weights, rows, x)
    expected = numbers[list(rows)] @ x.T
    assert np.array_equal(together, expected)
    assert np.array_equal(alone, expected)


@given(columns=st.integers(0, 5 * LANES), times=st.integers(0, 40), start=st.integers(0, 40), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=50)
def test_weighted_sums_have_the_same_bits_alone_and_whether_or_not_more_follows_with_weight_0(
    columns: int, times: int, start: int, seed: int
):
    random = np.random.default_rng(seed)
    weights, rows = (random.standard_normal(shape).astype(np.float32) for shape in ((VECTORS, 44), (44, columns)))
    start = min(start, times)
    together, alone = weighted_sums(weights, rows, start, times)
    assert np.array_equal(together, alone)
    expected = 1 + weights[:, start:times].astype(np.float64) @ rows[start:times]
    np.testing.assert_allclose(together, expected, atol=1e-4)
    weights[:, times:] = 0
    assert np.array_equal(weighted_sums(weights, rows, start, 44)[0], together)


@given(columns=st.integers(0, 200), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=50)
def test_a_vector_has_the_same_bits_alone_and_among_others(columns: int, seed: int):
    random = np.random.default_rng(seed)
    weights, x = (random.standard_normal((4, columns)).astype(np.float32) for _ in range(2))
    x = np.resize(x, (VECTORS, columns))
    together, alone = products(weights, (0, 1, 2, 3), x)
    assert np.array_equal(together, alone)
    np.testing.assert_allclose(together, weights.astype(np.float64) @ x.T, atol=1e-5 * max(columns, 1))


@njit
def products_by_columns(columns, x, rows):
    made = np.empty((VECTORS, columns.shape[1]), np.float32)
    dots_with_columns(made, columns, x, rows)
    alone = np.empty((VECTORS, rows), np.float32)
    for row in range(rows):
        for vector in range(VECTORS):
            alone[vector, row] = with_one(columns.T.copy(), (row, row, row, row), x, vector)[0][0]
    return made[:, :rows], alone


@given(columns=st.integers(0, 5 * LANES), rows=st.integers(1, 40), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=50)
def test_products_have_the_same_bits_by_columns(columns: int, rows: int, seed: int):
    random = np.random.default_rng(seed)
    weights, x = (random.standard_normal(s).astype(np.float32) for s in ((columns, 40 + LANES), (VECTORS, columns)))
    together, alone = products_by_columns(weights, x, rows)
    assert np.array_equal(together, alone)


def test_rows_may_lie_apart():
    cube = np.random.default_rng(0).integers(-9, 10, (5, 3, 20)).astype(np.float32)
    x = np.ones((VECTORS, 20), np.float32)
    together, _ = products(cube[:, 1], (4, 0, 2, 2), x)
    assert np.array_equal(np.array(together)[:, 0], cube[[4, 0, 2, 2], 1].sum(1))


def test_memory_may_be_asked_for_what_is_not_there():
    ask_for(np.ones((2, 100), np.float32), 10**9)
