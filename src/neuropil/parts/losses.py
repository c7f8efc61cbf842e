"""Losses: how wrong an output is. One value per example; whoever trains takes the mean, E = (1/N) Σ L(yₙ, tₙ).

    squared error               L = ½ ‖y − t‖²
    Bernoulli cross-entropy     L = −Σₖ [tₖ ln yₖ + (1 − tₖ) ln(1 − yₖ)]     y = logistic(z)
    categorical cross-entropy   L = −Σₖ tₖ ln yₖ                             y = softmax(z)

Both cross-entropies take the logits z and never form y, whose logarithm would be −∞ where y rounds to 0.
The squared error carries the ½ that makes its gradient y − t; torch's `mse_loss` is 2 L / K for K outputs.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn import functional as F


def squared_error(y: Float[Tensor, "*batch output"], target: Float[Tensor, "*batch output"]) -> Float[Tensor, "*batch"]:
    # L = ½ ‖y − t‖²
    return 0.5 * (at_least_single(y) - target).square().sum(-1)


def bernoulli_cross_entropy(logits: Float[Tensor, "*batch output"], target: Float[Tensor, "*batch output"]) -> Float[Tensor, "*batch"]:
    """Targets are 0, 1 or probabilities between; the outputs are independent of one another."""
    logits = at_least_single(logits)
    # ln y = ln logistic(z),  ln(1 − y) = ln logistic(−z)
    return -(target * F.logsigmoid(logits) + (1 - target) * F.logsigmoid(-logits)).sum(-1)


def categorical_cross_entropy(
    logits: Float[Tensor, "*batch class"], target: Integer[Tensor, "*batch"], label_smoothing: float = 0.0
) -> Float[Tensor, "*batch"]:
    """Targets are class numbers. With smoothing ε, tₖ = (1 − ε) [k = class] + ε / K: no logit gains from growing without end."""
    # ln yₖ = zₖ − ln Σⱼ eᶻⱼ
    log_probability = F.log_softmax(at_least_single(logits), dim=-1)
    # L = −Σₖ tₖ ln yₖ = −(1 − ε) ln y_class − ε mean_k ln yₖ
    of_class = log_probability.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
    if label_smoothing == 0:
        return -of_class
    return -(1 - label_smoothing) * of_class - label_smoothing * log_probability.mean(-1)


def l1_penalty(weights: Iterable[Tensor]) -> Float[Tensor, ""]:
    """Σ |w|: pulls every weight by the same force, so that the useless ones become exactly zero."""
    # ‖θ‖₁ = Σⱼ |θⱼ|
    return torch.stack([weight.abs().sum() for weight in weights]).sum()


def frobenius_penalty(weights: Iterable[Tensor]) -> Float[Tensor, ""]:
    """½ Σ w²: its gradient is w itself, which is weight decay. Optimisers have it built in; this is the written-out form."""
    # ½ ‖θ‖²_F = ½ Σⱼ θⱼ²
    return 0.5 * torch.stack([weight.square().sum() for weight in weights]).sum()


def at_least_single(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Under autocast a model may answer in bfloat16, whose three digits are too few for a loss."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
