"""Optimisers by name. The update rules are PyTorch's; here is what each one is.

sgd        w ← w − η ∇
momentum   v ← β v + ∇            w ← w − η v
rmsprop    s ← ρ s + (1−ρ) ∇²     w ← w − η ∇ / √s
adam       m ← β₁ m + (1−β₁) ∇    s ← β₂ s + (1−β₂) ∇²    w ← w − η m̂ / √ŝ
adamw      adam, with the weight decay taken from w itself and not through the gradient
"""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

OptimizerName = Literal["sgd", "momentum", "rmsprop", "adam", "adamw"]

OPTIMIZERS: dict[OptimizerName, Callable[..., Optimizer]] = {
    "sgd": lambda groups, lr, momentum: torch.optim.SGD(groups, lr=lr, foreach=True),
    "momentum": lambda groups, lr, momentum: torch.optim.SGD(groups, lr=lr, momentum=momentum, foreach=True),
    "rmsprop": lambda groups, lr, momentum: torch.optim.RMSprop(groups, lr=lr, foreach=True),
    "adam": lambda groups, lr, momentum: torch.optim.Adam(groups, lr=lr, fused=True),
    "adamw": lambda groups, lr, momentum: torch.optim.AdamW(groups, lr=lr, fused=True),
}


def build_optimizer(
    name: OptimizerName,
    parameters: Mapping[str, Parameter],
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
) -> Optimizer:
    """Weight decay pulls on matrices and kernels only: shrinking a bias or a normalisation's scale buys no simplicity."""
    trainable = [parameter for parameter in parameters.values() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trainable if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    return OPTIMIZERS[name]([group for group in groups if group["params"]], learning_rate, momentum)
