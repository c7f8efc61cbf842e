"""Training against attacks: a wrapper around the learner of any classifier.

    R(f) = P[f(x) ≠ y]                                    natural risk
    R_rob(f) = P[∃ x' ∈ B(x, ε): f(x') ≠ y]               robust risk

    adversarial training     min_θ E[ max_{x' ∈ B(x, ε)} L(f(x'), y) ]                         Madry 2018
    TRADES, two classes      min_θ E[ φ(y f(x)) + max_{x'} φ(β f(x) f(x')) ]                   Zhang 2019
    TRADES                   min_θ E[ L(f(x), y) + β max_{x'} KL(p(x) ‖ p(x')) ]

with y = ±1, f = z₁ − z₀ and the logistic surrogate φ(m) = ln(1 + e^{−m}) for two classes, and p = softmax(z) for any
number. The right label is needed by the first term only: the second asks that the answer, whatever it is, does not
change within the ball. β weighs robustness against accuracy. The inner maximum is that of a gradient attack.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.adversarial.classifier import held, logits_of
from neuropil.adversarial.gradient_attack import GradientAttackConfig, gradient_attack
from neuropil.adversarial.losses import Loss
from neuropil.adversarial.threat_model import Inputs, Norm, ThreatModel
from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.protocols import Batch, Learner, PenalizedLearner, Phase, ReplicatedState, StatefulLearner
from neuropil.randomness import seeded

DefenceName: TypeAlias = Literal["none", "adversarial", "trades", "binary_trades"]
Logits: TypeAlias = Float[Tensor, "batch class"]
PerExample: TypeAlias = Float[Tensor, " batch"]


class DefenceConfig(Config):
    defence: DefenceName = option(
        "none", "training against attacks: none, adversarial (training), trades, or binary_trades for two classes"
    )
    norm: Norm = option("linf", "norm of the perturbations: linf or l2")
    eps: float = option(
        0.1, "radius ε of the perturbations: pixels from 0 to 1, or standard deviations of columns", above=0
    )
    beta: float = option(6.0, "β of TRADES: weight of robustness against accuracy", low=0)
    attack_steps: int = option(10, "gradient steps of the inner maximisation", low=1)
    step_size: float = option(0.25, "size of these steps, in units of ε", above=0)
    eps_warmup: float = option(0.3, "share of the run in which ε grows from 0", low=0, high=1)

    @property
    def attack(self) -> GradientAttackConfig:
        return GradientAttackConfig(steps=self.attack_steps, step_size=self.step_size, early_stopping=False)


# --- losses -----------------------------------------------------------------------------------------------------------


def divergence(perturbed: Logits, probabilities: Logits) -> PerExample:
    """KL(p(x) ‖ p(x')), of logits of x' and p(x)."""
    return F.kl_div(perturbed.log_softmax(-1), probabilities, reduction="none").sum(-1)


def signed_margin(logits: Logits) -> PerExample:
    """f = z₁ − z₀, whose sign is the class."""
    if logits.shape[-1] != 2:
        rule, fix = "binary_trades is for two classes", "take trades"
        raise InputError(rule, got=f"{logits.shape[-1]}", fix=fix)
    return logits[..., 1] - logits[..., 0]


def trades_loss(logits: Logits, perturbed: Logits, y: Int64[Tensor, " batch"], beta: float) -> PerExample:
    # L(f(x), y) + β KL(p(x) ‖ p(x'))
    return F.cross_entropy(logits, y, reduction="none") + beta * divergence(perturbed, logits.softmax(-1))


def binary_trades_loss(logits: Logits, perturbed: Logits, y: Int64[Tensor, " batch"], beta: float) -> PerExample:
    # φ(y f(x)) + φ(β f(x) f(x')),   φ(m) = ln(1 + e^{−m})
    clean, moved = signed_margin(logits), signed_margin(perturbed)
    return F.softplus(-(2 * y - 1) * clean) + F.softplus(-beta * clean * moved)


# --- the learner ------------------------------------------------------------------------------------------------------


class DefendedLearner:
    """A learner whose examples are attacked before it learns from them: in adversarial training it is given the
    attacked ones, in TRADES the two terms take the place of its loss, and without a defence nothing changes but that
    the accuracy on attacked examples is measured too."""

    def __init__(self, learner: Learner, threat: ThreatModel, config: DefenceConfig):
        self.learner, self.threat, self.config = learner, threat, config
        self.reached = 0.0 if config.eps_warmup else 1.0
        """Share of ε, while it grows."""

    @property
    def model(self) -> nn.Module:
        return self.learner.model

    def begin_update(self, share: float) -> None:
        self.reached = min(1.0, share / self.config.eps_warmup) if self.config.eps_warmup else 1.0

    def phases(self) -> Sequence[Phase]:
        (phase,) = self.learner.phases()
        if self.config.defence == "none":
            return [phase]
        if self.config.defence == "adversarial":
            return [replace(phase, loss=lambda batch: phase.loss({**batch, "input": self.attacked(batch)}))]
        return [replace(phase, loss=self.trades)]

    def trades(self, batch: Batch) -> Float[Tensor, ""]:
        x, y, beta = batch["input"], batch["target"], self.config.beta
        perturbed = self.attacked(batch)
        loss = trades_loss if self.config.defence == "trades" else binary_trades_loss
        return loss(self.model(x), self.model(perturbed), y, beta).mean()

    def attacked(self, batch: Batch) -> Inputs:
        """The inner maximum over the ball that is reached by now."""
        threat = replace(self.threat, eps=self.reached * self.threat.eps)
        x, (loss, known) = batch["input"], self._inner(batch)
        return gradient_attack(self.model, x, known, threat, self.config.attack, loss=loss)

    def _inner(self, batch: Batch) -> tuple[Loss, Tensor]:
        """What the attack makes large, and what it needs to know of each example."""
        if self.config.defence == "adversarial":
            return categorical_cross_entropy, batch["target"]
        with held(self.model):
            logits = logits_of(self.model, batch["input"].float())
        if self.config.defence == "trades":
            return divergence, logits.softmax(-1)
        # φ(β f(x) f(x')) falls with f(x) f(x'): the answer is pushed to the other side, whatever β
        return lambda moved, clean: -clean * signed_margin(moved), signed_margin(logits)

    def metrics(self, batch: Batch) -> Mapping[str, Tensor]:
        """The learner's own, of clean examples, and the accuracy on attacked ones, at the whole ε."""
        attack = replace(self.config.attack, early_stopping=True)
        with held(self.model):
            x, y = batch["input"], batch["target"]
            threat = self.threat.including(x)  # held-out rows may lie beyond the range of the training part
            moved = gradient_attack(self.model, x, y, threat, attack, generator=seeded("robust"))
            right = logits_of(self.model, moved).argmax(-1) == y
        return {**self.learner.metrics(batch), "robust_accuracy": right.to(torch.float)}

    @property
    def l1(self) -> float:
        return self.learner.l1 if isinstance(self.learner, PenalizedLearner) else 0.0

    @property
    def replicated_state(self) -> Collection[str]:
        return self.learner.replicated_state if isinstance(self.learner, ReplicatedState) else ()

    def state_dict(self) -> Mapping[str, Tensor]:
        return self.learner.state_dict() if isinstance(self.learner, StatefulLearner) else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if isinstance(self.learner, StatefulLearner):
            self.learner.load_state_dict(state)
