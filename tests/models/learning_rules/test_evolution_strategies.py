"""Evolution strategies beside the gradient of a quadratic, whose error is known in closed form."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.learning_rules.evolution_strategies import (
    EvolutionStrategies,
    Weights,
    centred_ranks,
    estimated_gradient,
)
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import Classification

DIMENSION = 30


def quadratic() -> tuple[Tensor, Tensor]:
    """L = ½ wᵀ H w, and its gradient H w."""
    torch.manual_seed(0)
    root = torch.randn(DIMENSION, DIMENSION, dtype=torch.double)
    curvature = root @ root.mT / DIMENSION
    w = torch.randn(DIMENSION, dtype=torch.double)
    return w, curvature


@pytest.mark.parametrize("pairs", [100, 1_000, 10_000])
def test_the_error_on_a_quadratic_falls_as_theory_says(pairs: int):
    w, curvature = quadratic()
    gradient = curvature @ w

    def loss_at(weights: Weights) -> Tensor:
        return 0.5 * weights["w"] @ curvature @ weights["w"]

    errors = []
    for seed in range(20):
        torch.manual_seed(seed)
        _, found = estimated_gradient(loss_at, {"w": w}, pairs, sigma=0.3, ranks=False)
        errors.append(((found["w"] - gradient).square().sum() / gradient.square().sum()).item())
    # E ‖g − ∇L‖² = (d + 1)/n ‖∇L‖²; the mean of twenty has a standard error of √(2 / (20 d)) of that
    assert sum(errors) / 20 == pytest.approx((DIMENSION + 1) / pairs, rel=5 * math.sqrt(2 / (20 * DIMENSION)))


def test_ranks_point_along_the_gradient_whatever_the_scale_of_the_loss():
    w, curvature = quadratic()
    gradient, found = curvature @ w, []
    for scale in (1.0, 1e6):
        torch.manual_seed(0)
        _, g = estimated_gradient(
            lambda weights, s=scale: s * (weights["w"] @ gradient), {"w": w}, 3_000, 0.1, ranks=True
        )
        found.append(g["w"])
    torch.testing.assert_close(found[0], found[1])
    # of a linear loss L = c·w the ranks are nearly Φ(L) − ½: E g = E[Φ'] c/σ‖c‖ = 1/(2 √π σ) c/‖c‖
    expected = gradient / gradient.norm() / (2 * math.sqrt(math.pi) * 0.1)
    assert F.cosine_similarity(found[0], gradient, dim=0) > math.sqrt(3_000 / (3_000 + DIMENSION + 1)) - 0.01
    assert (found[0] @ expected / expected.square().sum()).item() == pytest.approx(1.0, rel=0.1)


def test_centred_ranks():
    assert centred_ranks(torch.tensor([3.0, -1.0, 50.0, 4.0, 0.0])).tolist() == [0.0, -0.5, 0.5, 0.25, -0.25]
    assert centred_ranks(torch.tensor([2.0])).tolist() == [-0.5]


def test_in_a_network_its_mean_over_many_pairs_is_the_gradient():
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(3,), activation="tanh", dropout=0.0, shape=(2,), outputs=2)).double()
    batch = {"input": torch.randn(8, 2, dtype=torch.double), "target": torch.randint(0, 2, (8,))}
    parameters = list(model.parameters())
    gradient = torch.autograd.grad(Classification(model).loss(batch), parameters)
    learner = EvolutionStrategies(model, pairs=20_000, sigma=0.01, ranks=False)
    found = torch.autograd.grad(learner.loss(batch), parameters)
    own, true = (torch.cat([each.flatten() for each in every]) for every in (found, gradient))
    assert ((own - true).norm() / true.norm()).item() < 3 * math.sqrt((len(true) + 1) / 20_000)


def test_the_loss_is_that_of_the_perturbed_networks():
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(3,), dropout=0.0, shape=(2,), outputs=2))
    batch = {"input": torch.randn(8, 2), "target": torch.randint(0, 2, (8,))}
    nearly = EvolutionStrategies(model, pairs=4, sigma=1e-4).loss(batch)
    torch.testing.assert_close(nearly, Classification(model).loss(batch), rtol=1e-3, atol=0)


def test_no_noise_is_refused():
    with pytest.raises(InputError) as error:
        EvolutionStrategies(MLP(MLPConfig()), sigma=0.0)
    assert str(error.value) == (
        "evolution strategies need at least one pair and a σ above 0, but got pairs=64 and sigma=0."
    )
