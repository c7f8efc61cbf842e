"""How a classifier stands up to attacks: natural and robust risk, and accuracy over the radius of the perturbations."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from neuropil.adversarial.attacks import AdversarialExamples, AttackName, attack, minimal_perturbation
from neuropil.adversarial.classifier import held, logits_of
from neuropil.adversarial.gradient_attack import GradientAttackConfig, gradient_attack
from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.robustness import accuracy_over_eps
from neuropil.inspection.report.page import Section, percent
from neuropil.randomness import seeded
from neuropil.tasks.classification.threats import FeatureUnits, threat_model, unit_of
from neuropil.tasks.predictor import device_of

SCORED, DRAWN = 1_000, 200
"""Examples that are attacked for the risks, and for each point of a curve."""
TIMED, TIMED_STEPS = 64, 3
"""Examples and steps by which the time of an attack is told."""
RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""In units of ε."""
NORMS: Mapping[Norm, str] = {"linf": "L∞", "l2": "L2"}
WIDEST = 1.0
"""L∞ of pictures: ε from black to white."""


@dataclass(frozen=True)
class RobustnessTest:
    """Examples to attack, and of tables the units that ε counts in."""

    examples: Examples
    units: FeatureUnits | None
    norm: Norm
    eps: float
    seed: int
    target: int | None = None

    def threat(self, eps: float) -> ThreatModel:
        """Examples may lie beyond the range of the training part."""
        found = threat_model(self.examples, self.units, self.norm, eps, self.target)
        return found if self.units is None else found.including(self.examples.inputs)

    def attack(
        self,
        model: nn.Module,
        name: AttackName = "pgd",
        *,
        eps: float | None = None,
        count: int = SCORED,
        progress: Callable[[float], object] | None = None,
        **options: Any,
    ) -> AdversarialExamples:
        threat = self.threat(self.eps if eps is None else eps)
        return attack(model, *self.first(count, model), threat, name=name, **self._shown(progress), **options)

    def minimal(
        self,
        model: nn.Module,
        name: AttackName = "minimal",
        *,
        count: int = SCORED,
        progress: Callable[[float], object] | None = None,
        **options: Any,
    ) -> AdversarialExamples:
        """The smallest perturbations that change the class, however large they are."""
        threat = self.threat(self.eps)
        limits = {"low": threat.low, "high": threat.high, "target": self.target, "scale": threat.scale}
        shown = self._shown(progress)
        return minimal_perturbation(
            model, *self.first(count, model), self.norm, **limits, name=name, **shown, **options
        )

    def first(self, count: int, model: nn.Module) -> tuple[Tensor, Tensor]:
        """Parts are shuffled, so that the first examples are as good as any."""
        chosen, device = self.examples.take(torch.arange(min(count, len(self.examples)))), device_of(model)
        return chosen.inputs.to(device), chosen.targets.to(device)

    def _shown(self, progress: Callable[[float], object] | None) -> dict[str, Any]:
        return {"generator": seeded(self.seed, "attack"), "progress": progress}

    def risks(self, model: nn.Module) -> dict[str, float]:
        """R(f), and R_rob(f) as far as projected gradient descent finds it: it may be higher."""
        found = self.attack(model)
        return {"natural_risk": 1 - found.clean_accuracy, "robust_risk": 1 - found.robust_accuracy}

    def seconds(self, model: nn.Module) -> float:
        """About how long the risks and the curve of a model take that withstands every step, by a few of them."""
        config, x = GradientAttackConfig(), self.first(TIMED, model)[0]
        few = replace(config, steps=TIMED_STEPS, early_stopping=False)
        with held(model):
            y = logits_of(model, x.float()).argmax(1)
        began = time.monotonic()
        gradient_attack(model, x, y, self.threat(self.eps), few)
        step = (time.monotonic() - began) / (TIMED_STEPS * len(x))
        total, steps = len(self.examples), config.restarts * config.steps
        return step * steps * (min(SCORED, total) + len(self.radii) * min(DRAWN, total))

    @property
    def radii(self) -> list[float]:
        """Of curves: ε from 0 to twice the one that was asked for."""
        radii = [factor * self.eps for factor in RADII]
        limited = self.examples.schema.kind == "image" and self.norm == "linf"
        return [eps for eps in radii if eps <= WIDEST] if limited else radii

    def curve(
        self,
        model: nn.Module,
        name: AttackName = "pgd",
        *,
        progress: Callable[[float], object] | None = None,
        **options: Any,
    ) -> list[float]:
        """The accuracy under an attack of each radius."""
        found, radii = [], self.radii
        for done, eps in enumerate(radii):
            found.append(self.attack(model, name, eps=eps, count=DRAWN, **options).robust_accuracy)
            if progress is not None:
                progress((done + 1) / len(radii))
        return found


def robustness_section(test: RobustnessTest, models: Mapping[str, nn.Module]) -> Section:
    """Of models by their names, the defended one first."""
    curves = {name: test.curve(model) for name, model in models.items()}
    at = test.radii.index(test.eps)
    reached = [f"{name} has {percent(curve[at], 1)} of {percent(curve[0], 1)}" for name, curve in curves.items()]
    unit = unit_of(test.examples.schema)
    words = (
        f"Accuracy on {min(DRAWN, len(test.examples)):,} test examples that projected gradient descent has perturbed "
        f"by at most ε in the {NORMS[test.norm]} norm ({unit}). At ε = {test.eps:g}, {', '.join(reached)} without "
        "an attack. A stronger attack may find more: `neuropil attack RUN --strongest`."
    )
    figure = accuracy_over_eps(curves, test.radii, test.eps, unit)
    return Section.illustrated("Robustness", words, figure, "accuracy over the radius of the perturbations")
