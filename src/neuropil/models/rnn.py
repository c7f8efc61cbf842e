"""Recurrent neural network: a layer that reads, with every input, what it itself put out one step before.

    a_t = W h_{t−1} + U x_t + b
    h_t = φ(a_t)                               φ is tanh, or any other activation
    o_t = V h_t + c

The last line is a linear layer on top, which whoever uses the cell adds. With n units and m inputs the cell learns n² +
n·m + n numbers, however long the sequence is.

Back-propagation through time (Werbos 1990) is the chain rule on the unrolled steps. With E = Σ_t α_t L(ŷ_t, y_t) for
the error of all steps, and ∂z for its gradient at any z,

    ∂o_t = α_t (ŷ_t − y_t)                     the first link: L = −Σ y ln ŷ, ŷ = softmax(o), or L = ½ ‖ŷ − y‖², ŷ = o
    ∂h_t = Vᵀ ∂o_t + Wᵀ ∂a_{t+1}               the loss of this step, and of all later ones through the next
    ∂a_t = φ'(a_t) ⊙ ∂h_t                      of tanh, φ' = 1 − h_t²
    ∂W = Σ_t ∂a_t h_{t−1}ᵀ,   ∂U = Σ_t ∂a_t x_tᵀ,   ∂b = Σ_t ∂a_t,   ∂V = Σ_t ∂o_t h_tᵀ,   ∂c = Σ_t ∂o_t
    ∂h_0 = Wᵀ ∂a_1

A gradient that travels n steps back is multiplied n times by Wᵀ diag(φ'): like wⁿ it fades or it explodes.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.parts.activations import ACTIVATIONS, SLOPES, ActivationName, softmax
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.recurrence import Cell, FusedKernel, Hidden, Lengths, valid_mask

KERNELS: dict[ActivationName, Literal["rnn_tanh", "rnn_relu"]] = {"tanh": "rnn_tanh", "relu": "rnn_relu"}


class RNNConfig(Config):
    input_size: int = option(64, "input size", low=1)
    hidden_size: int = option(128, "hidden size", low=1)
    activation: ActivationName = option("tanh", "activation φ of the hidden units")


class RNNGates(NamedTuple):
    candidate: Float[Tensor, "*any unit"]


class RNN(Cell):
    def __init__(self, config: RNNConfig):
        super().__init__()
        self.config, self.input_size, self.hidden_size = config, config.input_size, config.hidden_size
        self.activation = ACTIVATIONS[config.activation]
        n, m = config.hidden_size, config.input_size
        self.input_weight = nn.Parameter(torch.empty(n, m))  # U
        self.state_weight = nn.Parameter(torch.empty(n, n))  # W
        self.bias = nn.Parameter(torch.zeros(n))  # b
        nn.init.xavier_uniform_(self.input_weight)
        nn.init.orthogonal_(self.state_weight)  # keeps the length of h, and so the gradient's

    def drive(self, x: Float[Tensor, "*any input"]) -> Float[Tensor, "*any unit"]:
        return F.linear(x, self.input_weight, self.bias)  # U x + b

    def gates(self, drive: Float[Tensor, "*any unit"], h: Float[Tensor, "*any unit"]) -> RNNGates:
        return RNNGates(self.activation(drive + F.linear(h, self.state_weight)))  # φ(W h + U x + b)

    def update(self, gates: RNNGates, state: Hidden) -> Hidden:
        return Hidden(gates.candidate)

    def kernel(self) -> FusedKernel | None:
        if self.config.activation not in KERNELS:
            return None
        weights = (self.input_weight, self.state_weight, self.bias, torch.zeros_like(self.bias))
        return FusedKernel(KERNELS[self.config.activation], weights)

    def parameter_row(self, name: str) -> ParameterRow:
        return ParameterRow(name, "n^2 + n*m + n", {"n": self.hidden_size, "m": self.input_size})


class RNNGradients(NamedTuple):
    """Of one loss, in the letters of the equations."""

    W: Float[Tensor, "unit unit"]
    U: Float[Tensor, "unit input"]
    b: Float[Tensor, " unit"]
    V: Float[Tensor, "output unit"]
    c: Float[Tensor, " output"]
    h_0: Float[Tensor, "batch unit"]
    h: Float[Tensor, "batch time unit"]
    """At each step's h, from which one sees how far back a loss is felt."""


@torch.no_grad()
def gradients_by_hand(
    cell: RNN,
    output: nn.Linear,
    x: Float[Tensor, "batch time input"],
    target: Int64[Tensor, "batch time"] | Float[Tensor, "batch time output"],
    first: Hidden | None = None,
    lengths: Lengths | None = None,
    weights: Float[Tensor, "batch time"] | None = None,
) -> RNNGradients:
    """Back-propagation through time, written out from the loss on. Targets are class numbers, for the cross-entropy, or
    vectors, for the squared error; `weights` are the α of each step, 1 unless given. E is a sum, over rows too."""
    # o_t = V h_t + c,   ∂o_t = α_t (ŷ_t − y_t)
    do = error(output(cell(x, first, lengths).outputs), target)
    if weights is not None:
        do = weights.unsqueeze(-1) * do
    return back_through_time(cell, output.weight, x, do, first, lengths)


def error(
    o: Float[Tensor, "*any output"], target: Int64[Tensor, "*any"] | Float[Tensor, "*any output"]
) -> Float[Tensor, "*any output"]:
    """ŷ − y: with ŷ = softmax(o) and y one-hot where targets are class numbers, with ŷ = o where they are vectors."""
    if target.is_floating_point():
        return o - target
    return softmax(o) - F.one_hot(target, o.shape[-1]).to(o)


@torch.no_grad()
def back_through_time(
    cell: RNN,
    V: Float[Tensor, "output unit"],
    x: Float[Tensor, "batch time input"],
    do: Float[Tensor, "batch time output"],
    first: Hidden | None = None,
    lengths: Lengths | None = None,
) -> RNNGradients:
    """The gradients of any loss whose gradient at the outputs o_t is `do`; past a row's length nothing counts."""
    begin: Hidden = cell.initial(x) if first is None else first
    h, W, slope = cell(x, begin, lengths).outputs, cell.state_weight, SLOPES[cell.config.activation]
    if lengths is not None:
        padding = ~valid_mask(lengths, x.shape[1]).unsqueeze(-1)
        x, do = x.masked_fill(padding, 0), do.masked_fill(padding, 0)
    before = torch.cat([begin.h.unsqueeze(1), h], 1)[:, :-1]  # h_{t−1}
    phi = slope(cell.drive(x) + F.linear(before, W), h)  # φ'(a_t)
    dh, da = torch.zeros_like(h), torch.zeros_like(h)
    later = torch.zeros_like(begin.h)  # Wᵀ ∂a_{t+1}
    for t in reversed(range(x.shape[1])):
        # ∂h_t = Vᵀ ∂o_t + Wᵀ ∂a_{t+1},   ∂a_t = φ'(a_t) ⊙ ∂h_t
        dh[:, t] = do[:, t] @ V + later
        da[:, t] = phi[:, t] * dh[:, t]
        later = da[:, t] @ W
    return RNNGradients(
        W=torch.einsum("bti,btj->ij", da, before),
        U=torch.einsum("bti,btj->ij", da, x),
        b=da.sum((0, 1)),
        V=torch.einsum("bti,btj->ij", do, h),
        c=do.sum((0, 1)),
        h_0=later,
        h=dh,
    )


SIZES = {"small": RNNConfig(hidden_size=32), "base": RNNConfig(), "relu": RNNConfig(activation="relu")}
