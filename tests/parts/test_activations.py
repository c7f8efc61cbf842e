import math
from typing import get_args

import pytest
import torch

from neuropil.parts.activations import ACTIVATIONS, SLOPES, ActivationName, argmax, derivative, softmax, threshold


def test_every_name_of_the_type_is_in_the_table():
    assert list(get_args(ActivationName)) == list(ACTIVATIONS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_by_hand_are_those_of_automatic_differentiation(name: ActivationName):
    z = torch.randn(1000, dtype=torch.double)
    torch.testing.assert_close(SLOPES[name](z, ACTIVATIONS[name](z)), derivative(ACTIVATIONS[name], z))


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "threshold"])
def test_derivative_is_the_slope_of_the_curve(name: ActivationName):
    activation, z, h = (
        ACTIVATIONS[name],
        torch.linspace(-3, 3, 40, dtype=torch.double),
        1e-6,
    )  # 40 points: none at the corner of relu
    slope = (activation(z + h) - activation(z - h)) / (2 * h)
    torch.testing.assert_close(derivative(activation, z), slope, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nothing_overflows_far_from_zero(name: ActivationName):
    z = torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4])
    assert torch.isfinite(ACTIVATIONS[name](z)).all()
    assert torch.isfinite(derivative(ACTIVATIONS[name], z)).all()


def test_logistic_never_steeper_than_a_quarter():
    assert derivative(torch.sigmoid, torch.zeros(())).item() == 0.25
    assert derivative(torch.sigmoid, torch.randn(1000) * 5).max() <= 0.25


def test_threshold_is_one_from_zero_on():
    z = torch.tensor([-1.0, -1e-30, -0.0, 0.0, 1e-30, 2.0])
    assert threshold(z).tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("slope", [0.5, 2.0, 10.0])
def test_the_surrogate_gradient_belongs_to_a_smooth_step_from_zero_to_one(slope: float):
    def smooth(z: torch.Tensor) -> torch.Tensor:
        return 0.5 + torch.arctan(math.pi * slope * z / 2) / math.pi

    z = torch.linspace(-5, 5, 101, dtype=torch.double)
    torch.testing.assert_close(derivative(lambda z: threshold(z, slope), z), derivative(smooth, z))
    ends = smooth(torch.tensor([-1e9, 1e9], dtype=torch.double))
    torch.testing.assert_close(ends, torch.tensor([0.0, 1.0], dtype=torch.double))


def test_the_surrogate_gradient_works_under_vmap_and_twice():
    z = torch.randn(5, dtype=torch.double)
    per_example = torch.vmap(torch.func.grad(lambda one: threshold(one).sum()))(z)
    torch.testing.assert_close(per_example, derivative(threshold, z))
    second = derivative(lambda z: torch.func.grad(lambda z: threshold(z).sum())(z), z)
    assert torch.isfinite(second).all()


def test_softmax_is_a_distribution_that_ignores_a_common_shift():
    z = torch.randn(4, 7, dtype=torch.double)
    shares = softmax(z)
    torch.testing.assert_close(shares.sum(-1), torch.ones(4, dtype=torch.double))
    torch.testing.assert_close(softmax(z + 1000), shares)


def test_argmax_is_softmax_at_zero_temperature_and_takes_the_first_of_equals():
    z = torch.randn(20, 7)
    torch.testing.assert_close(argmax(z), softmax(z / 1e-6))
    assert argmax(torch.tensor([1.0, 3.0, 3.0])).tolist() == [0, 1, 0]
