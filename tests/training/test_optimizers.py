"""The rules that the docstring writes, computed by hand beside the optimiser that carries their name."""

from typing import Any

import pytest
import torch
from torch import nn

from neuropil.training.optimizers import OPTIMIZERS, build_optimizer


def descend(name, steps: int, **options: Any) -> list[torch.Tensor]:
    """Positions on f(w) = ½ Σ aᵢ wᵢ², whose gradient is a·w."""
    curvature = torch.tensor([[1.0, 10.0]])
    weight = nn.Parameter(torch.tensor([[2.0, -1.0]]))
    optimizer = build_optimizer(name, {"weight": weight}, learning_rate=0.05, **options)
    path = [weight.detach().clone()]
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * curvature * weight.square()).sum().backward()
        optimizer.step()
        path.append(weight.detach().clone())
    return path


def by_hand(name: str, steps: int) -> list[torch.Tensor]:
    curvature, w = torch.tensor([[1.0, 10.0]]), torch.tensor([[2.0, -1.0]])
    v = m = s = torch.zeros_like(w)
    path, rate = [w], 0.05
    for t in range(1, steps + 1):
        gradient = curvature * w
        if name == "sgd":
            w = w - rate * gradient
        elif name == "momentum":
            v = 0.9 * v + gradient
            w = w - rate * v
        elif name == "rmsprop":
            s = 0.99 * s + 0.01 * gradient**2
            w = w - rate * gradient / (s.sqrt() + 1e-8)
        elif name == "muon":
            v = 0.95 * v + 0.05 * gradient
            x = 0.05 * gradient + 0.95 * v
            scale = 1.0  # the one singular value, which five steps of a x + b x³ + c x⁵ bring close to one
            for _ in range(5):
                scale = 3.4445 * scale - 4.7750 * scale**3 + 2.0315 * scale**5
            w = w - rate * 0.2 * 2**0.5 * scale * x / x.norm()
        else:
            m, s = 0.9 * m + 0.1 * gradient, 0.999 * s + 0.001 * gradient**2
            w = w - rate * (m / (1 - 0.9**t)) / ((s / (1 - 0.999**t)).sqrt() + 1e-8)
        path.append(w)
    return path


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_rule_is_the_written_one(name):
    for ours, written in zip(descend(name, 20), by_hand(name, 20), strict=True):
        torch.testing.assert_close(ours, written, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_pulls_on_matrices_and_spares_biases_and_norms(name):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimizer = build_optimizer(name, dict(model.named_parameters()), learning_rate=0.1, weight_decay=0.5)
    decays = {id(parameter): group["weight_decay"] for group in optimizer.param_groups for parameter in group["params"]}
    assert {name: decays[id(parameter)] for name, parameter in model.named_parameters()} == {
        "0.weight": 0.5,
        "0.bias": 0.0,
        "1.weight": 0.0,
        "1.bias": 0.0,
    }


def test_decoupled_decay_shrinks_a_weight_without_gradient():
    weight = nn.Parameter(torch.ones(1, 1))
    optimizer = build_optimizer("adamw", {"weight": weight}, learning_rate=0.1, weight_decay=0.5)
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert weight.item() == pytest.approx(1 - 0.1 * 0.5)


def test_muon_makes_the_singular_values_of_a_step_alike_and_leaves_embeddings_to_adamw():
    table, linear = nn.Embedding(20, 6), nn.Linear(6, 3)
    parameters = {"table": table.weight, "weight": linear.weight, "bias": linear.bias}
    weight, before = linear.weight, linear.weight.detach().clone()
    optimizer = build_optimizer("muon", parameters, learning_rate=0.1, embeddings=[table.weight])
    rules = {id(parameter): group["rule"] for group in optimizer.param_groups for parameter in group["params"]}
    named = {name: rules[id(parameter)] for name, parameter in parameters.items()}
    assert named == {"table": "adamw", "weight": "muon", "bias": "adamw"}
    scales = torch.tensor([1.0, 3.0, 9.0])
    (linear(table.weight) * scales * torch.randn(20, 3, generator=torch.Generator().manual_seed(0))).sum().backward()
    optimizer.step()
    sizes = torch.linalg.svdvals(weight.detach() - before) / (0.1 * 0.2 * 6**0.5)
    assert weight.grad is not None
    assert torch.linalg.cond(weight.grad) > 3
    assert 0.6 < sizes.min() < sizes.max() < 1.3


def test_muon_steps_as_torch_does_but_for_its_bfloat16():
    ours = nn.Parameter(torch.randn(12, 8, generator=torch.Generator().manual_seed(0)))
    theirs = nn.Parameter(ours.detach().clone())
    begin = ours.detach().clone()
    options = {"lr": 0.05, "weight_decay": 0.3, "momentum": 0.95, "adjust_lr_fn": "match_rms_adamw"}
    optimizers = (
        build_optimizer("muon", {"weight": ours}, learning_rate=0.05, weight_decay=0.3),
        torch.optim.Muon([theirs], **options),
    )
    for step in range(10):
        gradient = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        for weight, optimizer in zip((ours, theirs), optimizers, strict=True):
            weight.grad = gradient.clone()
            optimizer.step()
    assert (ours - theirs).norm() < 0.02 * (theirs - begin).norm()


def test_frozen_parameters_are_left_out():
    frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
    optimizer = build_optimizer("sgd", {"frozen": frozen, "free": nn.Parameter(torch.ones(2))}, learning_rate=0.1)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("sgd", lambda groups: torch.optim.SGD(groups, lr=0.05)),
        ("momentum", lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.9)),
        ("rmsprop", lambda groups: torch.optim.RMSprop(groups, lr=0.05)),
        ("adam", lambda groups: torch.optim.Adam(groups, lr=0.05, fused=True)),
        ("adamw", lambda groups: torch.optim.AdamW(groups, lr=0.05, fused=True)),
    ],
)
def test_every_step_is_that_of_the_class_in_torch(name, build):
    ours, theirs = nn.Linear(3, 3), nn.Linear(3, 3)
    theirs.load_state_dict(ours.state_dict())
    groups = [{"params": [theirs.weight], "weight_decay": 0.3}, {"params": [theirs.bias], "weight_decay": 0.0}]
    pairs = [
        (ours, build_optimizer(name, dict(ours.named_parameters()), learning_rate=0.05, weight_decay=0.3)),
        (theirs, build(groups)),
    ]
    for step in range(10):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        for model, optimizer in pairs:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
