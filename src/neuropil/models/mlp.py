"""Multilayer perceptron: layers of units, each a weighted sum and an activation.

    h⁰ = (x − μ) / σ
    hˡ = φ(Wˡ hˡ⁻¹ + bˡ)          l = 1 … L
    y  = W h^L + b                 logits of the classes, or numbers in the targets' units

One hidden layer of enough units comes as near to any continuous function as wanted (see `universal_approximation`).
Without φ the layers collapse to one, W² (W¹ x + b¹) + b² = (W² W¹) x + (W² b¹ + b²): it is the activation that makes
depth worth having.

Two remedies keep the gradient alive in deep stacks: batch normalisation of the sums, φ(BN(W h + b)), and residual
layers, h + φ(W h + b).
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Self

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.activations import ACTIVATIONS, ActivationName
from neuropil.parts.coders.dense import dense
from neuropil.parts.parameters import Model
from neuropil.parts.standardize import Standardize
from neuropil.ranges import Choices, Range

FEW_ROWS = 2_000
"""A table of fewer is learned by heart by a network of the usual size."""
USUAL, FOR_FEW_ROWS = (256, 256), (64,)
"""Hidden sizes, where they are not given."""


class MLPConfig(Config):
    hidden_sizes: tuple[int, ...] | None = option(
        None,
        "hidden sizes, one for each layer, or no number for a linear model; by default 256 256, "
        f"and 64 for tables of fewer than {FEW_ROWS:,} rows",
        low=1,
        tune=Choices(((128,), (512,), (128, 128), (512, 512))),
    )
    activation: ActivationName = option("relu", "activation of the hidden units")
    dropout: float = option(0.2, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    batch_norm: bool = option(False, "batch normalisation")
    residual: bool = option(False, "residual connections between layers of the same size")
    shape: tuple[int, ...] = from_data((1, 8, 8), "axes of one input: features, or channels, height, width")
    outputs: int = from_data(10, "number of classes, or of target columns")

    def sized(self, num_examples: int | None = None) -> Self:
        """With hidden sizes for so many examples, or the usual ones, where they are not given."""
        few = num_examples is not None and num_examples < FEW_ROWS and len(self.shape) == 1
        default = FOR_FEW_ROWS if few else USUAL
        return replace(self, hidden_sizes=default if self.hidden_sizes is None else self.hidden_sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of the input and of the hidden layers."""
        return (math.prod(self.shape), *(self.hidden_sizes or ()))


class MLP(Model):
    def __init__(self, config: MLPConfig):
        super().__init__()
        self.config = config = config.sized()
        self.activation = ACTIVATIONS[config.activation]
        self.standardize = Standardize(config.shape)
        self.hidden = nn.ModuleList(dense(n, m, config.activation) for n, m in pairwise(config.sizes))
        normalised = nn.BatchNorm1d if config.batch_norm else nn.Identity
        self.norms = nn.ModuleList(normalised(m) for m in config.sizes[1:])
        self.dropout = nn.Dropout(config.dropout)
        self.output = dense(config.sizes[-1], config.outputs, "identity")
        self.target_scale = Standardize((config.outputs,))

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch output"]:
        h = self.standardize(x).flatten(1)  # batch input
        for linear, norm in zip(self.hidden, self.norms, strict=True):
            a = self.dropout(self.activation(norm(linear(h))))  # batch unit
            h = h + a if self.config.residual and a.shape == h.shape else a
        return self.target_scale.inverse(self.output(h))

    def collapse(self) -> nn.Linear:
        """The one layer, from flattened inputs to outputs, that a net without an activation amounts to."""
        if self.config.hidden_sizes and self.config.activation != "identity":
            rule = "only layers without an activation collapse to one"
            raise InputError(rule, got=f"activation={self.config.activation!r}")
        was_training = self.training
        self.eval()
        # A map f(x) = W x + b is known by its value at the origin, b, and by its slope there, W.
        origin = torch.zeros(1, *self.config.shape, device=self.output.weight.device, requires_grad=True)
        bias = self(origin).squeeze(0)
        slopes = [torch.autograd.grad(y, origin, retain_graph=True)[0].flatten() for y in bias]
        self.train(was_training)
        return linear_of(torch.stack(slopes), bias)


def with_bias_unit(layer: nn.Linear) -> nn.Linear:
    """The same layer with no bias: an extra input unit that is always on carries it.

    W x + b = [W b] [x 1]ᵀ
    """
    return linear_of(torch.cat([layer.weight, layer.bias.unsqueeze(1)], dim=1))


def always_on(x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n+1"]:
    """The units x and one more, which is always 1."""
    return torch.cat([x, torch.ones_like(x[:, :1])], dim=1)


def linear_of(weight: Float[Tensor, "m n"], bias: Float[Tensor, " m"] | None = None) -> nn.Linear:
    m, n = weight.shape
    layer = nn.Linear(n, m, bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.detach())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach())
    return layer


SIZES = {
    "linear": MLPConfig(hidden_sizes=(), dropout=0.0),
    "small": MLPConfig(hidden_sizes=(64,), dropout=0.0),
    "base": MLPConfig(),
    "large": MLPConfig(hidden_sizes=(1024, 1024)),
}
