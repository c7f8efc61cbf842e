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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from neuropil.training.distributed.dtensor import assembled, divided_as, is_divided, local, whole

SGD: dict[str, Any] = {"dampening": 0.0, "nesterov": False, "maximize": False}
RMSPROP: dict[str, Any] = {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False, "foreach": True}
ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False, "fused": True}
MUON_MOMENTUM, MUON_SCALE = 0.95, 0.2
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Of a x + b x³ + c x⁵, which five times over brings every singular value from 0.01 to 1 close to 1."""


class Optimizer:
    """Calls the functions of `torch.optim`: its classes import the compiler, which takes longer than a small run."""

    def __init__(self, param_groups: list[dict[str, Any]], momentum: float, matrices: Sequence[Sequence[Tensor]] = ()):
        """A group's `rule` is the name of its optimiser; `matrices` are weights that are one matrix together."""
        self.param_groups, self.momentum, self.matrices = param_groups, momentum, matrices
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
        """Of each name the running averages of all weights, zero at first, and last the numbers of their steps. Of what
        is divided over processes, the parts that are here."""
        for weight in weights:
            if weight not in self.state:
                self.state[weight] = {name: torch.zeros_like(weight) for name in names}
                self.state[weight]["step"] = torch.zeros((), device=weight.device)
        return tuple([local(self.state[weight][name]) for weight in weights] for name in (*names, "step"))


Rule: TypeAlias = Callable[[Optimizer, list[Tensor], list[Tensor], Mapping[str, float]], None]


def _sgd(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    weights, gradients = _parts(weights), _parts(gradients)
    sgd(weights, gradients, [None] * len(weights), momentum=0.0, foreach=_together(weights), **rates, **SGD)


def _momentum(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    known = [own.state.get(weight, {}).get("momentum_buffer") for weight in weights]  # begin as the first gradient
    buffers = [None if buffer is None else local(buffer) for buffer in known]
    sgd(_parts(weights), _parts(gradients), buffers, momentum=own.momentum, foreach=_together(weights), **rates, **SGD)
    for weight, buffer in zip(weights, buffers, strict=True):
        if buffer is not None:
            own.state[weight] = {"momentum_buffer": assembled(buffer, weight)}


def _parts(tensors: list[Tensor]) -> list[Tensor]:
    """Those that are here: a rule for every number by itself needs no others."""
    return [local(tensor) for tensor in tensors]


def _together(weights: list[Tensor]) -> bool:
    """A CPU takes one weight after the other anyhow, and sorting them by device costs more than a small model's
    update."""
    return weights[0].device.type != "cpu"


def _rmsprop(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    squares, steps = own.averages(weights, "square_avg")
    rmsprop(_parts(weights), _parts(gradients), squares, [], [], steps, **rates, **RMSPROP)


def _adam(
    own: Optimizer,
    weights: list[Tensor],
    gradients: list[Tensor],
    rates: Mapping[str, float],
    *,
    decoupled: bool = False,
) -> None:
    means, squares, steps = own.averages(weights, "exp_avg", "exp_avg_sq")
    parts = _parts(weights), _parts(gradients), means, squares
    adam(*parts, [], steps, decoupled_weight_decay=decoupled, **rates, **ADAM)


def _muon(own: Optimizer, weights: list[Tensor], gradients: list[Tensor], rates: Mapping[str, float]) -> None:
    averages, _ = own.averages(weights, "momentum_buffer")
    # v ← β v + (1−β) ∇, and what is made orthogonal is (1−β) ∇ + β v
    pairs = zip(_parts(gradients), averages, strict=True)
    wanted = [gradient.lerp(v.lerp_(gradient, 1 - MUON_MOMENTUM), MUON_MOMENTUM) for gradient, v in pairs]
    for index, move, longer in _orthogonal_moves(own, weights, wanted):
        step = rates["lr"] * MUON_SCALE * math.sqrt(longer)
        local(weights[index]).mul_(1 - rates["lr"] * rates["weight_decay"]).sub_(move, alpha=step)


def _orthogonal_moves(own: Optimizer, weights: list[Tensor], wanted: list[Tensor]) -> Iterator[tuple[int, Tensor, int]]:
    """Index of a weight, how the part of it that is here moves, and the longer side of its matrix."""
    here = [index for index, weight in enumerate(weights) if not is_divided(weight)]
    for shape in dict.fromkeys(weights[index].shape for index in here):  # matrices of one shape are multiplied at once
        alike = [index for index in here if weights[index].shape == shape]
        moves = orthogonal(torch.stack([wanted[index] for index in alike]))
        yield from zip(alike, moves, [max(shape)] * len(alike), strict=True)
    number = {id(weight): index for index, weight in enumerate(weights) if is_divided(weight)}
    together = [[number[id(weight)] for weight in matrix if id(weight) in number] for matrix in own.matrices]
    alone = [[index] for index in number.values() if index not in {index for matrix in together for index in matrix}]
    for matrix in filter(None, together + alone):  # gathered one at a time: all would be the whole model
        pieces = [whole(assembled(wanted[index], weights[index])) for index in matrix]
        joined = torch.cat(pieces)
        moved = orthogonal(joined.unsqueeze(0)).squeeze(0).split([len(piece) for piece in pieces])
        for index, move in zip(matrix, moved, strict=True):
            yield index, local(divided_as(move, weights[index])), max(joined.shape)


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
    matrices: Sequence[Sequence[Tensor]] = (),
) -> Optimizer:
    """Weight decay is for matrices and kernels only: shrinking a bias or a normalisation's scale buys no simplicity.
    Muon is for matrices that multiply: `embeddings` are rows of their own, and the weights of each of `matrices`, which
    are divided over processes, are one matrix by rows."""
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
        matrices,
    )
