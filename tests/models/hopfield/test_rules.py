"""The learning rules, beside their formulas written out sum by sum."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.models.hopfield.capacity import random_patterns
from neuropil.models.hopfield.rules import RULES, RuleName, hebb, learning_descent, pseudo_inverse, storkey
from neuropil.parts.binary_units.energy_gaps import fields, pairwise_energy


def patterns_of(count: int, units: int, seed: int = 0) -> Tensor:
    return random_patterns(count, units, torch.Generator().manual_seed(seed)).double()


@given(count=st.integers(1, 9), units=st.integers(1, 9), seed=st.integers(0, 1000))
def test_hebb_is_the_mean_of_products_without_the_diagonal(count: int, units: int, seed: int):
    patterns = patterns_of(count, units, seed)
    expected = torch.zeros(units, units, dtype=torch.double)
    for i, j in itertools.product(range(units), repeat=2):
        expected[i, j] = sum(float(x[i] * x[j]) for x in patterns) / count - (i == j)
    torch.testing.assert_close(hebb(patterns), expected)


@given(count=st.integers(1, 6), units=st.integers(2, 7), seed=st.integers(0, 1000))
def test_storkey_is_its_formula_pattern_by_pattern(count: int, units: int, seed: int):
    patterns = patterns_of(count, units, seed)
    expected = torch.zeros(units, units, dtype=torch.double)
    for x in patterns:
        old = expected.clone()

        def local(i: int, j: int, old: Tensor = old, x: Tensor = x) -> Tensor:
            return sum((old[i, k] * x[k] for k in range(units) if k not in (i, j)), start=torch.zeros(()))

        for i, j in itertools.permutations(range(units), 2):
            expected[i, j] = old[i, j] + (x[i] * x[j] - x[i] * local(j, i) - local(i, j) * x[j]) / units
    torch.testing.assert_close(storkey(patterns), expected)


def test_the_pseudo_inverse_is_the_projection_onto_the_patterns():
    patterns = patterns_of(12, 30)
    weight = pseudo_inverse(patterns)
    # X⁺ = Xᵀ (X Xᵀ)⁻¹ for patterns that are linearly independent
    projection = patterns.mT @ torch.linalg.solve(patterns @ patterns.mT, patterns)
    torch.testing.assert_close(weight, projection - projection.diagonal().diag())
    torch.testing.assert_close(projection @ projection, projection)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_symmetric_weights_without_a_diagonal(rule: RuleName):
    weight = RULES[rule](patterns_of(20, 40).float())
    assert torch.equal(weight, weight.mT)
    assert not weight.diagonal().any()


def stable_share(rule: RuleName, count: int, units: int = 100) -> float:
    """Of the patterns that are fixed points to the last sign."""
    patterns = patterns_of(count, units)
    held = fields(patterns, RULES[rule](patterns), torch.zeros(units, dtype=torch.double)) * patterns > 0
    return held.all(1).double().mean().item()


def test_storkey_keeps_more_patterns_than_hebb_and_the_pseudo_inverse_keeps_all_that_are_independent():
    assert stable_share("hebb", 5) == stable_share("storkey", 5) == 1
    assert stable_share("hebb", 30) < 0.1
    assert stable_share("storkey", 30) > 0.9
    assert stable_share("pseudo_inverse", 80) == 1


def test_the_pseudo_inverse_takes_a_pattern_twice_as_once():
    patterns = patterns_of(4, 20)
    torch.testing.assert_close(pseudo_inverse(torch.cat([patterns, patterns[:2]])), pseudo_inverse(patterns))


def test_descent_of_the_energy_ends_at_the_weights_of_hebb():
    patterns = patterns_of(6, 10)
    *_, last = learning_descent(patterns, steps=50)
    torch.testing.assert_close(last, hebb(patterns))


def test_each_step_of_learning_goes_down_the_gradient_of_the_energy_of_the_patterns():
    """W_ij and W_ji are one weight, so that the gradient is the sum of both entries'; the diagonal is held at zero."""
    patterns, bias = patterns_of(6, 10), torch.zeros(10, dtype=torch.double)
    before, energies = torch.zeros(10, 10, dtype=torch.double), []
    for weight in learning_descent(patterns, steps=5):
        leaf = before.clone().requires_grad_()
        energy = pairwise_energy(patterns, leaf, bias).mean()
        (slope,) = torch.autograd.grad(energy, leaf)
        slope = (slope + slope.mT).fill_diagonal_(0)
        torch.testing.assert_close(weight - before, -slope / 5)
        energies.append(energy.item())
        before = weight
    assert energies == sorted(energies, reverse=True)
