"""The least that networks need: parameters with names, five layers, two optimisers.

Calling a module marks the ops used in it as its group, so that drawings can show it as one box.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from neuropil.autodiff import ops
from neuropil.autodiff.engine import Var, group


class Module:
    """Holds its parameters (Vars) and parts (Modules, or lists of them) as attributes, and computes in `forward`."""

    name = ""
    forward: Callable[..., Any]

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        for label, part in _named(name, value):
            part.name = label

    def __call__(self, *args: Any) -> Any:
        with group(self.name or type(self).__name__):
            return self.forward(*args)

    def parameters(self) -> dict[str, Var]:
        """Every parameter here and in the parts, under its dotted name: ``hidden.weight``."""
        found: dict[str, Var] = {}
        for attribute, value in vars(self).items():
            for label, part in _named(attribute, value):
                inside = {"": part} if isinstance(part, Var) else part.parameters()
                found |= {f"{label}.{name}".removesuffix("."): var for name, var in inside.items()}
        return found


def _named(name: str, value: Any) -> "Iterator[tuple[str, Var | Module]]":
    if isinstance(value, Var | Module):
        yield name, value
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _named(f"{name}.{i}", item)


class LinearLayer(Module):
    """y = x W + b."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator):
        self.weight = Var(rng.normal(0, inputs**-0.5, (inputs, outputs)))
        self.bias = Var(np.zeros(outputs))

    def forward(self, x: Float[Var, "*batch inputs"]) -> Float[Var, "*batch outputs"]:
        return x @ self.weight + self.bias


class Conv(Module):
    """y = x ⋆ kernel + b, one bias for each kernel."""

    def __init__(
        self, inputs: int, outputs: int, size: int, rng: np.random.Generator, stride: int = 1, padding: int = 0
    ):
        self.kernel = Var(rng.normal(0, (inputs * size * size) ** -0.5, (outputs, inputs, size, size)))
        self.bias = Var(np.zeros((outputs, 1, 1)))
        self.stride, self.padding = stride, padding

    def forward(self, x: Float[Var, "batch inputs height width"]) -> Float[Var, "batch outputs rows columns"]:
        return ops.conv2d(x, self.kernel, self.stride, self.padding) + self.bias


class RNNCell(Module):
    """One step of a simple recurrent network, h' = tanh(x U + h W + b)."""

    def __init__(self, inputs: int, width: int, rng: np.random.Generator):
        self.input_weight = Var(rng.normal(0, inputs**-0.5, (inputs, width)))  # U
        self.state_weight = Var(rng.normal(0, width**-0.5, (width, width)))  # W
        self.bias = Var(np.zeros(width))

    def forward(self, x: Float[Var, "batch inputs"], h: Float[Var, "batch width"]) -> Float[Var, "batch width"]:
        return ops.tanh(x @ self.input_weight + h @ self.state_weight + self.bias)


class AttentionHead(Module):
    """Each position asks with q, is found by k and gives v:  softmax(q kᵀ / √width) v."""

    def __init__(self, inputs: int, width: int, rng: np.random.Generator):
        self.query = LinearLayer(inputs, width, rng)
        self.key = LinearLayer(inputs, width, rng)
        self.value = LinearLayer(inputs, width, rng)
        self.scale = width**-0.5

    def forward(self, x: Float[Var, "batch time inputs"]) -> Float[Var, "batch time width"]:
        score = self.query(x) @ self.key(x).transpose((0, 2, 1)) * self.scale  # batch query key
        return ops.softmax(score) @ self.value(x)


class SGD:
    """v ← β v + ∇E,  θ ← θ - κ v, with β the momentum and κ the rate."""

    def __init__(self, parameters: Mapping[str, Var], rate: float, momentum: float = 0.0):
        self.parameters, self.rate, self.momentum = parameters, rate, momentum
        self.velocity = {name: np.zeros_like(var.val) for name, var in parameters.items()}

    def step(self) -> None:
        for name, var in self.parameters.items():
            self.velocity[name] = self.momentum * self.velocity[name] + var.grad
            var.val = var.val - self.rate * self.velocity[name]


class Adam:
    """m ← β₁ m + (1 - β₁) ∇E,  v ← β₂ v + (1 - β₂) ∇E²,  θ ← θ - κ m̂ / (√v̂ + ε), with bias-corrected m̂ and v̂."""

    def __init__(
        self,
        parameters: Mapping[str, Var],
        rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ):
        self.parameters, self.rate, self.betas, self.epsilon = parameters, rate, betas, epsilon
        self.mean = {name: np.zeros_like(var.val) for name, var in parameters.items()}
        self.square = {name: np.zeros_like(var.val) for name, var in parameters.items()}
        self.num_steps = 0

    def step(self) -> None:
        self.num_steps += 1
        beta1, beta2 = self.betas
        for name, var in self.parameters.items():
            self.mean[name] = beta1 * self.mean[name] + (1 - beta1) * var.grad
            self.square[name] = beta2 * self.square[name] + (1 - beta2) * var.grad**2
            mean = self.mean[name] / (1 - beta1**self.num_steps)
            square = self.square[name] / (1 - beta2**self.num_steps)
            var.val = var.val - self.rate * mean / (np.sqrt(square) + self.epsilon)
