"""Gradient attacks: climb the loss within the ball. One algorithm with four holes: loss × step × start × projection.

    x₀ = x, or uniform in the ball
    g ← μ g + ∇_x L(f(x_k), y) / ‖∇_x L‖₁                      without momentum: g = ∇_x L
    x_{k+1} = Π(x_k + α ε d(g))                                d(g) = sign(g) for L∞,  g / ‖g‖₂ for L2

    FGSM        one step with α = 1 from x                     Goodfellow 2015
    PGD         many steps from a random point, restarted      Madry 2018
    MI-FGSM     with momentum μ = 1                            Dong 2018

With a target t the loss is −L(f(x), t). It is also the inner maximisation of adversarial training.
"""

from typing import Literal

import torch
from jaxtyping import Num, Shaped
from torch import Tensor

from neuropil.adversarial.classifier import Classifier, held, input_gradient, logits_of
from neuropil.adversarial.losses import LOSSES, Loss, LossName
from neuropil.adversarial.threat_model import Ball, Inputs, PerExample, ThreatModel, per_example
from neuropil.config import Config, option

StartName = Literal["clean", "random"]


class GradientAttackConfig(Config):
    steps: int = option(40, "gradient steps", low=1)
    step_size: float | None = option(None, "step size in units of eps; none: 2.5 / steps, at most 1", above=0)
    restarts: int = option(1, "restarts; all after the first begin at random points of the ball", low=1)
    momentum: float = option(0.0, "momentum: decay factor of the accumulated gradient (MI-FGSM)", low=0)
    start: StartName = option("random", "starting point: clean (the input itself) or random (uniform in the ball)")
    loss: LossName = option("cross_entropy", "loss to make large: cross_entropy, margin, dlr or tempered")
    early_stopping: bool = option(True, "stop at the first misclassified point of an example")

    @property
    def relative_step(self) -> float:
        return min(1.0, 2.5 / self.steps) if self.step_size is None else self.step_size


def gradient_attack(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Shaped[Tensor, "batch *known"],
    threat: ThreatModel,
    config: GradientAttackConfig,
    *,
    loss: Loss | None = None,
    generator: torch.Generator | None = None,
) -> Inputs:
    """Perturbed inputs, in float32 (or float64, if x is). `loss` is used in place of the named one; y is then whatever
    it needs to know of each example, and without early stopping need not be classes."""
    value = attack_loss(threat, config.loss) if loss is None else loss
    with held(classifier, channels_last=True):
        ball = threat.ball(x)
        found, highest = ball.original.clone(), ball.original.new_full((len(ball),), -torch.inf)
        left = torch.arange(len(ball), device=found.device)  # the examples that are not fooled yet
        for restart in range(config.restarts):
            random = restart > 0 or config.start == "random"
            start = (ball.uniform(generator) if random else ball.original)[left]
            climb = Climb(ball.select(left), start, y[left], left)
            for _ in range(config.steps):
                if not len(climb.x):
                    break
                logits, _, gradient = input_gradient(classifier, climb.x, climb.y, value)
                if config.early_stopping and (fooled := threat.fooled(logits, climb.y)).any():
                    found[climb.numbers[fooled]] = climb.x[fooled]
                    climb.keep(~fooled)
                    gradient = gradient[~fooled]
                climb.step_(gradient, config)
            left = climb.numbers
            if config.restarts == 1:
                found[left] = climb.x
            elif len(left):
                # of several restarts, the end with the highest loss; what is fooled there is done
                logits = logits_of(classifier, climb.x, len(climb.x))
                reached: PerExample = value(logits, climb.y)
                better = reached > highest[left]
                found[left[better]], highest[left[better]] = climb.x[better], reached[better]
                if config.early_stopping:
                    fooled = threat.fooled(logits, climb.y)
                    found[left[fooled]] = climb.x[fooled]
                    left = left[~fooled]
    return found


def attack_loss(threat: ThreatModel, name: LossName) -> Loss:
    """Of logits and right classes: large where the attacker has what they want."""
    loss = LOSSES[name]
    return loss if threat.target is None else lambda logits, y: -loss(logits, threat.goal(y))


class Climb:
    """Where the examples are that are still attacked; `numbers` says which of the batch they are."""

    def __init__(self, ball: Ball, x: Inputs, y: Tensor, numbers: Tensor):
        self.ball = ball
        self.x = x
        self.y = y
        self.numbers = numbers
        self.velocity: Tensor | None = None

    def keep(self, chosen: Tensor) -> None:
        self.ball, self.x = self.ball.select(chosen), self.x[chosen]
        self.y, self.numbers = self.y[chosen], self.numbers[chosen]
        if self.velocity is not None:
            self.velocity = self.velocity[chosen]

    def step_(self, gradient: Inputs, config: GradientAttackConfig) -> None:
        if config.momentum:
            # g ← μ g + ∇L / ‖∇L‖₁
            total = gradient.flatten(1).abs().sum(1)
            gradient.mul_(per_example(torch.where(total > 0, 1 / total, 0), gradient))
            if self.velocity is not None:
                gradient.add_(self.velocity, alpha=config.momentum)
            self.velocity = gradient.clone()
        # x ← Π(x + α ε d(g))
        self.x.add_(self.ball.steepest_(gradient), alpha=config.relative_step * self.ball.eps)
        self.ball.project_(self.x)
