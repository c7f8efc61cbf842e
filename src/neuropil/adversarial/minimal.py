"""Minimal perturbations: how far is it to the nearest input that is misclassified?

    bisection    ε between one at which PGD fails and one at which it succeeds, by halves of log ε; from x itself
    DeepFool     x ← x + (1 + o) (f / ‖w‖_*) d(w)              to the nearest boundary of the linearised classifier:
                 f = z_y − z_k,  w = ∇(z_k − z_y)              Moosavi-Dezfooli 2016
    boundary     δ ← Π_r(δ + α r d(∇L)),  then r ← r (1 − γ) where δ is adversarial, and r (1 + γ) where not:
                 back and forth across the boundary, in steps that shrink               DDN, Rony 2019; FMN, Pintor 2021

d(w) is the steepest direction of the norm and ‖w‖_* the dual norm: sign(w) and ‖w‖₁ for L∞, w / ‖w‖₂ and ‖w‖₂ for L2.
w is 0 for features at an end of the input range that would leave it.
At last each perturbation is shortened along its own line as far as it stays adversarial.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Num
from torch import Tensor

from neuropil.adversarial.classifier import Classifier, held, input_gradient, logits_of
from neuropil.adversarial.gradient_attack import GradientAttackConfig, attack_loss, gradient_attack
from neuropil.adversarial.losses import of_class
from neuropil.adversarial.threat_model import (
    Ball,
    Inputs,
    Labels,
    Norm,
    PerExample,
    ThreatModel,
    dual_length,
    in_inputs,
    in_units,
    length,
    per_example,
)
from neuropil.config import Config, option

MethodName = Literal["boundary", "deepfool", "bisection"]
HALVINGS = 10
"""Of the interval along the line from the original, at last."""
FIRST_STEPS = 10
"""Of DeepFool, before the boundary is followed."""
SMALLEST_STEP, SMALLEST_GAMMA = 0.01, 0.001
SMALLEST_EPS = 2.0**-14
"""With which bisection begins, as a share of the largest."""
NO_DIVISION_BY_ZERO = 1e-12


class MinimalConfig(Config):
    method: MethodName = option("boundary", "search: boundary (DDN, FMN), deepfool or bisection (of eps, by PGD)")
    steps: int = option(100, "gradient steps; of bisection: in each of its rounds", low=1)
    gamma: float = option(0.05, "γ of the boundary search: relative change of the norm in its first steps", above=0)
    overshoot: float = option(0.02, "o of DeepFool: how far beyond the linearised boundary to go", low=0)
    candidates: int = option(10, "classes whose boundaries DeepFool looks at, the most likely ones", low=2)
    rounds: int = option(12, "rounds of bisection", low=1)


def minimal_attack(
    classifier: Classifier,
    x: Num[Tensor, "batch *shape"],
    y: Labels,
    threat: ThreatModel,
    config: MinimalConfig,
    *,
    generator: torch.Generator | None = None,
) -> Inputs:
    """The smallest perturbations that were found; those larger than the threat model allows are projected into it."""
    with held(classifier):
        ball = replace(threat, eps=largest(threat, x)).ball(x)
        if config.method == "boundary":
            found = follow_boundary(classifier, ball, y, threat, config)
        elif config.method == "deepfool":
            found = deepfool(classifier, ball, y, threat, config)
        else:
            found = bisect(classifier, ball, y, threat, config, generator)
        return threat.project(shorten(classifier, found, ball.original, y, threat), ball.original)


def largest(threat: ThreatModel, x: Num[Tensor, "batch *shape"]) -> float:
    """The largest perturbation that the input range allows any of the inputs."""
    low, high = threat.range_of(x if x.is_floating_point() else x.float())
    farthest = torch.maximum(x - low, high - x)
    units = in_units(farthest, threat.scale)
    return length(threat.norm, torch.where(units.isfinite(), units, 0)).max().item() if len(x) else 0.0


def movable(gradient: Inputs, x: Inputs, ball: Ball) -> Inputs:
    """0 where a step along the gradient would leave the input range."""
    return gradient.masked_fill(((x >= ball.upper) & (gradient > 0)) | ((x <= ball.lower) & (gradient < 0)), 0)


# --- along the boundary -----------------------------------------------------------------------------------------------


def follow_boundary(
    classifier: Classifier, ball: Ball, y: Labels, threat: ThreatModel, config: MinimalConfig
) -> Inputs:
    x, best = ball.original.clone(), deepfool(classifier, ball, y, threat, replace(config, steps=FIRST_STEPS))
    # what DeepFool finds in a few steps is the first to be beaten
    fooled = threat.fooled(logits_of(classifier, best), y)
    best[~fooled] = ball.original[~fooled]
    shortest = threat.distance(best, ball.original).masked_fill(~fooled, torch.inf)
    radius = shortest.clone()
    loss = attack_loss(threat, "tempered")
    for step in range(config.steps):
        falling = (1 + math.cos(math.pi * step / config.steps)) / 2
        alpha = SMALLEST_STEP + (1 - SMALLEST_STEP) * falling
        gamma = SMALLEST_GAMMA + (config.gamma - SMALLEST_GAMMA) * falling
        logits, value, gradient = input_gradient(classifier, x, y, loss)
        gradient, delta = movable(gradient, x, ball), in_units(x - ball.original, ball.scale)
        norm, adversarial = length(ball.norm, delta), threat.fooled(logits, y)
        shorter = adversarial & (norm < shortest)
        best[shorter], shortest[shorter] = x[shorter], norm[shorter]
        # before the boundary was crossed once, r grows by the length in which L would change as much as it is
        further = norm + value.abs() / (dual_length(ball.norm, in_inputs(gradient, ball.scale)) + NO_DIVISION_BY_ZERO)
        outwards = torch.where(shortest.isfinite(), radius * (1 + gamma), further)
        radius = torch.where(adversarial, torch.minimum(radius * (1 - gamma), shortest), outwards)
        radius = radius.clamp(max=ball.eps)
        # δ ← Π_r(δ + α r d(∇L))
        direction = in_units(ball.steepest_(gradient), ball.scale)
        delta += alpha * per_example(radius, delta) * direction
        x = ball.project_(ball.original + in_inputs(shrink(ball.norm, delta, radius), ball.scale))
    return best


def shrink(norm: Norm, delta: Inputs, radius: PerExample) -> Inputs:
    """Onto balls of a radius for each example."""
    limit = per_example(radius, delta)
    if norm == "linf":
        return torch.maximum(torch.minimum(delta, limit), -limit)
    return delta * (limit / (per_example(length("l2", delta), delta) + NO_DIVISION_BY_ZERO)).clamp(max=1)


# --- DeepFool ---------------------------------------------------------------------------------------------------------


def deepfool(classifier: Classifier, ball: Ball, y: Labels, threat: ThreatModel, config: MinimalConfig) -> Inputs:
    found, x = ball.original.clone(), ball.original.clone()
    left = torch.arange(len(x), device=x.device)
    for _ in range(config.steps):
        if not len(left):
            break
        step, fooled = nearest_boundary(classifier, x, y[left], ball, threat, config.candidates)
        found[left] = x
        # x ← x + (1 + o) (f / ‖w‖_*) d(w)
        left, ball, x, step = left[~fooled], ball.select(~fooled), x[~fooled], step[~fooled]
        x = ball.project_(x + (1 + config.overshoot) * step)
    found[left] = x
    return found


def nearest_boundary(
    classifier: Classifier, x: Inputs, y: Labels, ball: Ball, threat: ThreatModel, candidates: int
) -> tuple[Inputs, Bool[Tensor, " batch"]]:
    """The step to the nearest boundary of the classifier as it is linearly at x, and which inputs are beyond one."""
    x = x.detach().requires_grad_()
    logits = classifier(x)
    likely = logits.detach().scatter(1, y[:, None], -torch.inf).argsort(1, descending=True)
    classes = (
        [threat.goal(y)] if threat.target is not None else likely[:, : min(candidates, logits.shape[1]) - 1].unbind(1)
    )
    nearest = torch.full_like(logits[:, 0].detach(), torch.inf)
    steps = torch.zeros_like(x)
    for k in classes:
        # f = z_y − z_k,  w = ∇(z_k − z_y)
        f = of_class(logits, y) - of_class(logits, k)
        (gradient,) = torch.autograd.grad(-f.sum(), x, retain_graph=True)
        w = movable(gradient, x, ball)
        slope = dual_length(ball.norm, in_inputs(w, ball.scale))
        distance = torch.where(slope > 0, f.detach().abs() / slope, torch.inf)
        closer = distance < nearest
        nearest = torch.where(closer, distance, nearest)
        step = ball.steepest_(w) * per_example(torch.where(closer, distance, 0), x)
        steps = torch.where(per_example(closer, x), step, steps)
    return steps.detach(), threat.fooled(logits.detach(), y)


# --- bisection --------------------------------------------------------------------------------------------------------


def bisect(
    classifier: Classifier,
    ball: Ball,
    y: Labels,
    threat: ThreatModel,
    config: MinimalConfig,
    generator: torch.Generator | None,
) -> Inputs:
    found = ball.original.clone()
    above = torch.full_like(found.flatten(1).sum(1), ball.eps)
    below = above * SMALLEST_EPS
    ones = torch.ones_like(found) if ball.scale is None else ball.scale.expand_as(found)
    pgd = GradientAttackConfig(steps=config.steps, start="clean")
    for number in range(config.rounds + 1):
        # first whether there is any at all, and then the middle of log ε
        eps = above if number == 0 else (below * above).sqrt()
        balls = replace(threat, eps=1.0, scale=ones * per_example(eps, found))
        tried = gradient_attack(classifier, ball.original, y, balls, pgd, generator=generator)
        fooled = threat.fooled(logits_of(classifier, tried), y)
        distance = threat.distance(tried, ball.original)
        closer = fooled & (distance <= above)
        found[closer], above[closer] = tried[closer], distance[closer]
        below = torch.where(fooled, below, eps)
    return found


# --- along a line -----------------------------------------------------------------------------------------------------


def shorten(classifier: Classifier, found: Inputs, original: Inputs, y: Labels, threat: ThreatModel) -> Inputs:
    """As far towards the original as a point stays adversarial, by bisection."""
    low, high = torch.zeros_like(found.flatten(1).sum(1)), torch.ones_like(found.flatten(1).sum(1))
    nearest = found
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        x = original + per_example(middle, found) * (found - original)
        fooled = threat.fooled(logits_of(classifier, x), y)
        low, high = torch.where(fooled, low, middle), torch.where(fooled, middle, high)
        nearest = torch.where(per_example(fooled, found), x, nearest)
    return nearest
