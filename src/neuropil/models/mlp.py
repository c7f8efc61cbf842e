"""Multilayer perceptron: layers of units, each a weighted sum and an activation.

    h⁰ = (x − μ) / σ
    hˡ = φ(Wˡ hˡ⁻¹ + bˡ)          l = 1 … L
    y  = W h^L + b                 logits of the classes, or numbers in the targets' units

One hidden layer of enough units comes as near to any continuous function as wanted (see `universal_approximation`).
Without φ the layers collapse to one, W² (W¹ x + b¹) + b² = (W² W¹) x + (W² b¹ + b²): it is the activation that makes
depth worth having.

Two remedies keep the gradient alive in deep stacks: batch normalisation of the sums, φ(BN(W h + b)), and residual
layers, h + φ(W h + b).

Back-propagation (Rumelhart, Hinton and Williams 1986) is the chain rule from the output to the input, for a whole batch
at once. The rows of X, of Hˡ and of the sums Aˡ = Hˡ⁻¹ Wˡᵀ + bˡ are examples, and δˡ is the gradient of the loss at Aˡ:

    δ^{L+1} = ∂E/∂Y                            the error (Y − T) / N, see `gradients_by_hand`
    δˡ = (δˡ⁺¹ Wˡ⁺¹) ⊙ φ'(Aˡ)                  back through the weights and through the activation
    ∂Wˡ = δˡᵀ Hˡ⁻¹,   ∂bˡ = Σ_rows δˡ          each a sum over the batch

PyTorch stores a weight as [outputs, inputs]. For W stored the other way, A = H W + b, the same lines are
δˡ = (δˡ⁺¹ Wˡ⁺¹ᵀ) ⊙ φ'(Aˡ) and ∂Wˡ = Hˡ⁻¹ᵀ δˡ.
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.activations import ACTIVATIONS, SLOPES, ActivationName
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
        tune=Choices(((32,), (128,), (512,), (128, 128), (512, 512))),
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


class LayerGradients(NamedTuple):
    """Of one layer, in the letters of the equations."""

    W: Float[Tensor, "m n"]
    b: Float[Tensor, " m"]
    delta: Float[Tensor, "batch m"]
    """At the sums of each example, from which one sees how the error fades from layer to layer."""


@torch.no_grad()
def gradients_by_hand(
    model: MLP, x: Num[Tensor, "batch *shape"], dy: Float[Tensor, "batch output"]
) -> list[LayerGradients]:
    """Back-propagation, written out: the gradients, of each layer from the first to the output, of a loss whose
    gradient at the outputs y is `dy`. For the mean of N losses, with targets t, one-hot for classes, it is

        categorical cross-entropy    (softmax(y) − t) / N
        Bernoulli cross-entropy      (logistic(y) − t) / N
        squared error ½‖y − t‖²      (y − t) / N
    """
    require_plain_layers(model)
    phi, slope = model.activation, SLOPES[model.config.activation]
    weights = [layer.get_parameter("weight") for layer in (*model.hidden, model.output)]
    # H⁰ = (X − μ) / σ,   Aˡ = Hˡ⁻¹ Wˡᵀ + bˡ,   Hˡ = φ(Aˡ), and Hˡ⁻¹ + φ(Aˡ) in a residual layer
    H, A, skips = [model.standardize(x).flatten(1)], list[Tensor](), list[bool]()
    for layer, W in zip(model.hidden, weights, strict=False):
        A.append(H[-1] @ W.mT + layer.get_parameter("bias"))
        skips.append(model.config.residual and A[-1].shape == H[-1].shape)
        H.append(H[-1] + phi(A[-1]) if skips[-1] else phi(A[-1]))
    # δ^{L+1} = ∂E/∂Y, times the standard deviation of the targets where the outputs have one
    delta = dy * model.target_scale.std
    found = [LayerGradients(delta.mT @ H[-1], delta.sum(0), delta)]
    dh = delta @ weights[-1]
    for k in reversed(range(len(A))):  # layer l = k + 1
        # δˡ = (δˡ⁺¹ Wˡ⁺¹) ⊙ φ'(Aˡ),   ∂Wˡ = δˡᵀ Hˡ⁻¹,   ∂bˡ = Σ_rows δˡ
        delta = dh * slope(A[k], phi(A[k]))
        found.append(LayerGradients(delta.mT @ H[k], delta.sum(0), delta))
        dh = delta @ weights[k] + (dh if skips[k] else 0)
    return found[::-1]


def require_plain_layers(model: MLP) -> None:
    rule = "back-propagation by hand is written for layers without dropout and batch normalisation"
    if model.config.batch_norm:
        raise InputError(rule, got="batch_norm=True")
    if model.training and model.config.dropout:
        raise InputError(rule, got=f"dropout={model.config.dropout:g} in training", fix="call model.eval() first")


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
