"""Optimisers by name. The update rules are PyTorch's; here is what each one is.

sgd        w ← w − η ∇
momentum   v ← β v + ∇            w ← w − η v
rmsprop    s ← ρ s + (1−ρ) ∇²     w ← w − η ∇ / √s
adam       m ← β₁ m + (1−β₁) ∇    s ← β₂ s + (1−β₂) ∇²    w ← w − η m̂ / √ŝ
adamw      adam, with the weight decay taken from w itself and not through the gradient
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from neuropil.protocols import OptimizerName

SGD: dict[str, Any] = {"dampening": 0.0, "nesterov": False, "maximize": False, "foreach": True}
RMSPROP: dict[str, Any] = {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False, "foreach": True}
ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False, "fused": True}


class Optimizer:
    """Calls the functions of `torch.optim`: its classes import the compiler, which takes longer than a small run."""

    def __init__(self, name: OptimizerName, param_groups: list[dict[str, Any]], momentum: float):
        self.name: OptimizerName = name
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
                OPTIMIZERS[self.name](self, moving, [parameter.grad for parameter in moving], rates)

    def averages(self, weights: list[Tensor], *names: str) -> tuple[list[Tensor], ...]:
        """Of each name the running averages of all weights, zero at first, and last the numbers of their steps."""
        for weight in weights:
            if weight not in self.state:
                self.state[weight] = {name: torch.zeros_like(weight) for name in names}
                self.state[weight]["step"] = torch.zeros((), device=weight.device)
        return tuple([self.state[weight][name] for weight in weights] for name in (*names, "step"))


def _sgd(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    momentum = own.momentum if own.name == "momentum" else 0.0
    buffers = [own.state.get(weight, {}).get("momentum_buffer") for weight in weights]  # begin as the first gradient
    sgd(weights, gradients, buffers, momentum=momentum, **rates, **SGD)
    moved = zip(weights, buffers, strict=True)
    own.state |= {weight: {"momentum_buffer": buffer} for weight, buffer in moved if buffer is not None}


def _rmsprop(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    squares, steps = own.averages(weights, "square_avg")
    rmsprop(weights, gradients, squares, [], [], steps, **rates, **RMSPROP)


def _adam(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    means, squares, steps = own.averages(weights, "exp_avg", "exp_avg_sq")
    adam(weights, gradients, means, squares, [], steps, decoupled_weight_decay=own.name == "adamw", **rates, **ADAM)


OPTIMIZERS: dict[OptimizerName, Callable[[Optimizer, list[Tensor], list[Tensor], Mapping[str, float]], None]] = {
    "sgd": _sgd,
    "momentum": _sgd,
    "rmsprop": _rmsprop,
    "adam": _adam,
    "adamw": _adam,
}


def build_optimizer(
    name: OptimizerName,
    parameters: Mapping[str, Parameter],
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
) -> Optimizer:
    """Weight decay is for matrices and kernels only: shrinking a bias or a normalisation's scale buys no simplicity."""
    trainable = [parameter for parameter in parameters.values() if parameter.requires_grad]
    matrices = [parameter for parameter in trainable if parameter.ndim >= 2]
    others = [parameter for parameter in trainable if parameter.ndim < 2]
    groups = [
        {"params": params, "lr": learning_rate, "weight_decay": decay}
        for params, decay in ((matrices, weight_decay), (others, 0.0))
        if params
    ]
    return Optimizer(name, groups, momentum)
