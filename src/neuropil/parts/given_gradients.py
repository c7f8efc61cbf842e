"""A loss whose gradients are given, for learning rules that work out their changes by themselves: the training loop
differentiates every loss, and finds these."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor


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
    """The value of `loss`; what each parameter descends along is its entry of `gradients`."""
    return cast(Tensor, _GivenGradients.apply(loss, gradients, *parameters))
