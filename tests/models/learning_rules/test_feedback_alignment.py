"""Feedback alignment beside autograd, and beside its formula in NumPy."""

from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.models.learning_rules.feedback_alignment import FeedbackAlignment, weight_alignment
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.activations import ActivationName
from neuropil.parts.objectives import Classification

WAYS = pytest.mark.parametrize("way", ["layered", "direct"])


def network(activation: ActivationName = "tanh", hidden: tuple[int, ...] = (6, 7), **options: Any) -> MLP:
    torch.manual_seed(1)
    settings = {"dropout": 0.0, **options}
    return MLP(MLPConfig(hidden_sizes=hidden, activation=activation, shape=(5,), outputs=4, **settings)).double()


def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    return {"input": torch.randn(9, 5, dtype=torch.double), "target": torch.randint(0, 4, (9,))}


def weight_of(layer: nn.Module) -> torch.Tensor:
    return layer.get_parameter("weight").detach()


def changes(learner: FeedbackAlignment | Classification) -> list[torch.Tensor]:
    return list(torch.autograd.grad(learner.loss(batch()), list(learner.model.parameters())))


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic", "gelu"])
def test_with_the_transposed_weights_it_is_back_propagation(activation: ActivationName):
    model = network(activation)
    learner = FeedbackAlignment(model)
    learner.feedback = [weight_of(model.hidden[1]), model.output.weight.detach()]
    for own, autograd in zip(changes(learner), changes(Classification(model)), strict=True):
        torch.testing.assert_close(own, autograd)
    torch.testing.assert_close(learner.loss(batch()), Classification(model).loss(batch()))


def test_directly_with_the_products_of_linear_layers_it_is_back_propagation():
    model = network("identity")
    learner = FeedbackAlignment(model, "direct")
    learner.feedback = [(model.output.weight @ weight_of(model.hidden[1])).detach(), model.output.weight.detach()]
    for own, autograd in zip(changes(learner), changes(Classification(model)), strict=True):
        torch.testing.assert_close(own, autograd)


@WAYS
def test_the_changes_are_the_papers_formula(way: Literal["layered", "direct"]):
    model, given = network(), batch()
    learner = FeedbackAlignment(model, way, seed=3)
    (w1, b1), (w2, b2), (w3, b3) = (
        [layer.get_parameter(name).detach().numpy() for name in ("weight", "bias")]
        for layer in (*model.hidden, model.output)
    )
    x, t = given["input"].numpy(), np.eye(4)[given["target"].numpy()]
    h1 = np.tanh(x @ w1.T + b1)
    h2 = np.tanh(h1 @ w2.T + b2)
    y = h2 @ w3.T + b3
    e = (np.exp(y) / np.exp(y).sum(1, keepdims=True) - t) / len(x)
    first, second = (each.numpy() for each in learner.feedback)
    d2 = (e @ second) * (1 - h2**2)
    d1 = ((d2 if way == "layered" else e) @ first) * (1 - h1**2)
    expected = [d1.T @ x, d1.sum(0), d2.T @ h1, d2.sum(0), e.T @ h2, e.sum(0)]
    for own, formula in zip(changes(learner), expected, strict=True):
        np.testing.assert_allclose(own.numpy(), formula, atol=1e-12)


@WAYS
def test_no_weight_above_is_read_on_the_way_back(way: Literal["layered", "direct"]):
    model, given = network(), batch()
    learner = FeedbackAlignment(model, way)
    seen = learner.forward_pass(given["input"])
    error = torch.randn(9, 4, dtype=torch.double)
    before = learner.deltas(seen, error)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    for own, again in zip(before, learner.deltas(seen, error), strict=True):
        torch.testing.assert_close(own, again)


def test_feedback_weights_follow_from_the_seed_and_are_as_large_as_the_first_weights():
    wide = MLP(MLPConfig(hidden_sizes=(200, 300), activation="tanh", dropout=0.0))
    first, again, other = (FeedbackAlignment(wide, seed=seed).feedback for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert [tuple(each.shape) for each in first] == [(300, 200), (10, 300)]
    assert [tuple(each.shape) for each in FeedbackAlignment(wide, "direct").feedback] == [(10, 200), (10, 300)]
    for back, layer in zip(first, (wide.hidden[1], wide.output), strict=True):
        assert back.std().item() == pytest.approx(weight_of(layer).std().item(), rel=0.1)


def test_weights_come_to_resemble_the_feedback_weights_while_they_learn():
    model = network(hidden=(30, 20))
    learner = FeedbackAlignment(model, seed=1)
    before = weight_alignment(learner)
    assert before == pytest.approx([cosine(weight_of(model.hidden[1]), learner.feedback[0]), before[1]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        learner.loss(batch()).backward()
        optimizer.step()
    assert weight_alignment(learner)[-1] > before[-1] + 0.1


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a.flatten() @ b.flatten() / (a.norm() * b.norm())).item()


def test_what_is_between_the_layers_is_refused():
    with pytest.raises(InputError) as error:
        FeedbackAlignment(network(dropout=0.1, residual=True))
    assert str(error.value) == (
        "feedback alignment needs an MLP without batch normalisation, residual connections and dropout, "
        "but got residual, dropout."
    )
