"""Optimisers on one surface, against what linear algebra says of it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import neuropil
from neuropil.inspection.report.studies.optimizers import Descent
from neuropil.recipes.optimizers import (
    FULL_BATCH,
    RULES,
    FlowComparison,
    OptimizersOptions,
    UpdateRule,
    beside_gradient_flow,
    beside_heavy_ball,
    build,
    gradient_flow,
    heavy_ball,
    mini_batches,
    order,
    plain_descent,
    race,
)
from neuropil.training.loss_surfaces import Surface, diabetes_surface, two_wells_surface
from real_data import diabetes_pair

OPTIONS = OptimizersOptions(steps=40)
GRADIENT_DESCENT = RULES[FULL_BATCH]


def descend(rule: UpdateRule, rate: float, surface: Surface, options: OptimizersOptions = OPTIONS) -> Descent:
    (found,) = race([(rule, rate)], surface, options, seed=0)
    return found


@pytest.fixture(scope="module")
def surface() -> Surface:
    return diabetes_surface()


def test_gradient_descent_takes_the_path_that_algebra_predicts(surface: Surface):
    """w_n − w* = (1 − η H)ⁿ (w_0 − w*)"""
    x, _ = diabetes_pair()
    step = np.eye(2) - 0.05 * x.T @ x / len(x)
    start, minimum = np.array(surface.start), np.array(surface.minimum)
    expected = [minimum + np.linalg.matrix_power(step, n) @ (start - minimum) for n in range(OPTIONS.steps + 1)]
    np.testing.assert_allclose(descend(GRADIENT_DESCENT, 0.05, surface).path, expected, rtol=1e-9)


def test_gradient_descent_leaves_the_valley_beyond_twice_the_inverse_curvature(surface: Surface):
    _, steepest = surface.curvatures()
    inside, outside = (descend(GRADIENT_DESCENT, factor * 2 / steepest, surface) for factor in (0.98, 1.02))
    assert inside.final < inside.losses[0] < outside.final


def test_all_rules_see_the_same_batches_and_each_example_once_in_a_pass():
    batches = [
        batch for batch in mini_batches(442, OptimizersOptions(steps=13, batch_size=32), seed=0) if batch is not None
    ]
    assert [len(batch) for batch in batches] == [32] * 13
    assert len(torch.cat(batches).unique()) == 13 * 32
    again = mini_batches(442, OptimizersOptions(steps=13, batch_size=32), seed=0)
    assert all(torch.equal(first, second) for first, second in zip(batches, again, strict=True) if second is not None)


def test_each_takes_the_path_that_it_would_take_alone(surface: Surface):
    entries = [(rule, 0.02) for rule in RULES.values()]
    for entry, beside in zip(entries, race(entries, surface, OPTIONS, seed=0), strict=True):
        alone = descend(*entry, surface)
        np.testing.assert_allclose(beside.path, alone.path, rtol=1e-9)
        np.testing.assert_allclose(beside.losses, alone.losses, rtol=1e-6)


def test_weight_decay_is_adamws_alone(surface: Surface):
    options = OptimizersOptions(steps=10, weight_decay=5.0)
    ends = {rule: descend(UpdateRule(rule), 0.01, surface, options).path[-1] for rule in ("adam", "adamw")}
    plain = descend(UpdateRule("adam"), 0.01, surface, OptimizersOptions(steps=10, weight_decay=0.0)).path[-1]
    np.testing.assert_array_equal(ends["adam"], plain)
    assert np.abs(ends["adamw"] - plain).max() > 1e-3


def test_the_synthetic_surface_has_no_batches_and_so_no_sgd(tmp_path: Path):
    study = build(OptimizersOptions(surface="rosenbrock", steps=10), seed=0)
    study.train(tmp_path, show_progress=False)
    assert [result.name for result in study.evaluate()] == ["adam", "gradient descent", "momentum", "rmsprop", "adamw"]


@pytest.mark.slow
def test_with_its_defaults_adam_ends_lower_than_gradient_descent(tmp_path: Path):
    adam, descent, *_ = neuropil.train("optimizers", out=tmp_path / "run", show_progress=False).results
    assert (adam.name, descent.name) == ("adam", "gradient descent")
    assert adam.metrics["excess_loss"] < descent.metrics["excess_loss"]


def test_the_gradient_flow_of_a_quadratic_is_the_exponential_of_its_hessian(surface: Surface):
    """θ(t) = θ* + exp(−H t) (θ(0) − θ*)"""
    x, _ = diabetes_pair()
    times = np.linspace(0, 3, 7)
    start, minimum = np.array(surface.start), np.array(surface.minimum)
    expected = [minimum + expm(-t * x.T @ x / len(x)) @ (start - minimum) for t in times]
    np.testing.assert_allclose(gradient_flow(surface, times), expected, rtol=1e-6)


def test_the_heavy_ball_is_the_linear_system_of_place_and_velocity(surface: Surface):
    """d/dt (θ − θ*, θ̇) = [[0, 1], [−H, −γ]] (θ − θ*, θ̇)"""
    x, _ = diabetes_pair()
    hessian, friction, times = x.T @ x / len(x), 0.7, np.linspace(0, 3, 7)
    system = np.block([[np.zeros((2, 2)), np.eye(2)], [-hessian, -friction * np.eye(2)]])
    start = np.concatenate([np.array(surface.start) - np.array(surface.minimum), [0, 0]])
    expected = [np.array(surface.minimum) + (expm(t * system) @ start)[:2] for t in times]
    np.testing.assert_allclose(heavy_ball(surface, friction, times), expected, rtol=1e-6, atol=1e-8)


def test_both_descents_come_to_their_flows_by_the_first_power_of_the_step(surface: Surface):
    _, steepest = surface.curvatures()
    euler = beside_gradient_flow(surface, 0.1 / steepest, steps=10)
    assert [each.step for each in euler[:3]] == pytest.approx([0.1 / steepest / 2**power for power in range(3)])
    assert order(euler) == pytest.approx(1, abs=0.05)
    ball = beside_heavy_ball(surface, 0.1 / steepest, momentum=0.9, steps=10)
    assert order(ball) == pytest.approx(1, abs=0.05)
    assert ball[-1].distance < euler[0].distance


def test_the_order_is_the_slope_on_logarithmic_axes():
    compared = [FlowComparison(step, np.zeros((1, 2)), 3 * step**2) for step in (0.1, 0.05, 0.025)]
    assert order(compared) == pytest.approx(2)


def test_momentum_leaves_the_local_minimum_in_which_gradient_descent_stays():
    surface = two_wells_surface()
    local, _, lowest = sorted(np.roots([4, 0, -4, 0.6]).real, reverse=True)
    assert plain_descent(surface, 0.01, 0.0, 400)[-1, 0] == pytest.approx(local, abs=1e-3)
    assert plain_descent(surface, 0.01, 0.9, 400)[-1, 0] == pytest.approx(lowest, abs=1e-3)
