"""A connection of predictive coding: what one layer predicts of its neighbour.

μ = σ(x) M + β                                             the prediction
τ dε/dt = x' − μ − νε                                      its error nodes; (x' − μ) / ν at equilibrium
dM = σ(x)ᵀ ε / ν,   dβ = ε / ν,   dW = (ε / ν)ᵀ σ(x)        how it changes, by what is at its two ends
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.parts.parameters import ParameterRow

SlopedName = Literal["tanh", "logistic", "relu", "softplus", "arctan", "gelu", "identity"]


class PredictiveConnection(nn.Module):
    """One layer's prediction of its neighbour, and the way back for the error of it."""

    feedback: nn.Parameter | None

    def __init__(self, source: int, target: int, sizes: tuple[int, int], *, nu: float, variance: float, separate: bool):
        """From layer to layer, with so many units in each; at first n Var M is `variance`."""
        super().__init__()
        self.source, self.target, self.nu = source, target, nu
        n, m = sizes
        scale = math.sqrt(variance / n)
        self.weight = nn.Parameter(scale * torch.randn(n, m))
        self.bias = nn.Parameter(torch.zeros(m))
        self.feedback = nn.Parameter(scale * torch.randn(m, n)) if separate else None

    def forward(self, a: Float[Tensor, "batch source"]) -> Float[Tensor, "batch target"]:
        # μ = σ(x) M + β
        return torch.addmm(self.bias, a, self.weight)

    @property
    def back(self) -> Float[Tensor, "target source"]:
        return self.weight.mT if self.feedback is None else self.feedback

    def rules(self, a: Float[Tensor, "batch source"], error: Float[Tensor, "batch target"]) -> dict[str, Tensor]:
        """What `weight`, `bias` and `feedback` descend along, as means over the batch."""
        pull = error / (self.nu * len(a))
        # dM = σ(x)ᵀ ε / ν,   dβ = ε / ν,   dW = (ε / ν)ᵀ σ(x); an optimiser steps against what it is given
        found = {"weight": -(a.mT @ pull), "bias": -pull.sum(0)}
        return found if self.feedback is None else found | {"feedback": -(pull.mT @ a)}

    def row(self, name: str) -> ParameterRow:
        n, m = self.weight.shape
        return ParameterRow(name, "n*m + m" if self.feedback is None else "2*n*m + m", {"n": n, "m": m})


class SettlingConnection:
    """A connection while states settle: its error over ν, in memory of its own."""

    def __init__(
        self, c: PredictiveConnection, predicted: Tensor, mean: Tensor | None, *, tau: float, error: Tensor | None
    ):
        """`predicted` is the state of the neighbour; `mean` is the prediction where it does not change. Error nodes
        with a time constant go on from `error`, or begin silent."""
        self.source, self.target, self.mean, self.precision = c.source, c.target, mean, c.nu**-2
        self.weight, self.bias, self.back = c.weight.detach(), c.bias.detach(), c.back.detach()
        self.approach = approach(c.nu, tau)
        self.nu, self.error = c.nu, error
        self.pull = torch.zeros_like(predicted) if error is None else error / c.nu

    def look(self, x: Tensor, a: Tensor) -> None:
        if self.approach < 1:
            self._follow(x, a)
        # ε / ν = (x' − μ) / ν²
        elif self.mean is None:
            torch.sub(x, self.bias, out=self.pull).addmm_(a, self.weight, beta=self.precision, alpha=-self.precision)
        elif self.precision == 1:
            torch.sub(x, self.mean, out=self.pull)
        else:
            torch.sub(x, self.mean, out=self.pull).mul_(self.precision)

    def _follow(self, x: Tensor, a: Tensor) -> None:
        """One step of τ dε/dt = x' − μ − νε, exact while states are held: ε ← ε + c ((x' − μ) / ν − ε)."""
        share = self.approach * self.precision
        self.pull.mul_(1 - self.approach)
        if self.mean is None:
            self.pull.add_(x - self.bias, alpha=share).addmm_(a, self.weight, alpha=-share)
        else:
            self.pull.add_(x - self.mean, alpha=share)

    def keep(self) -> None:
        """The error nodes as they are now, where they were given."""
        if self.error is not None:
            torch.mul(self.pull, self.nu, out=self.error)


def approach(nu: float, tau: float) -> float:
    """c = 1 − e^(−ν/τ), the share of the way to equilibrium that an error node goes in one step; all of it without a
    time constant."""
    return -math.expm1(-nu / tau) if tau else 1.0
