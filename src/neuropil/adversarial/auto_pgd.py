"""Auto-PGD: gradient ascent within the ball that finds its step size itself (Croce and Hein 2020).

    z       = Π(x_k + η d(∇L(x_k)))                                       d: sign for L∞, direction for L2
    x_{k+1} = Π(x_k + α (z − x_k) + (1 − α) (x_k − x_{k−1}))              α = 0.75; in the first step 1

η begins at 2 ε. At each checkpoint it is halved, and the ascent goes on from the best point so far, for an example of
which, since the checkpoint before,

    1. the loss grew in less than ρ = 0.75 of the steps, or
    2. neither was η halved then, nor has the highest loss grown.

Checkpoints are at the shares p_{j+1} = p_j + max(p_j − p_{j−1} − 0.03, 0.06) of the steps, with p₀ = 0 and p₁ = 0.22:
the ascent explores first and then refines. The targeted version climbs the targeted difference-of-logits ratio of each
of the most likely wrong classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64, Num, Shaped
from torch import Tensor

from neuropil.adversarial.classifier import Classifier, held, input_gradient, logits_of
from neuropil.adversarial.gradient_attack import attack_loss
from neuropil.adversarial.losses import Loss, targeted_difference_of_logits_ratio
from neuropil.adversarial.threat_model import Ball, Inputs, Labels, PerExample, ThreatModel, per_example
from neuropil.config import Config, option

ALPHA, RHO = 0.75, 0.75


class AutoPGDConfig(Config):
    steps: int = option(100, "gradient steps", low=1)
    restarts: int = option(1, "restarts at random points of the ball", low=1)
    loss: Literal["cross_entropy", "dlr"] = option("cross_entropy", "loss to make large: cross_entropy or dlr")


class TargetedAutoPGDConfig(Config):
    steps: int = option(100, "gradient steps", low=1)
    restarts: int = option(1, "restarts at random points of the ball, for each target", low=1)
    targets: int = option(9, "number of wrong classes to aim at, the most likely first", low=1)


def auto_pgd(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    config: AutoPGDConfig,
    *,
    generator: torch.Generator | None = None,
) -> Inputs:
    """A point at which each example is misclassified, or else that of the highest loss in the last ascent."""
    if config.loss == "dlr" and threat.target is not None:
        ascents = [(torch.stack([y, threat.goal(y)], 1), towards_target)]
    else:
        ascents = [(y, attack_loss(threat, config.loss))]
    return ascend_in_turn(classifier, x, y, threat, ascents * config.restarts, config.steps, generator)


def targeted_auto_pgd(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    config: TargetedAutoPGDConfig,
    *,
    generator: torch.Generator | None = None,
) -> Inputs:
    """Towards each of the most likely wrong classes in turn; towards one only, if the threat model has a target."""
    with held(classifier):
        likely = (
            logits_of(classifier, threat.ball(x).original)
            .scatter(1, y[:, None], -torch.inf)
            .argsort(1, descending=True)
        )
    classes = (
        likely[:, : min(config.targets, likely.shape[1] - 1)] if threat.target is None else threat.goal(y)[:, None]
    )
    ascents = [
        (torch.stack([y, target], 1), towards_target) for target in classes.unbind(1) for _ in range(config.restarts)
    ]
    return ascend_in_turn(classifier, x, y, threat, ascents, config.steps, generator)


def ascend_in_turn(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    ascents: Sequence[tuple[Shaped[Tensor, "batch *known"], Loss]],
    steps: int,
    generator: torch.Generator | None,
) -> Inputs:
    """Each ascent is what its loss needs to know of the examples, and the loss; those that one has fooled rest."""
    with held(classifier, channels_last=True):
        ball = threat.ball(x)
        found, left = ball.original.clone(), torch.arange(len(ball), device=ball.original.device)
        for known, loss in ascents:
            start = ball.uniform(generator)
            if len(left):
                found[left], fooled = ascend(
                    classifier, ball.select(left), start[left], y[left], known[left], threat, loss, steps
                )
                left = left[~fooled]
    return found


def towards_target(
    logits: Float[Tensor, "batch class"], classes: Int64[Tensor, "batch right_and_target"]
) -> PerExample:
    return targeted_difference_of_logits_ratio(logits, classes[:, 0], classes[:, 1])


@dataclass
class Ascent:
    """All that is known of the examples that are not fooled yet, the example first in every tensor."""

    numbers: Int64[Tensor, " batch"]
    y: Labels
    known: Shaped[Tensor, "batch *known"]
    x: Inputs
    before: Inputs
    gradient: Inputs
    loss: PerExample
    eta: PerExample
    grew: PerExample
    """In how many steps since the checkpoint the loss did."""
    best_x: Inputs
    best_gradient: Inputs
    best_loss: PerExample
    loss_at_checkpoint: PerExample
    halved: Bool[Tensor, " batch"]

    def keep(self, chosen: Bool[Tensor, " batch"]) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[chosen])


def ascend(
    classifier: Classifier,
    ball: Ball,
    start: Inputs,
    y: Labels,
    known: Shaped[Tensor, "batch *known"],
    threat: ThreatModel,
    loss: Loss,
    steps: int,
) -> tuple[Inputs, Bool[Tensor, " batch"]]:
    """The points that were found, and which of them fool the classifier."""
    found, fooled = start.clone(), torch.zeros_like(y, dtype=torch.bool)
    logits, values, gradient = input_gradient(classifier, start, known, loss)
    state = Ascent(
        numbers=torch.arange(len(y), device=y.device),
        y=y,
        known=known,
        x=start,
        before=start,
        gradient=gradient,
        loss=values,
        eta=torch.full_like(values, 2 * ball.eps),
        grew=torch.zeros_like(values),
        best_x=start.clone(),
        best_gradient=gradient.clone(),
        best_loss=values.clone(),
        loss_at_checkpoint=values.clone(),
        halved=torch.ones_like(fooled),
    )

    def set_aside(fooled_now: Bool[Tensor, " batch"]) -> None:
        nonlocal ball
        if fooled_now.any():
            done = state.numbers[fooled_now]
            found[done], fooled[done] = state.x[fooled_now], True
            state.keep(~fooled_now)
            ball = ball.select(~fooled_now)

    set_aside(threat.fooled(logits, y))
    checkpoints, last = checkpoints_of(steps), 0
    for step in range(steps):
        if not len(state.x):
            break
        # z = Π(x + η d(∇L))
        direction = ball.steepest_(state.gradient)
        z = ball.project_(direction.mul_(per_example(state.eta, direction)).add_(state.x))
        # x⁺ = Π(x + α (z − x) + (1 − α) (x − x⁻))
        alpha = ALPHA if step else 1.0
        new = z.sub_(state.x).mul_(alpha).add_(state.x - state.before, alpha=1 - alpha).add_(state.x)
        state.before, state.x = state.x, ball.project_(new)

        logits, values, state.gradient = input_gradient(classifier, state.x, state.known, loss)
        state.grew += values > state.loss
        state.loss = values
        better = values > state.best_loss
        state.best_x[better], state.best_gradient[better] = state.x[better], state.gradient[better]
        state.best_loss[better] = values[better]
        set_aside(threat.fooled(logits, state.y))
        if step + 1 in checkpoints:
            halve_steps_(state, step + 1 - last)
            last = step + 1
    found[state.numbers] = state.best_x
    return found, fooled


def halve_steps_(state: Ascent, steps: int) -> None:
    """At a checkpoint, `steps` after the one before."""
    grew_seldom = state.grew < RHO * steps
    stuck = ~state.halved & (state.best_loss <= state.loss_at_checkpoint)
    state.halved = grew_seldom | stuck
    state.loss_at_checkpoint = state.best_loss.clone()
    state.grew.zero_()
    state.eta[state.halved] /= 2
    # x⁻ stays, so that the first step from the best point keeps its momentum
    state.x = torch.where(per_example(state.halved, state.x), state.best_x, state.x)
    state.gradient = torch.where(per_example(state.halved, state.x), state.best_gradient, state.gradient)
    state.loss = torch.where(state.halved, state.best_loss, state.loss)


def checkpoints_of(steps: int) -> set[int]:
    """Steps after which step sizes are looked at."""
    shares = [0.0, 0.22]
    while shares[-1] < 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    return {max(1, round(share * steps)) for share in shares[1:] if share <= 1}
