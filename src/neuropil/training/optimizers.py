"""Optimisers by name. The update rules are PyTorch's; here is what each one is.

    sgd        w ← w − η ∇
    momentum   v ← β v + ∇            w ← w − η v
    rmsprop    s ← ρ s + (1−ρ) ∇²     w ← w − η ∇ / √s
    adam       m ← β₁ m + (1−β₁) ∇    s ← β₂ s + (1−β₂) ∇²    w ← w − η m̂ / √ŝ
    adamw      adam, with the weight decay taken from w itself and not through the gradient
    muon       v ← β v + (1−β) ∇      w ← w − 0.2 η √n O      O ≈ U Vᵀ of (1−β) ∇ + β v = U S Vᵀ, n the longer side

Muon (Jordan 2024) moves a matrix by as much in every direction, where the gradient knows a few only; five steps of a
Newton-Schulz iteration are enough for that. The factor makes its steps as large as Adam's (Liu 2025), so that one
learning rate serves both: embeddings, biases, norms and kernels follow adamw.
"""

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from neuropil.protocols import OptimizerName

SGD: dict[str, Any] = {"dampening": 0.0, "nesterov": False, "maximize": False}
RMSPROP: dict[str, Any] = {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False, "foreach": True}
ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False, "fused": True}
MUON_MOMENTUM, MUON_SCALE = 0.95, 0.2
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Of a x + b x³ + c x⁵, which five times over brings every singular value from 0.01 to 1 close to 1."""


class Optimizer:
    """Calls the functions of `torch.optim`: its classes import the compiler, which takes longer than a small run."""

    def __init__(self, param_groups: list[dict[str, Any]], momentum: float):
        """A group's `rule` is the name of its optimiser."""
        self.param_groups, self.momentum = param_groups, momentum
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            moving = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moving:
                rates = {"lr": group["lr"], "weight_decay": group["weight_decay"]}
                OPTIMIZERS[group["rule"]](self, moving, [parameter.grad for parameter in moving], rates)

    def averages(self, weights: list[Tensor], *names: str) -> tuple[list[Tensor], ...]:
        """Of each name the running averages of all weights, zero at first, and last the numbers of their steps."""
        for weight in weights:
            if weight not in self.state:
                self.state[weight] = {name: torch.zeros_like(weight) for name in names}
                self.state[weight]["step"] = torch.zeros((), device=weight.device)
        return tuple([self.state[weight][name] for weight in weights] for name in (*names, "step"))


Rule: TypeAlias = Callable[[Optimizer, list[Tensor], list[Tensor], Mapping[str, float]], None]


def _sgd(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    sgd(weights, gradients, [None] * len(weights), momentum=0.0, foreach=_together(weights), **rates, **SGD)


def _momentum(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    buffers = [own.state.get(weight, {}).get("momentum_buffer") for weight in weights]  # begin as the first gradient
    sgd(weights, gradients, buffers, momentum=own.momentum, foreach=_together(weights), **rates, **SGD)
    moved = zip(weights, buffers, strict=True)
    own.state |= {weight: {"momentum_buffer": buffer} for weight, buffer in moved if buffer is not None}


def _together(weights: list[Tensor]) -> bool:
    """A CPU takes one weight after the other anyhow, and sorting them by device costs more than a small model's
    update."""
    return weights[0].device.type != "cpu"


def _rmsprop(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    squares, steps = own.averages(weights, "square_avg")
    rmsprop(weights, gradients, squares, [], [], steps, **rates, **RMSPROP)


def _adam(
    own: Optimizer,
    weights: list[Tensor],
    gradients: list[Tensor],
    rates: Mapping[str, float],
    *,
    decoupled: bool = False,
) -> None:
    means, squares, steps = own.averages(weights, "exp_avg", "exp_avg_sq")
    adam(weights, gradients, means, squares, [], steps, decoupled_weight_decay=decoupled, **rates, **ADAM)


def _muon(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    averages, _ = own.averages(weights, "momentum_buffer")
    for shape in dict.fromkeys(weight.shape for weight in weights):  # matrices of one shape are multiplied at once
        alike = [index for index, weight in enumerate(weights) if weight.shape == shape]
        # v ← β v + (1−β) ∇, and what is made orthogonal is (1−β) ∇ + β v
        wanted = [gradients[i].lerp(averages[i].lerp_(gradients[i], 1 - MUON_MOMENTUM), MUON_MOMENTUM) for i in alike]
        step = rates["lr"] * MUON_SCALE * math.sqrt(max(shape))
        for index, move in zip(alike, orthogonal(torch.stack(wanted)), strict=True):
            weights[index].mul_(1 - rates["lr"] * rates["weight_decay"]).sub_(move, alpha=step)


def orthogonal(x: Float[Tensor, "matrix row column"]) -> Float[Tensor, "matrix row column"]:
    """About U Vᵀ of U S Vᵀ."""
    if x.shape[-2] > x.shape[-1]:
        return orthogonal(x.mT).mT
    a, b, c = NEWTON_SCHULZ
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


OPTIMIZERS: dict[OptimizerName, Rule] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "rmsprop": _rmsprop,
    "adam": _adam,
    "adamw": partial(_adam, decoupled=True),
    "muon": _muon,
}


def build_optimizer(
    name: OptimizerName,
    parameters: Mapping[str, Parameter],
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    embeddings: Collection[Tensor] = (),
) -> Optimizer:
    """Weight decay is for matrices and kernels only: shrinking a bias or a normalisation's scale buys no simplicity.
    Muon is for matrices that multiply: `embeddings` are rows of their own."""
    trainable = [parameter for parameter in parameters.values() if parameter.requires_grad]
    looked_up = set(map(id, embeddings))
    groups: dict[tuple[OptimizerName, float], list[Parameter]] = {}
    for parameter in trainable:
        multiplies = parameter.ndim == 2 and id(parameter) not in looked_up
        rule = "adamw" if name == "muon" and not multiplies else name
        groups.setdefault((rule, weight_decay if parameter.ndim >= 2 else 0.0), []).append(parameter)
    return Optimizer(
        [
            {"params": params, "lr": learning_rate, "weight_decay": decay, "rule": rule}
            for (rule, decay), params in groups.items()
        ],
        momentum,
    )
