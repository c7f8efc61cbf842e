"""Internal covariate shift: how the inputs of a layer move while the layers below it learn.

    shift(t) = √ mean_u (μ_u(t) − μ_u(0))² / s(0)          s(t) = √ mean_u σ_u(t)²

μ_u and σ_u are mean and standard deviation of input u over a batch. A mini-batch of B examples alone moves the mean of
an input by about σ/√B, so that a shift of √(2/B) is no more than chance.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


@dataclass
class InputRecord:
    """Of each training update: mean and standard deviation of every input over the batch."""

    means: list[Float[Tensor, " unit"]] = field(default_factory=list)
    deviations: list[Float[Tensor, " unit"]] = field(default_factory=list)

    @property
    def spreads(self) -> list[float]:
        """s(t), the root mean square of the standard deviations."""
        return [deviation.square().mean().sqrt().item() for deviation in self.deviations]

    @property
    def shifts(self) -> list[float]:
        """How far the means are from those of the first update, in units of the spread there."""
        first = self.spreads[0] or 1.0
        return [(mean - self.means[0]).square().mean().sqrt().item() / first for mean in self.means]


@contextmanager
def record_inputs(layer: nn.Module) -> Iterator[InputRecord]:
    """Of a layer whose inputs are [batch unit], at each of its passes in training mode within the block."""
    record = InputRecord()

    def remember(module: nn.Module, args: tuple[Any, ...]) -> None:
        if module.training:
            x = args[0].detach().double()
            record.means.append(x.mean(0))
            record.deviations.append(x.std(0, correction=0))

    handle = layer.register_forward_pre_hook(remember)
    try:
        yield record
    finally:
        handle.remove()
