"""Optimisers on one surface, against what linear algebra says of it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import neuropil
from neuropil.recipes.optimizers import (
    FULL_BATCH,
    RULES,
    Descent,
    OptimizersOptions,
    Surface,
    UpdateRule,
    build,
    descend,
    diabetes_surface,
    mini_batches,
    rosenbrock_surface,
)
from real_data import diabetes

OPTIONS = OptimizersOptions(steps=40)
GRADIENT_DESCENT = RULES[FULL_BATCH]


def problem() -> tuple[np.ndarray, np.ndarray]:
    names, features, target = diabetes()
    chosen = features[:, [names.index("bmi"), names.index("s5")]]
    return chosen - chosen.mean(0), (target - target.mean()) / target.std(ddof=1)


@pytest.fixture(scope="module")
def surface() -> Surface:
    return diabetes_surface()


def test_the_lowest_point_is_that_of_linear_regression(surface: Surface):
    x, t = problem()
    np.testing.assert_allclose(surface.minimum, LinearRegression().fit(x, t).coef_)
    assert surface.excess(torch.tensor([surface.minimum], dtype=torch.float64)) == pytest.approx(0, abs=1e-12)
    assert surface.excess(torch.tensor([surface.start], dtype=torch.float64)) > 1


def test_the_valley_is_as_narrow_as_the_covariance_of_the_features_says(surface: Surface):
    x, _ = problem()
    np.testing.assert_allclose(surface.curvatures(), np.linalg.eigvalsh(x.T @ x / len(x)))


def test_gradient_descent_takes_the_path_that_algebra_predicts(surface: Surface):
    """w_n − w* = (1 − η H)ⁿ (w_0 − w*)"""
    x, _ = problem()
    step = np.eye(2) - 0.05 * x.T @ x / len(x)
    start, minimum = np.array(surface.start), np.array(surface.minimum)
    expected = [minimum + np.linalg.matrix_power(step, n) @ (start - minimum) for n in range(OPTIONS.steps + 1)]
    np.testing.assert_allclose(descend(GRADIENT_DESCENT, 0.05, surface, OPTIONS, 0).path, expected, rtol=1e-9)


def test_gradient_descent_leaves_the_valley_beyond_twice_the_inverse_curvature(surface: Surface):
    _, steepest = surface.curvatures()
    inside, outside = (descend(GRADIENT_DESCENT, factor * 2 / steepest, surface, OPTIONS, 0) for factor in (0.98, 1.02))
    assert inside.final < inside.losses[0] < outside.final


def test_all_rules_see_the_same_batches_and_each_example_once_in_a_pass():
    batches = [
        batch for batch in mini_batches(442, OptimizersOptions(steps=13, batch_size=32), seed=0) if batch is not None
    ]
    assert [len(batch) for batch in batches] == [32] * 13
    assert len(torch.cat(batches).unique()) == 13 * 32
    again = mini_batches(442, OptimizersOptions(steps=13, batch_size=32), seed=0)
    assert all(torch.equal(first, second) for first, second in zip(batches, again, strict=True) if second is not None)


def test_rosenbrock_has_its_minimum_at_one_one_and_the_classic_curvature():
    surface = rosenbrock_surface()
    w = torch.tensor([surface.minimum], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(surface.loss(w, None), w)
    assert gradient.abs().max() == 0
    assert np.prod(surface.curvatures()) == pytest.approx(400)
    assert surface.excess(torch.tensor([surface.start], dtype=torch.float64)) == pytest.approx(24.2)


def test_an_optimiser_has_converged_when_its_loss_stays_low():
    losses = np.array([1.0, 0.005, 0.5, *[0.004] * 17])
    assert Descent(0.1, np.zeros((20, 2)), losses).convergence() == 3
    assert Descent(0.1, np.zeros((20, 2)), np.array([1.0] * 19 + [0.0])).convergence() is None
    assert Descent(0.1, np.zeros((20, 2)), np.array([1.0, *[np.nan] * 19])).final == np.inf


def test_weight_decay_is_adamws_alone(surface: Surface):
    options = OptimizersOptions(steps=10, weight_decay=5.0)
    ends = {rule: descend(UpdateRule(rule), 0.01, surface, options, 0).path[-1] for rule in ("adam", "adamw")}
    plain = descend(UpdateRule("adam"), 0.01, surface, OptimizersOptions(steps=10, weight_decay=0.0), 0).path[-1]
    np.testing.assert_array_equal(ends["adam"], plain)
    assert np.abs(ends["adamw"] - plain).max() > 1e-3


def test_the_synthetic_surface_has_no_batches_and_so_no_sgd(tmp_path: Path):
    study = build(OptimizersOptions(surface="rosenbrock", steps=10), seed=0)
    study.train(tmp_path, show_progress=False)
    assert [result.name for result in study.evaluate()] == ["adam", "gradient descent", "momentum", "rmsprop", "adamw"]


def test_with_its_defaults_adam_ends_lower_than_gradient_descent(tmp_path: Path):
    adam, descent, *_ = neuropil.train("optimizers", out=tmp_path / "run", show_progress=False).results
    assert (adam.name, descent.name) == ("adam", "gradient descent")
    assert adam.metrics["excess_loss"] < descent.metrics["excess_loss"]
