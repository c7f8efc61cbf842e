"""Activations: what a unit makes of its summed input z.

    logistic    1 / (1 + e⁻ᶻ)          relu       max(0, z)
    arctan      arctan z               softplus   ln(1 + eᶻ)
    tanh        tanh z                 gelu       z Φ(z), with Φ the normal distribution function
    threshold   1 if z ≥ 0, else 0     identity   z

    softmax     eᶻᵢ / Σⱼ eᶻⱼ           argmax     1 for the largest zᵢ, else 0

The last two look at a whole layer at once. `ACTIVATIONS` holds those that look at one unit.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

Activation = Callable[[Tensor], Tensor]
ActivationName = Literal["logistic", "arctan", "tanh", "threshold", "relu", "softplus", "gelu", "identity"]

SURROGATE_SLOPE = 2.0


class _Threshold(torch.autograd.Function):
    """A step whose own derivative is zero nearly everywhere; the gradient of a smooth step stands in for it.

    The smooth step is s(z) = ½ + arctan(π α z / 2) / π: it rises from 0 to 1 as the true one, with slope α / 2 at 0.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, slope: float) -> Tensor:
        return (z >= 0).to(z.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        z, ctx.slope = inputs
        ctx.save_for_backward(z)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        return gradients[0] * surrogate_slope(z, ctx.slope), None


def surrogate_slope(z: Float[Tensor, "*batch"], slope: float) -> Float[Tensor, "*batch"]:
    # s'(z) = (α / 2) / (1 + (π α z / 2)²)
    return (slope / 2) / (1 + (math.pi * slope * z / 2) ** 2)


def threshold(z: Float[Tensor, "*batch"], slope: float = SURROGATE_SLOPE) -> Float[Tensor, "*batch"]:
    """Heaviside's step, with the surrogate gradient of a smooth step, whose α is `slope`."""
    return _Threshold.apply(z, slope)


def identity(z: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    return z


def softmax(z: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch unit"]:
    """Positive shares that sum to one; the same for z and z + c, so torch may subtract the largest zᵢ first."""
    return torch.softmax(z, dim=-1)


def argmax(z: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch unit"]:
    """One for the largest unit (the first of equals), zero for the rest: softmax(z / T) as T → 0."""
    return torch.zeros_like(z).scatter(-1, z.argmax(dim=-1, keepdim=True), 1.0)


ACTIVATIONS: dict[ActivationName, Activation] = {
    "logistic": torch.sigmoid,
    "arctan": torch.arctan,
    "tanh": torch.tanh,
    "threshold": threshold,
    "relu": F.relu,
    "softplus": F.softplus,
    "gelu": F.gelu,
    "identity": identity,
}

SLOPES: dict[ActivationName, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic": lambda z, a: torch.addcmul(a, a, a, value=-1),  # a (1 − a)
    "arctan": lambda z, a: 1 / (1 + z * z),
    "tanh": lambda z, a: torch.addcmul(a.new_ones(1), a, a, value=-1),  # 1 − a²
    "threshold": lambda z, a: surrogate_slope(z, SURROGATE_SLOPE),
    "relu": lambda z, a: a.sign(),
    "softplus": lambda z, a: torch.sigmoid(z),
    "gelu": lambda z, a: 0.5 * (1 + torch.erf(z / math.sqrt(2))) + z * torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi),
    "identity": lambda z, a: torch.ones_like(z),
}
"""σ'(z) by hand, from z and a = σ(z), whichever is cheaper; for `threshold` it is the surrogate."""


def derivative(activation: Activation, z: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """σ'(z) of an activation of one unit, by automatic differentiation; for `threshold` it is the surrogate."""
    z = z.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(activation(z).sum(), z)
    return gradient
