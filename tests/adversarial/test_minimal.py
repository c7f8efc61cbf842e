"""Minimal perturbations, beside the distance to a plane and one another."""

from typing import Any

import pytest
import torch
from torch import nn

from digit_classifiers import held_out, mlp
from neuropil.adversarial.attacks import attack, minimal_perturbation
from neuropil.adversarial.threat_model import Norm, ThreatModel

METHODS: list[dict[str, Any]] = [
    {"method": "boundary", "steps": 60},
    {"method": "deepfool", "steps": 30},
    {"method": "bisection", "steps": 8},
]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("options", METHODS, ids=lambda options: options["method"])
def test_the_distance_to_a_plane_is_found(norm: Norm, options: Any):
    """Of a linear classifier of two classes: |w x + b| / ‖w‖_*."""
    model = nn.Linear(20, 2)
    with torch.no_grad():
        model.weight.copy_(torch.randn(2, 20, generator=generator()))
        model.bias.copy_(-model.weight.sum(1) / 2)  # through the middle of the cube
        x = 0.3 + 0.4 * torch.rand(30, 20, generator=generator(1))
        y = model(x).argmax(1)
        w = model.weight[0] - model.weight[1]
        distance = (model(x)[:, 0] - model(x)[:, 1]).abs() / (w.abs().sum() if norm == "linf" else w.norm())
    found = minimal_perturbation(model, x, y, norm, generator=generator(), **options)
    assert found.success.all()
    assert (found.distance >= distance * (1 - 1e-4)).all()
    assert found.distance.tolist() == pytest.approx(distance.tolist(), rel=0.02)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_three_searches_agree_on_a_network_and_stay_in_the_range(norm: Norm):
    model, (x, y) = mlp(255.0), held_out(50, 255.0)
    found = [
        minimal_perturbation(model, x, y, norm, 0.0, 255.0, generator=generator(), **options) for options in METHODS
    ]
    right = found[0].predicted_before == y
    for each in found:
        assert each.success.all()
        assert each.perturbed.min() >= 0
        assert each.perturbed.max() <= 255
        assert (each.distance[~right] == 0).all()
        with torch.no_grad():
            assert (model(each.perturbed).argmax(1) != y).all()
    medians = [each.distance[right].median().item() for each in found]
    assert medians == pytest.approx([min(medians)] * 3, rel=0.15)
    assert medians[0] <= min(medians) * 1.02


def test_a_shorter_perturbation_along_the_same_line_is_right_again():
    model, (x, y) = mlp(), held_out(30)
    found = minimal_perturbation(model, x, y, "l2", method="deepfool")
    right = found.predicted_before == y
    shorter = found.original + 0.99 * (found.perturbed - found.original)
    with torch.no_grad():
        assert (model(shorter).argmax(1)[right] == y[right]).double().mean() > 0.9


def test_frozen_features_stay_and_others_are_measured_in_their_units():
    model, (x, y) = mlp(), held_out(20)
    scale = torch.ones(1, 8, 8)
    scale[:, :4] = 0  # the upper half may not change
    scale[:, 6:] = 2
    for options in METHODS:
        found = minimal_perturbation(model, x, y, "l2", scale=scale, generator=generator(), **options)
        assert torch.equal(found.perturbed[:, :, :4], x[:, :, :4])
        lengths = ((found.perturbed - x)[:, :, 4:] / scale[:, 4:]).flatten(1).norm(dim=1)
        assert torch.allclose(found.distance, lengths)
        assert found.success.double().mean() > 0.8


def test_a_target_is_reached():
    model, (x, y) = mlp(), held_out(20)
    for options in METHODS:
        found = minimal_perturbation(model, x, y, "l2", target=2, generator=generator(), **options)
        assert (found.predicted_after[found.success] == 2).all()
        assert found.success[(y != 2) & (found.predicted_before == y)].all()
        anything = minimal_perturbation(model, x, y, "l2", generator=generator(), **options)
        assert found.distance[found.success].median() > anything.distance.median()


def test_where_nothing_is_found_the_input_is_as_it_was():
    constant = lambda x: x.flatten(1)[:, :3] * 0 + torch.tensor([1.0, 0.0, 0.0])  # noqa: E731
    x, y = held_out(5)
    for options in METHODS:
        found = minimal_perturbation(constant, x, torch.zeros_like(y), "l2", **options)
        assert not found.success.any()
        assert torch.equal(found.perturbed, x)
        assert (found.distance == 0).all()


def test_a_threat_model_bounds_what_is_found():
    model, (x, y) = mlp(), held_out(30)
    for name in ("minimal", "deepfool"):
        threat = ThreatModel("l2", 0.3)
        found = attack(model, x, y, threat, name=name)
        assert (found.distance <= 0.3).all()
        assert 0 < found.success_rate < 1
