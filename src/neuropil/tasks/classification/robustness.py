"""How a classifier stands up to attacks: natural and robust risk, and accuracy over the radius of the perturbations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from neuropil.adversarial.attacks import AdversarialExamples, attack
from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.robustness import accuracy_over_eps
from neuropil.inspection.report.page import Section, percent
from neuropil.randomness import seeded
from neuropil.tasks.classification.threats import threat_model, unit_of
from neuropil.tasks.predictor import device_of

SCORED, DRAWN = 1_000, 200
"""Examples that are attacked for the risks, and for each point of a curve."""
RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""In units of ε."""
NORMS: Mapping[Norm, str] = {"linf": "L∞", "l2": "L2"}
WIDEST = 1.0
"""Of pictures: ε from black to white."""


@dataclass(frozen=True)
class RobustnessTest:
    """Examples to attack, and the training part, which has the units that ε counts in."""

    examples: Examples
    train: Examples
    norm: Norm
    eps: float
    seed: int
    target: int | None = None

    def threat(self, eps: float) -> ThreatModel:
        return threat_model(self.train, self.norm, eps, self.target, self.examples.inputs)

    def attack(
        self,
        model: nn.Module,
        name: str = "pgd",
        *,
        eps: float | None = None,
        count: int = SCORED,
        progress: Callable[[float], object] | None = None,
        **options: Any,
    ) -> AdversarialExamples:
        """The first so many examples; parts are shuffled, so that they are as good as any."""
        chosen = self.examples.take(torch.arange(min(count, len(self.examples))))
        threat, device = self.threat(self.eps if eps is None else eps), device_of(model)
        x, y, generator = chosen.inputs.to(device), chosen.targets.to(device), seeded(self.seed, "attack")
        return attack(model, x, y, threat, name=name, generator=generator, progress=progress, **options)

    def risks(self, model: nn.Module) -> dict[str, float]:
        """R(f), and R_rob(f) as far as projected gradient descent finds it: it may be higher."""
        found = self.attack(model)
        return {"natural_risk": 1 - found.clean_accuracy, "robust_risk": 1 - found.robust_accuracy}

    @property
    def radii(self) -> list[float]:
        """Of curves: ε from 0 to twice the one that was asked for."""
        radii = [factor * self.eps for factor in RADII]
        return [eps for eps in radii if eps <= WIDEST] if self.train.schema.kind == "image" else radii

    def curve(self, model: nn.Module, name: str = "pgd", **options: Any) -> list[float]:
        """The accuracy under an attack of each radius."""
        found = [self.attack(model, name, eps=eps, count=DRAWN, **options) for eps in self.radii]
        return [each.robust_accuracy for each in found]


def robustness_section(test: RobustnessTest, models: Mapping[str, nn.Module]) -> Section:
    """Of models by their names, the defended one first."""
    curves = {name: test.curve(model) for name, model in models.items()}
    at = test.radii.index(test.eps)
    reached = [f"{name} has {percent(curve[at], 1)} of {percent(curve[0], 1)}" for name, curve in curves.items()]
    unit = unit_of(test.train.schema)
    words = (
        f"Accuracy on {min(DRAWN, len(test.examples)):,} test examples that projected gradient descent has perturbed "
        f"by at most ε in the {NORMS[test.norm]} norm ({unit}). At ε = {test.eps:g}, {', '.join(reached)} without "
        "an attack. A stronger attack may find more: `neuropil attack RUN --strongest`."
    )
    figure = accuracy_over_eps(curves, test.radii, test.eps, unit)
    return Section.illustrated("Robustness", words, figure, "accuracy over the radius of the perturbations")
