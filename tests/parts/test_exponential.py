import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.parts.compilation import compiled
from neuropil.parts.exponential import bernoulli, both, exp


@both
def gauss(x, width):
    return exp(-x * x / width) * bernoulli(x)


@compiled
def each_exp(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = exp(x[i])
    return y


@compiled
def each_bernoulli(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = bernoulli(x[i])
    return y


@compiled
def each_gauss(x, width):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = gauss(x[i], width)
    return y


@given(st.lists(st.floats(-699, 699), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_a_compiled_exponential_is_numpys_to_the_last_bits(numbers: list[float]):
    x = np.array(numbers)
    np.testing.assert_allclose(each_exp(x), np.exp(x), rtol=6e-16)


def test_it_is_one_at_zero_and_ends_where_numbers_end():
    assert each_exp(np.zeros(3)).tolist() == [1.0] * 3
    assert each_exp(np.array([-1e6, 1e6])) == pytest.approx([math.exp(-700), math.exp(700)], rel=1e-15)


@given(st.lists(st.floats(-50, 50) | st.floats(-0.01, 0.01), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_bernoulli_is_x_over_exp_x_minus_one_everywhere(numbers: list[float]):
    x = np.array(numbers)
    with np.errstate(invalid="ignore"):
        formula = np.where(x == 0, 1.0, x / np.where(x == 0, 1.0, np.expm1(x)))
    np.testing.assert_allclose(each_bernoulli(x), formula, rtol=1e-12)
    np.testing.assert_allclose(bernoulli(torch.from_numpy(x)).numpy(), formula, rtol=1e-12)


def test_bernoulli_has_a_gradient_at_zero_and_beside_it():
    x = torch.tensor([-1e-3, -1e-9, 0.0, 1e-9, 1e-3, 5.0], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(bernoulli, x)
    (gradient,) = torch.autograd.grad(bernoulli(x).sum(), x)
    assert gradient[2].item() == -0.5


def test_one_function_serves_tensors_and_compiled_loops():
    x = np.linspace(-4, 4, 101)
    np.testing.assert_allclose(each_gauss(x, 2.0), gauss(torch.from_numpy(x), 2.0).numpy(), rtol=1e-12)
