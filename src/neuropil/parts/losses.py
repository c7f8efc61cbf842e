"""Losses: how wrong an output is. One value per example; whoever trains takes the mean, E = (1/N) Σ L(yₙ, tₙ), or with
a weight αₙ for each example, E = Σ αₙ L(yₙ, tₙ) / Σ αₙ.

    squared error               L = ½ ‖y − t‖²
    Bernoulli cross-entropy     L = −Σₖ [tₖ ln yₖ + (1 − tₖ) ln(1 − yₖ)]     y = logistic(z)
    categorical cross-entropy   L = −Σₖ tₖ ln yₖ                             y = softmax(z)

Both cross-entropies take the logits z and never form y, whose logarithm would be −∞ where y rounds to 0.
The squared error carries the ½ that makes its gradient y − t, and is a sum over outputs; torch's `mse_loss` is 2 L / K
for K outputs. What is measured as mean squared error has no ½ and is a mean over outputs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import torch
from jaxtyping import Float, Integer
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Weights: TypeAlias = Float[Tensor, "*batch"]

LOGITS_AT_ONCE = 2**23
"""Of `projected_cross_entropy`: 32 MB in float32. With half of it GPT-2's takes 1/6 longer, with twice no less."""

PRODUCT_AT_ONCE = 2**22
"""Of numbers in bfloat16 that are added to single ones: they come out of the processor's cache again."""


def squared_error(y: Float[Tensor, "*batch output"], target: Float[Tensor, "*batch output"]) -> Float[Tensor, "*batch"]:
    # L = ½ ‖y − t‖²
    return 0.5 * (at_least_single(y) - target).square().sum(-1)


def bernoulli_cross_entropy(
    logits: Float[Tensor, "*batch output"], target: Float[Tensor, "*batch output"]
) -> Float[Tensor, "*batch"]:
    """Targets are 0, 1 or probabilities between; the outputs are independent of one another."""
    logits = at_least_single(logits)
    # ln y = ln logistic(z),  ln(1 − y) = ln logistic(−z)
    return -(target * F.logsigmoid(logits) + (1 - target) * F.logsigmoid(-logits)).sum(-1)


def categorical_cross_entropy(
    logits: Float[Tensor, "*batch class"], target: Integer[Tensor, "*batch"], label_smoothing: float = 0.0
) -> Float[Tensor, "*batch"]:
    """Targets are class numbers. With label smoothing ε, tₖ = (1 − ε) [k = class] + ε / K."""
    # ln yₖ = zₖ − ln Σⱼ eᶻⱼ
    log_probability = F.log_softmax(at_least_single(logits), dim=-1)
    # L = −Σₖ tₖ ln yₖ = −(1 − ε) ln y_class − ε mean_k ln yₖ
    of_class = log_probability.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
    if label_smoothing == 0:
        return -of_class
    return -(1 - label_smoothing) * of_class - label_smoothing * log_probability.mean(-1)


def weighted_mean(losses: Float[Tensor, "*batch"], weights: Weights | None) -> Float[Tensor, ""]:
    """The mean of losses, of which each counts as much as its weight says; 0 if none counts."""
    if weights is None:
        return losses.mean()
    weights = weights.to(losses)
    # E = Σ α L / Σ α
    return (weights * losses).sum() / positive(weights.sum())


def positive(total: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """What to divide by: a sum of weights, or 1 where none counts and what is divided is 0."""
    return torch.where(total > 0, total, 1.0)


def projected_cross_entropy(
    hidden: Float[Tensor, "token width"],
    weight: Float[Tensor, "class width"],
    target: Integer[Tensor, " token"],
    label_smoothing: float = 0.0,
    token_weights: Float[Tensor, " token"] | None = None,
) -> Float[Tensor, ""]:
    """The (weighted) mean categorical cross-entropy of the logits W h, a few tokens at a time: all logits of a large
    vocabulary never stand in memory. What backward needs is computed on the way, while a piece of the logits is at
    hand."""
    return _ProjectedCrossEntropy.apply(hidden, weight, target, label_smoothing, token_weights)


class _ProjectedCrossEntropy(torch.autograd.Function):
    """With y = softmax(W h) and targets t:  ∂L/∂h = (y − t) W,  ∂L/∂W = Σ (y − t) hᵀ, each times α / Σ α.

    Of each row s (y − t) is made, s = Σ eᶻ, in place of its logits. What s and α scale is not that row, as long as the
    vocabulary is large, but those of ∂L/∂h and of h. Under autocast all three products are in its precision.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, label_smoothing: float, token_weights: Tensor | None
    ) -> Tensor:
        num_tokens, precision = len(target), _precision_of_products(weight)
        h_all, w = hidden.to(precision), weight.to(precision)
        single = at_least_single(weight).dtype
        share = hidden.new_full((num_tokens,), 1 / max(num_tokens, 1), dtype=single)  # α / Σ α
        if token_weights is not None:
            share = token_weights.to(share) / positive(token_weights.to(share).sum())
        at_once = max(1, LOGITS_AT_ONCE // len(weight))
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        hidden_gradient = torch.empty_like(h_all) if needs_hidden else None
        weight_gradient = (torch.empty_like if num_tokens else torch.zeros_like)(weight) if needs_weight else None
        loss, room = share.new_zeros(()), w.new_empty(min(at_once, num_tokens), len(weight))
        for start in range(0, num_tokens, at_once):
            piece = slice(start, start + at_once)
            h, t, alpha = h_all[piece], target[piece, None].long(), share[piece, None]
            logits = at_least_single(torch.mm(h, w.mT, out=room[: len(h)]))
            of_class = logits.gather(-1, t)
            mean = logits.mean(-1, keepdim=True) if label_smoothing else of_class
            highest = logits.amax(-1, keepdim=True)
            error = logits.sub_(highest).exp_()
            s = error.sum(-1, keepdim=True)
            # L = ln Σ eᶻ − (1 − ε) z_class − ε mean_k zₖ
            losses = highest + s.log() - (1 - label_smoothing) * of_class - label_smoothing * mean
            loss += (alpha * losses).sum()
            # s (y − t)
            error.sub_(s * (label_smoothing / len(weight))) if label_smoothing else None
            error = error.scatter_add_(-1, t, -(1 - label_smoothing) * s).to(precision)
            scale = (alpha / s).to(precision)
            if hidden_gradient is not None:
                torch.mm(error, w, out=hidden_gradient[piece]).mul_(scale)
            if weight_gradient is not None:
                (_add_product if start else _product)(error.mT, h * scale, out=weight_gradient)
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        return loss if num_tokens or token_weights is not None else loss / 0  # the mean over nothing is no number

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]  # once_differentiable names no ctx
        hidden_gradient, weight_gradient = ctx.saved_tensors
        scale = gradients[0]
        if scale == 1:  # as in nearly every backward pass, and a vocabulary is large
            return hidden_gradient, weight_gradient, None, None, None
        scaled = (None if saved is None else saved * scale for saved in (hidden_gradient, weight_gradient))
        return *scaled, None, None, None


def _precision_of_products(weight: Tensor) -> torch.dtype:
    """That of autocast, if it is bfloat16: float16 has too small a range for sums of exponentials."""
    device = weight.device.type
    half = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
    return torch.bfloat16 if half and weight.dtype == torch.float32 else weight.dtype


def _product(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    if out.dtype == a.dtype:
        return torch.mm(a, b, out=out)
    for part, rows in _pieces(out, a):
        part.copy_(rows @ b)
    return out


def _add_product(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """A sum keeps its precision where products have less."""
    if out.dtype == a.dtype:
        return torch.addmm(out, a, b, out=out)
    for part, rows in _pieces(out, a):
        part.add_(rows @ b)
    return out


def _pieces(out: Tensor, a: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    at_once = max(1, PRODUCT_AT_ONCE // out.shape[1])
    return zip(out.split(at_once), a.split(at_once), strict=True)


class _GivenGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient * arriving[0] for gradient in ctx.gradients)


def with_gradients(
    loss: Float[Tensor, ""], parameters: Iterable[Tensor], gradients: Sequence[Tensor]
) -> Float[Tensor, ""]:
    """The value of `loss`, with gradients that are given: for learning rules that work out by themselves what each
    parameter descends along, where the training loop differentiates every loss."""
    return cast(Tensor, _GivenGradients.apply(loss, gradients, *parameters))


def l1_penalty(weights: Iterable[Tensor]) -> Float[Tensor, ""]:
    """Σ |w|: pulls every weight by the same force, so that the useless ones become exactly zero."""
    # ‖θ‖₁ = Σⱼ |θⱼ|
    return torch.stack([weight.abs().sum() for weight in weights]).sum()


def frobenius_penalty(weights: Iterable[Tensor]) -> Float[Tensor, ""]:
    """½ Σ w²: its gradient is w itself, which is weight decay, as optimisers have it built in."""
    # ½ ‖θ‖²_F = ½ Σⱼ θⱼ²
    return 0.5 * torch.stack([weight.square().sum() for weight in weights]).sum()


def at_least_single(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Under autocast a model may answer in bfloat16, whose three digits are too few for a loss."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
