"""PGD on small CNNs beside foolbox and beside a plain loop, as torchattacks writes it: pictures × steps per second.

Goal: 1.3 times as many as either. Nobody stops early, and all take the same steps from the same start; the last line
says what stopping early is worth.
"""

import copy
import statistics
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.timing import alternate, ratio
from neuropil.adversarial.attacks import attack
from neuropil.adversarial.gradient_attack import GradientAttackConfig, gradient_attack
from neuropil.adversarial.threat_model import ThreatModel
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.randomness import initialised, seeded

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports what SciPy deprecates
    foolbox: Any = import_module("foolbox")

ROUNDS, STEPS, PICTURES = 7, 10, 256
EPS, STEP_SIZE = 0.1, 0.25


def plain() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )


def residual() -> nn.Module:
    return CNN(CNNConfig(width=16, shape=(1, 28, 28), classes=10))


def plain_loop(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """What a user would write."""
    perturbed = x.clone().detach()
    for _ in range(STEPS):
        perturbed.requires_grad = True
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(perturbed), y), perturbed)
        perturbed = perturbed.detach() + STEP_SIZE * EPS * gradient.sign()
        delta = torch.clamp(perturbed - x, min=-EPS, max=EPS)
        perturbed = torch.clamp(x + delta, min=0, max=1).detach()
    return perturbed


def compare(name: str, build: Callable[[], nn.Module]) -> None:
    model = initialised(build, seed=0).eval()
    x = torch.rand(PICTURES, 1, 28, 28, generator=seeded(0))
    with torch.no_grad():
        y = model(x).argmax(1)
    config = GradientAttackConfig(steps=STEPS, step_size=STEP_SIZE, start="clean", early_stopping=False)
    threat = ThreatModel("linf", EPS)
    theirs = foolbox.PyTorchModel(copy.deepcopy(model), bounds=(0, 1), device="cpu")
    their_pgd = foolbox.attacks.LinfPGD(rel_stepsize=STEP_SIZE, steps=STEPS, random_start=False)
    work = {
        "neuropil": lambda: gradient_attack(model, x, y, threat, config),
        "foolbox": lambda: their_pgd.run(theirs, x, foolbox.criteria.Misclassification(y), epsilon=EPS),
        "plain loop": lambda: plain_loop(model, x, y),
        "neuropil, stopping early": lambda: attack(
            model, x, y, threat, steps=STEPS, step_size=STEP_SIZE, start="clean"
        ),
    }
    seconds = alternate(work, ROUNDS)
    speed = PICTURES * STEPS / statistics.median(seconds["neuropil"])
    print(f"{name}: {speed:,.0f} pictures × steps per second")
    for peer in list(work)[1:]:
        print(f"  {peer} / neuropil, in time: {ratio(seconds[peer], seconds['neuropil'])}")


def main() -> None:
    compare("two convolutions", plain)
    compare("neuropil's CNN of width 16", residual)


if __name__ == "__main__":
    main()
