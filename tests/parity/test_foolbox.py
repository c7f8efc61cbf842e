"""Attacks beside foolbox, on the same classifier and digits.

Single steps agree within 1e-6 of the range, as do most pictures after ten L∞ steps from the same start (a gradient that
is 0 up to rounding has any sign). Of L2 steps we clip to the range before the ball and foolbox after it, so that paths
part; success is compared. Minimal L2 norms are no larger than the smallest that any of foolbox's attacks finds, in the
median, and L∞ norms no larger by more than one percent.
"""

import copy
import warnings
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from digit_classifiers import cnn, held_out
from neuropil.adversarial.attacks import attack, minimal_perturbation
from neuropil.adversarial.gradient_attack import GradientAttackConfig, gradient_attack
from neuropil.adversarial.threat_model import Norm, ThreatModel

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports what SciPy deprecates
    foolbox: Any = import_module("foolbox")

EPS: dict[Norm, float] = {"linf": 0.1, "l2": 0.7}


def rightly_classified(count: int) -> tuple[Tensor, Tensor]:
    x, y = held_out(count)
    with torch.no_grad():
        right = cnn()(x).argmax(1) == y
    return x[right], y[right]


@pytest.fixture
def theirs() -> Any:
    """A copy, since foolbox leaves gradients in the parameters."""
    model: nn.Module = copy.deepcopy(cnn())
    return foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")


def run(theirs: Any, attack: Any, x: Tensor, y: Tensor, eps: float | None, target: int | None = None) -> Tensor:
    criterion = foolbox.criteria.Misclassification(y)
    if target is not None:
        criterion = foolbox.criteria.TargetedMisclassification(torch.full_like(y, target))
    return attack(theirs, x, criterion, epsilons=eps)[1]


class Tempered(nn.Module):
    """Where a network is sure of a class, its gradient y − t is what rounding leaves of 1 − 1, and a step along g / |g|
    makes a picture of that. With logits of this temperature it is unsure of every picture."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x) / 20


SINGLE_STEPS: dict[Norm, Any] = {
    "linf": foolbox.attacks.LinfFastGradientAttack,
    "l2": foolbox.attacks.L2FastGradientAttack,
}
PGD: dict[Norm, Any] = {
    "linf": foolbox.attacks.LinfProjectedGradientDescentAttack,
    "l2": foolbox.attacks.L2ProjectedGradientDescentAttack,
}


@pytest.mark.parametrize("target", [None, 3])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_is_theirs(norm: Norm, target: int | None):
    theirs = foolbox.PyTorchModel(Tempered(copy.deepcopy(cnn())), bounds=(0, 1), device="cpu")
    x, y = rightly_classified(200)
    config = GradientAttackConfig(steps=1, start="clean", early_stopping=False)
    found = gradient_attack(Tempered(cnn()), x, y, ThreatModel(norm, EPS[norm], target=target), config)
    # with a target, foolbox has no single step, but PGD of one
    step = (
        PGD[norm](rel_stepsize=1.0, steps=1, random_start=False) if target else SINGLE_STEPS[norm](random_start=False)
    )
    assert (found - run(theirs, step, x, y, EPS[norm], target)).abs().max() <= 1e-6


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_pgd_fools_as_many_in_as_many_steps(theirs: Any, norm: Norm):
    x, y = rightly_classified(400)
    model, threat = cnn(), ThreatModel(norm, EPS[norm])
    options: dict[str, Any] = {"steps": 10, "step_size": 0.25, "early_stopping": False}
    found = attack(model, x, y, threat, start="clean", **options)
    expected = run(theirs, PGD[norm](rel_stepsize=0.25, steps=10, random_start=False), x, y, EPS[norm])
    with torch.no_grad():
        fooled = (model(expected).argmax(1) != y).double().mean().item()
    assert 0.1 < fooled < 0.95
    assert found.success_rate == pytest.approx(fooled, abs=0.005)
    if norm == "linf":
        assert (found.perturbed - expected).abs().flatten(1).amax(1).median() <= 1e-6
    # early stopping counts every point on the way
    assert attack(model, x, y, threat, start="clean", steps=10, step_size=0.25).success_rate >= fooled


def test_minimal_l2_norms_are_no_larger_than_the_smallest_of_theirs(theirs: Any):
    x, y = rightly_classified(60)
    found = minimal_perturbation(cnn(), x, y, "l2")
    assert found.success.all()
    for peer in (
        foolbox.attacks.DDNAttack(steps=100),
        foolbox.attacks.L2DeepFoolAttack(),
        foolbox.attacks.L2FMNAttack(steps=100),
        foolbox.attacks.L2CarliniWagnerAttack(binary_search_steps=5, steps=60, stepsize=0.05, initial_const=1.0),
    ):
        lengths = (run(theirs, peer, x, y, None) - x).flatten(1).norm(dim=1)
        assert found.distance.median() <= lengths.median(), peer


def test_minimal_linf_norms_are_those_of_theirs_within_a_percent(theirs: Any):
    x, y = rightly_classified(60)
    found = minimal_perturbation(cnn(), x, y, "linf")
    for peer in (foolbox.attacks.LInfFMNAttack(steps=100), foolbox.attacks.LinfDeepFoolAttack()):
        lengths = (run(theirs, peer, x, y, None) - x).flatten(1).abs().amax(1)
        assert found.distance.median() <= 1.01 * lengths.median(), peer
