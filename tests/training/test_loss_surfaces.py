"""Surfaces of two weights, against what linear algebra says of them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from neuropil.training.loss_surfaces import diabetes_surface, point, rosenbrock_surface, two_wells_surface
from real_data import diabetes_pair


def test_the_lowest_point_is_that_of_linear_regression():
    surface, (x, t) = diabetes_surface(), diabetes_pair()
    np.testing.assert_allclose(surface.minimum, LinearRegression().fit(x, t).coef_)
    assert surface.excess(point(surface.minimum)).item() == pytest.approx(0, abs=1e-12)
    assert surface.excess(point(surface.start)).item() > 1


def test_the_valley_is_as_narrow_as_the_covariance_of_the_features_says():
    x, _ = diabetes_pair()
    np.testing.assert_allclose(diabetes_surface().curvatures(), np.linalg.eigvalsh(x.T @ x / len(x)))


def test_rosenbrock_has_its_minimum_at_one_one_and_the_classic_curvature():
    surface = rosenbrock_surface()
    w = point(surface.minimum).requires_grad_()
    (gradient,) = torch.autograd.grad(surface.loss(w, None), w)
    assert gradient.abs().max() == 0
    assert np.prod(surface.curvatures()) == pytest.approx(400)
    assert surface.excess(point(surface.start)).item() == pytest.approx(24.2)


def test_one_of_the_two_wells_is_lower():
    surface = two_wells_surface()
    local, ridge, lowest = sorted(np.roots([4, 0, -4, 0.6]).real, reverse=True)
    heights = surface.excess(torch.tensor([[local, 0.0], [ridge, 0.0], [lowest, 0.0]], dtype=torch.float64)).tolist()
    assert heights[2] == pytest.approx(0, abs=1e-12)
    assert 0.5 < heights[0] < heights[1]


def test_contours_are_the_loss_above_the_minimum_with_the_second_weight_downwards():
    surface = rosenbrock_surface()
    x, y, excess = surface.contours(places=5)
    assert (x[0], x[-1], y[0], y[-1]) == (-1.7, 1.7, -0.8, 2.4)
    assert excess[3, 1] == pytest.approx((1 - x[1]) ** 2 + 100 * (y[3] - x[1] ** 2) ** 2)
