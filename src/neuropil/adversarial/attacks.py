"""The attacks by name, and what comes of one.

    threat = ThreatModel("linf", eps=8, high=255)
    found = attack(model, images, labels, threat, name="pgd", steps=20)
    found.robust_accuracy

Each is a function (classifier, x, y, threat, config, generator=) to perturbed inputs within the threat model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Int64, Num
from torch import Tensor

from neuropil.adversarial.auto_pgd import AutoPGDConfig, TargetedAutoPGDConfig, auto_pgd, targeted_auto_pgd
from neuropil.adversarial.classifier import BATCH, Classifier, held, logits_of
from neuropil.adversarial.gradient_attack import GradientAttackConfig, attack_loss, gradient_attack
from neuropil.adversarial.losses import require_classes
from neuropil.adversarial.minimal import MinimalConfig, largest, minimal_attack
from neuropil.adversarial.square import SquareConfig, square_attack
from neuropil.adversarial.threat_model import Inputs, Labels, Norm, PerExample, ThreatModel, per_example
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


class Stage(NamedTuple):
    run: AttackFunction
    config: Config
    """Its defaults, of the type that the function takes."""


@dataclass(frozen=True)
class NamedAttack:
    help: str
    stages: tuple[Stage, ...]
    """In turn, each on the examples that none before it has fooled."""

    def override(self, **options: Any) -> "NamedAttack":
        """Each option goes to the stages that know it."""
        known = [{option.name for option in stage.config.options()} for stage in self.stages]
        for name in options:
            if not any(name in names for names in known):
                every = dict.fromkeys(each for names in known for each in sorted(names))
                raise InputError("an option must be one of the attack's", got=f"{name!r}", fix=nearest(name, every))
        stages = (
            Stage(stage.run, stage.config.override(**{name: options[name] for name in options if name in names}))
            for stage, names in zip(self.stages, known, strict=True)
        )
        return NamedAttack(self.help, tuple(stages))


AttackName: TypeAlias = Literal[
    "fgsm",
    "pgd",
    "momentum",
    "apgd_ce",
    "apgd_dlr",
    "apgd_targeted",
    "square",
    "minimal",
    "deepfool",
    "bisection",
    "strongest",
]
SMALLEST: tuple[AttackName, ...] = ("minimal", "deepfool", "bisection")
"""Searches for the smallest perturbation, in which ε is only a limit."""

APGD_CE = Stage(auto_pgd, AutoPGDConfig())
APGD_DLR = Stage(auto_pgd, AutoPGDConfig(loss="dlr"))
APGD_TARGETED = Stage(targeted_auto_pgd, TargetedAutoPGDConfig())
BOUNDARY = Stage(minimal_attack, MinimalConfig())
SQUARE = Stage(square_attack, SquareConfig())

ATTACKS: dict[str, NamedAttack] = {
    "fgsm": NamedAttack(
        "fast gradient sign method: one gradient step",
        (Stage(gradient_attack, GradientAttackConfig(steps=1, start="clean")),),
    ),
    "pgd": NamedAttack(
        "projected gradient descent from random points",
        (Stage(gradient_attack, GradientAttackConfig()),),
    ),
    "momentum": NamedAttack(
        "iterated gradient steps with momentum (MI-FGSM)",
        (Stage(gradient_attack, GradientAttackConfig(steps=10, step_size=0.1, momentum=1.0, start="clean")),),
    ),
    "apgd_ce": NamedAttack("Auto-PGD on cross-entropy", (APGD_CE,)),
    "apgd_dlr": NamedAttack("Auto-PGD on the difference-of-logits ratio", (APGD_DLR,)),
    "apgd_targeted": NamedAttack("Auto-PGD towards each of the most likely wrong classes", (APGD_TARGETED,)),
    "square": NamedAttack("random search that needs no gradients (Square)", (SQUARE,)),
    "minimal": NamedAttack("smallest perturbation, along the boundary (DDN, FMN)", (BOUNDARY,)),
    "deepfool": NamedAttack(
        "smallest perturbation, to the nearest linearised boundary (DeepFool)",
        (Stage(minimal_attack, MinimalConfig(method="deepfool", steps=50)),),
    ),
    "bisection": NamedAttack(
        "smallest perturbation, by bisection of eps with PGD",
        (Stage(minimal_attack, MinimalConfig(method="bisection", steps=20)),),
    ),
    "strongest": NamedAttack(
        "all that is strong, in turn: Auto-PGD on cross-entropy and towards targets, the boundary search, and Square",
        # targeted Auto-PGD and Square with half of the papers' steps and queries
        (
            APGD_CE,
            Stage(targeted_auto_pgd, TargetedAutoPGDConfig(steps=50)),
            BOUNDARY,
            Stage(square_attack, SquareConfig(queries=2500)),
        ),
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
    `progress` is called with the share that is done."""
    if name not in ATTACKS:
        raise InputError("an attack must be one that is listed", got=f"{name!r}", fix=nearest(name, ATTACKS))
    stages = ATTACKS[name].override(**options).stages
    if len(x) != len(y):
        raise InputError("there must be a label for each input", got=f"{len(y)} labels for {len(x)} inputs")
    threat.require_units(x)
    with held(classifier):
        original = x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        before = logits_of(classifier, original, batch_size)
        require_classes(before, y, threat.target)
        left = before.argmax(1) == y if threat.target is None else (before.argmax(1) == y) & (y != threat.target)
        perturbed, after, loss = original.clone(), before.clone(), attack_loss(threat, "margin")
        for number, (run, config) in enumerate(stages):
            parts = left.nonzero().squeeze(1).split(batch_size)
            for done, numbers in enumerate(parts if left.any() else ()):
                found = run(classifier, original[numbers], y[numbers], threat, config, generator=generator)
                logits = logits_of(classifier, found, batch_size)
                # of what fools nobody, that which comes nearest to it
                better = (loss(logits, y[numbers]) > loss(after[numbers], y[numbers])) | threat.fooled(
                    logits, y[numbers]
                )
                perturbed[numbers[better]], after[numbers[better]] = found[better], logits[better]
                if progress is not None:
                    progress((number + (done + 1) / len(parts)) / len(stages))
            left &= ~threat.fooled(after, y)
    return AdversarialExamples(
        original=original,
        perturbed=perturbed,
        labels=y,
        predicted_before=before.argmax(1),
        predicted_after=after.argmax(1),
        success=threat.fooled(after, y),
        distance=threat.distance(perturbed, original),
    )


def minimal_perturbation(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    norm: Norm,
    low: float | Tensor = 0.0,
    high: float | Tensor = 1.0,
    *,
    target: int | None = None,
    scale: Tensor | None = None,
    name: str = "minimal",
    **options: Any,
) -> AdversarialExamples:
    """The smallest perturbations that change the class, however large, by `minimal`, `deepfool` or `bisection`;
    `options` are those of `attack` and of `MinimalConfig`. Without success, an input is as it was."""
    anything = ThreatModel(norm, 0.0, low, high, target, scale)
    found = attack(classifier, x, y, replace(anything, eps=largest(anything, x)), name=name, **options)
    perturbed = torch.where(per_example(found.success, found.original), found.perturbed, found.original)
    return replace(found, perturbed=perturbed, distance=anything.distance(perturbed, found.original))
