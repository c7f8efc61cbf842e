"""Do we need all heads? What each head of a model is worth, by two measures.

    gradient          I_h = mean |∂L / ∂ξ_h|      ξ_h is a factor on the head's output, 1 as things are
    leave one out     by how much the loss rises when ξ_h is 0

The first needs one pass for all heads together and tells what a small change would do; the second needs a pass for each
head and tells what its removal does. Both look at one head at a time, and say nothing of heads that stand in for one
another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.parts.multi_head import MultiHeadAttention, heads_of, known_heads

Heads = Mapping[str, Float[Tensor, " head"]]
"""A number for each head, by the name of its layer."""


@contextmanager
def masked_heads(model: nn.Module, off: Mapping[str, Iterable[int]]) -> Iterator[None]:
    """Within the block these heads contribute nothing."""
    attentions, chosen = heads_of(model), known_heads(model, off)
    before = {name: attentions[name].head_mask for name in chosen}
    for name, heads in chosen.items():
        mask = attentions[name].output.weight.new_ones(attentions[name].heads)
        mask[list(heads)] = 0.0
        attentions[name].head_mask = _product(before[name], mask)
    try:
        yield
    finally:
        for name, mask in before.items():
            attentions[name].head_mask = mask


def without_heads(
    weights: Mapping[str, Float[Tensor, "..."]], off: Mapping[str, Iterable[int]]
) -> dict[str, Float[Tensor, "..."]]:
    """Recorded weights, batch × head × query × key, of the heads that are left; a layer without any is left out, as
    nothing moves in it."""
    kept = {
        name: [head for head in range(each.shape[1]) if head not in set(off.get(name, ()))]
        for name, each in weights.items()
    }
    return {name: weights[name][:, heads] for name, heads in kept.items() if heads}


def gradient_importance(model: nn.Module, losses: Iterable[Callable[[], Float[Tensor, ""]]]) -> Heads:
    """The mean over several losses, one for each batch of data, of how strongly each pulls on the heads' factors."""
    attentions = _with_heads(model)
    factors = {name: a.output.weight.new_ones(a.heads).requires_grad_() for name, a in attentions.items()}
    before = {name: attention.head_mask for name, attention in attentions.items()}
    totals = {name: torch.zeros_like(factor, requires_grad=False) for name, factor in factors.items()}
    was_training, count = model.training, 0
    model.eval()
    for name, attention in attentions.items():
        attention.head_mask = _product(before[name], factors[name])
    try:
        for loss in losses:
            count += 1
            for name, gradient in zip(factors, torch.autograd.grad(loss(), list(factors.values())), strict=True):
                totals[name] += gradient.abs()
    finally:
        for name, attention in attentions.items():
            attention.head_mask = before[name]
        model.train(was_training)
    return {name: total.cpu() / max(1, count) for name, total in totals.items()}


def leave_one_out(model: nn.Module, loss: Callable[[], float]) -> Heads:
    """By how much the loss rises without each head."""
    attentions = _with_heads(model)
    whole = loss()
    rises: dict[str, Tensor] = {}
    for name, attention in attentions.items():
        rises[name] = torch.zeros(attention.heads)
        for head in range(attention.heads):
            with masked_heads(model, {name: [head]}):
                rises[name][head] = loss() - whole
    return rises


def least_important(importance: Heads, count: int, *, per_layer_scale: bool = True) -> dict[str, list[int]]:
    """The `count` heads of the whole model that are worth least. Layers pull with different strength, so that each
    layer's numbers are compared in units of their own length, unless told otherwise."""
    ranked: list[tuple[float, str, int]] = []
    for name, values in importance.items():
        scale = float(values.norm()) if per_layer_scale else 1.0
        ranked += [(float(value) / max(scale, 1e-30), name, head) for head, value in enumerate(values)]
    chosen: dict[str, list[int]] = {}
    for _, name, head in sorted(ranked)[:count]:
        chosen.setdefault(name, []).append(head)
    return {name: sorted(heads) for name, heads in chosen.items()}


def _product(outer: Float[Tensor, " head"] | None, mask: Float[Tensor, " head"]) -> Float[Tensor, " head"]:
    """What is masked around a block stays masked in it."""
    return mask if outer is None else outer * mask


def _with_heads(model: nn.Module) -> dict[str, MultiHeadAttention]:
    attentions = {name: attention for name, attention in heads_of(model).items() if attention.heads}
    if not attentions:
        raise InputError("heads are measured in models that have some", got=f"a {type(model).__name__} without any")
    return attentions
