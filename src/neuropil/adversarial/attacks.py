"""The attacks by name, and what comes of one.

    threat = ThreatModel("linf", eps=8, high=255)
    found = attack(model, images, labels, threat, name="pgd", steps=20)
    found.robust_accuracy

Each is a function (classifier, x, y, threat, config, generator=) to perturbed inputs within the threat model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int64, Num
from torch import Tensor

from neuropil.adversarial.classifier import BATCH, Classifier, held, logits_of
from neuropil.adversarial.gradient_attack import GradientAttackConfig, gradient_attack
from neuropil.adversarial.losses import require_classes
from neuropil.adversarial.threat_model import Inputs, Labels, PerExample, ThreatModel
from neuropil.config import Config
from neuropil.errors import InputError, nearest


@dataclass(frozen=True, eq=False)
class AdversarialExamples:
    original: Inputs
    perturbed: Inputs
    """The original itself where it was misclassified already; where the attack failed, the best that it had."""
    labels: Labels
    predicted_before: Int64[Tensor, " batch"]
    predicted_after: Int64[Tensor, " batch"]
    success: Bool[Tensor, " batch"]
    """Whether the target is predicted at last, or any wrong class: also where the original was misclassified."""
    distance: PerExample
    """In the norm of the threat model."""

    @property
    def clean_accuracy(self) -> float:
        return mean(self.predicted_before == self.labels)

    @property
    def robust_accuracy(self) -> float:
        """Share of the examples that are classified rightly before and after."""
        return mean((self.predicted_before == self.labels) & (self.predicted_after == self.labels))

    @property
    def success_rate(self) -> float:
        """Of the examples that were classified rightly before; none: 0."""
        return mean(self.success[self.predicted_before == self.labels])


def mean(truths: Bool[Tensor, " some"]) -> float:
    return truths.double().mean().item() if len(truths) else 0.0


@runtime_checkable
class AttackFunction(Protocol):
    def __call__(
        self,
        classifier: Classifier,
        x: Inputs,
        y: Labels,
        threat: ThreatModel,
        config: Any,
        *,
        generator: torch.Generator | None = None,
    ) -> Inputs: ...


@dataclass(frozen=True)
class NamedAttack:
    help: str
    run: AttackFunction
    config: Config
    """Its defaults, of the type that the function takes."""


ATTACKS: dict[str, NamedAttack] = {
    "fgsm": NamedAttack(
        "fast gradient sign method: one gradient step",
        gradient_attack,
        GradientAttackConfig(steps=1, start="clean"),
    ),
    "pgd": NamedAttack(
        "projected gradient descent from random points",
        gradient_attack,
        GradientAttackConfig(),
    ),
    "momentum": NamedAttack(
        "iterated gradient steps with momentum (MI-FGSM)",
        gradient_attack,
        GradientAttackConfig(steps=10, step_size=0.1, momentum=1.0, start="clean"),
    ),
}


def attack(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    *,
    name: str = "pgd",
    batch_size: int = BATCH,
    generator: torch.Generator | None = None,
    progress: Callable[[float], object] | None = None,
    **options: Any,
) -> AdversarialExamples:
    """Attack all examples that are not misclassified already. `options` are those of the attack's configuration;
    `progress` is called with the share of the examples that are done."""
    if name not in ATTACKS:
        raise InputError("an attack must be one that is listed", got=f"{name!r}", fix=nearest(name, ATTACKS))
    config = ATTACKS[name].config.override(**options)

    def run(x: Inputs, y: Labels) -> Inputs:
        return ATTACKS[name].run(classifier, x, y, threat, config, generator=generator)

    return attack_with(run, classifier, x, y, threat, batch_size=batch_size, progress=progress)


def attack_with(
    run: Callable[[Inputs, Labels], Inputs],
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    *,
    batch_size: int = BATCH,
    progress: Callable[[float], object] | None = None,
) -> AdversarialExamples:
    """`run` perturbs examples, a batch at a time; it sees those only that are neither misclassified already nor of the
    target's own class."""
    if len(x) != len(y):
        raise InputError("there must be a label for each input", got=f"{len(y)} labels for {len(x)} inputs")
    threat.require_units(x)
    with held(classifier):
        original = x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        before = logits_of(classifier, original, batch_size)
        require_classes(before, y, threat.target)
        attackable = before.argmax(1) == y
        if threat.target is not None:
            attackable &= y != threat.target
        perturbed, after = original.clone(), before.clone()
        for done, numbers in enumerate(parts := attackable.nonzero().squeeze(1).split(batch_size)):
            if len(numbers):
                perturbed[numbers] = run(original[numbers], y[numbers])
                after[numbers] = logits_of(classifier, perturbed[numbers], batch_size)
            if progress is not None:
                progress((done + 1) / len(parts))
    return AdversarialExamples(
        original=original,
        perturbed=perturbed,
        labels=y,
        predicted_before=before.argmax(1),
        predicted_after=after.argmax(1),
        success=threat.fooled(after, y),
        distance=threat.distance(perturbed, original),
    )
