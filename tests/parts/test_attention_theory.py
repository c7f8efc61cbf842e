"""The equalities between scores of attention that theory promises."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from neuropil.parts.attention import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    Hard,
    Hopfield,
    Smoothing,
    attend,
)
from neuropil.parts.kernels import Gaussian
from parts.attention_problems import DOUBLE, HIDDEN, Problem, problems


@settings(deadline=None, max_examples=20)
@given(problem=problems(("none", "arbitrary")))
def test_a_soft_select_becomes_the_hard_one_as_its_temperature_falls(problem: Problem):
    query, key, value, mask, _, _ = problem
    hard = attend(query, key, value, score=Hard(Dot()), mask=mask)
    scores = (query @ key.mT).masked_fill(
        torch.zeros_like(query @ key.mT, dtype=torch.bool) if mask is None else ~mask, -torch.inf
    )
    best = scores.topk(min(2, key.shape[-2]), dim=-1).values
    gap = (
        (best[..., 0] - best[..., -1]).nan_to_num(posinf=1e3)
        if best.shape[-1] == 2
        else torch.full(best.shape[:-1], 1e3, dtype=DOUBLE)
    )
    for temperature in (1.0, 0.1, 0.01, 1e-3):
        soft = attend(query, key, value, score=Hopfield(beta=1 / temperature), mask=mask)
        # The weight that is not on the best key is at most (n − 1) exp(−gap / T).
        bound = 2 * value.abs().amax() * key.shape[-2] * torch.exp(-gap / temperature)
        assert ((soft - hard).abs().amax(-1) <= bound + 1e-9).all()


@settings(deadline=None, max_examples=20)
@given(problem=problems())
def test_kernel_smoothing_with_normalised_keys_is_the_scaled_dot_product(problem: Problem):
    """‖q − k‖² = ‖q‖² + ‖k‖² − 2 q·k, and only the last term differs from key to key."""
    query, key, value = problem.query, torch.nn.functional.normalize(problem.key, dim=-1), problem.value
    width = query.shape[-1]
    smoothed = attend(query, key, value, score=Smoothing(Gaussian(length=width**0.25)), **problem.limits)
    torch.testing.assert_close(smoothed, attend(query, key, value, **problem.limits))
    unit = torch.nn.functional.normalize(query, dim=-1)
    smoothed = attend(unit, key, value, score=Smoothing(Gaussian(length=0.5)), **problem.limits)
    torch.testing.assert_close(smoothed, attend(3 * query, 2 * key, value, score=Cosine(beta=4.0), **problem.limits))


def test_an_update_of_a_modern_hopfield_network_is_attention_and_recalls_a_stored_pattern():
    torch.manual_seed(0)
    stored = torch.where(torch.rand(20, 64) < 0.5, -1.0, 1.0).double()
    damaged = stored * torch.where(torch.rand(20, 64) < 0.2, -1.0, 1.0)
    beta = 0.5

    def energy(state: Tensor) -> Tensor:
        """E = −lse(β, X ξ) + ξᵀξ / 2, up to constants."""
        return -torch.logsumexp(beta * state @ stored.T, -1) / beta + 0.5 * state.square().sum(-1)

    state, energies = damaged, [energy(damaged)]
    for _ in range(5):
        # ξ ← Xᵀ softmax(β X ξ)
        updated = torch.softmax(beta * state @ stored.T, -1) @ stored
        state = attend(state, stored, stored, score=Hopfield(beta=beta))
        torch.testing.assert_close(state, updated)
        energies.append(energy(state))
    assert all((later <= earlier + 1e-9).all() for earlier, later in pairwise(energies))
    assert torch.equal(state.round(), stored)


def test_luongs_concat_is_bahdanaus_additive_score_with_its_matrix_cut_in_two():
    concat, additive = Concat(3, 5, HIDDEN).double(), Additive(3, 5, HIDDEN).double()
    with torch.no_grad():
        additive.query.weight.copy_(concat.projection.weight[:, :3])
        additive.key.weight.copy_(concat.projection.weight[:, 3:])
        additive.weight.copy_(concat.weight)
    query, key = torch.randn(2, 4, 3, dtype=DOUBLE), torch.randn(2, 6, 5, dtype=DOUBLE)
    torch.testing.assert_close(concat(query, key), additive(query, key))


def test_luongs_general_with_the_identity_is_his_dot_and_takes_keys_of_another_width():
    general = General(3, 3).double()
    with torch.no_grad():
        general.weight.copy_(torch.eye(3))
    query, key, value = (torch.randn(2, 4, 3, dtype=DOUBLE) for _ in range(3))
    torch.testing.assert_close(attend(query, key, value, score=general), attend(query, key, value, score=Dot()))
    wide = General(3, 5).double()
    narrow = query @ wide.weight
    other = torch.randn(2, 4, 5, dtype=DOUBLE)
    torch.testing.assert_close(attend(query, other, value, score=wide), attend(narrow, other, value, score=Dot()))


@pytest.mark.parametrize("num_keys", [100, 10_000])
def test_gaussian_smoothing_keeps_its_digits_far_from_the_origin(num_keys: int):
    x = 1e4 + torch.arange(float(num_keys))[:, None]
    query, value = x[:: num_keys // 50] + 0.3, torch.sin(x / 7)
    for length in (0.5, 3.0):
        # f(q) = Σ k(q, x) y / Σ k(q, x)
        kernel = torch.exp(-((query.double() - x.double().T) ** 2) / (2 * length**2))
        expected = kernel @ value.double() / kernel.sum(-1, keepdim=True)
        torch.testing.assert_close(
            attend(query, x, value, score=Smoothing(Gaussian(length))).double(), expected, atol=1e-6, rtol=1e-6
        )
