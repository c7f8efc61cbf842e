"""Dense layers from an input of any shape to a vector of features, and back.

encoder    h⁰ = u,    hˡ = φ(Wˡ hˡ⁻¹ + bˡ)                          l = 1 … L;  the features are h^L
decoder    h⁰ = z,    hˡ = φ(Wˡ hˡ⁻¹ + bˡ),    a = W h^L + b        a: what enters the output units
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from neuropil.parts.activations import ACTIVATIONS, ActivationName
from neuropil.parts.parameters import TypedModuleList

RECTIFIERS = ("relu", "gelu", "softplus")


class DenseEncoder(nn.Module):
    def __init__(self, shape: Sequence[int], hidden_sizes: Sequence[int], activation: ActivationName):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        sizes = (math.prod(shape), *hidden_sizes)
        self.layers = TypedModuleList[nn.Linear](dense(n, m, activation) for n, m in pairwise(sizes))
        self.features = sizes[-1]
        self.shapes = [tuple(shape), *((size,) for size in hidden_sizes)]

    def forward(self, u: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch feature"]:
        h = u.flatten(1)
        for linear in self.layers:
            # hˡ = φ(Wˡ hˡ⁻¹ + bˡ)
            h = self.activation(linear(h))
        return h


class DenseDecoder(nn.Module):
    def __init__(self, latent_size: int, hidden_sizes: Sequence[int], shape: Sequence[int], activation: ActivationName):
        super().__init__()
        self.activation, self.shape = ACTIVATIONS[activation], tuple(shape)
        sizes = (latent_size, *hidden_sizes)
        self.layers = TypedModuleList[nn.Linear](dense(n, m, activation) for n, m in pairwise(sizes))
        self.output = dense(sizes[-1], math.prod(shape), "identity")

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]:
        h = z
        for linear in self.layers:
            h = self.activation(linear(h))
        return self.output(h).unflatten(1, self.shape)


def dense(n: int, m: int, activation: ActivationName) -> nn.Linear:
    """Var W = 1/n keeps the variance from layer to layer; 2/n where a rectifier is going to halve it."""
    layer = nn.Linear(n, m)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu" if activation in RECTIFIERS else "linear")
    nn.init.zeros_(layer.bias)
    return layer
