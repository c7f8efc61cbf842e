"""Recurrent neural network: a layer that reads, with every input, what it itself put out one step before.

    h_t = tanh(W h_{t−1} + U x_t + b)
    o_t = V h_t + c

The second line is a linear layer on top, which whoever uses the cell adds. With n units and m inputs the cell learns n²
+ n·m + n numbers, however long the sequence is.

Back-propagation through time (Werbos 1990) is the chain rule on the unrolled steps. With ∂h_t for the gradient of the
loss L at h_t and ∂a_t for that at the sum inside tanh,

    ∂h_t = Vᵀ ∂o_t + Wᵀ ∂a_{t+1}              the loss of this step, and of all later ones through the next
    ∂a_t = (1 − h_t²) ⊙ ∂h_t
    ∂W = Σ_t ∂a_t h_{t−1}ᵀ,   ∂U = Σ_t ∂a_t x_tᵀ,   ∂b = Σ_t ∂a_t,   ∂V = Σ_t ∂o_t h_tᵀ,   ∂c = Σ_t ∂o_t

A gradient that travels n steps back is multiplied n times by Wᵀ diag(1 − h²): like wⁿ it fades or it explodes.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.recurrence import Cell, FusedKernel, Hidden


class RNNConfig(Config):
    input_size: int = option(64, "input size", low=1)
    hidden_size: int = option(128, "hidden size", low=1)


class RNNGates(NamedTuple):
    candidate: Float[Tensor, "*any unit"]


class RNN(Cell):
    def __init__(self, config: RNNConfig):
        super().__init__()
        self.config, self.input_size, self.hidden_size = config, config.input_size, config.hidden_size
        n, m = config.hidden_size, config.input_size
        self.input_weight = nn.Parameter(torch.empty(n, m))  # U
        self.state_weight = nn.Parameter(torch.empty(n, n))  # W
        self.bias = nn.Parameter(torch.zeros(n))  # b
        nn.init.xavier_uniform_(self.input_weight)
        nn.init.orthogonal_(self.state_weight)  # keeps the length of h, and so the gradient's

    def drive(self, x: Float[Tensor, "*any input"]) -> Float[Tensor, "*any unit"]:
        return F.linear(x, self.input_weight, self.bias)  # U x + b

    def gates(self, drive: Float[Tensor, "*any unit"], h: Float[Tensor, "*any unit"]) -> RNNGates:
        return RNNGates(torch.tanh(drive + F.linear(h, self.state_weight)))

    def update(self, gates: RNNGates, state: Hidden) -> Hidden:
        return Hidden(gates.candidate)

    def kernel(self) -> FusedKernel:
        return FusedKernel("rnn_tanh", (self.input_weight, self.state_weight, self.bias, torch.zeros_like(self.bias)))

    def parameter_row(self, name: str) -> ParameterRow:
        return ParameterRow(name, "n^2 + n*m + n", {"n": self.hidden_size, "m": self.input_size})


class RNNGradients(NamedTuple):
    """Of one loss, in the letters of the equations."""

    W: Float[Tensor, "unit unit"]
    U: Float[Tensor, "unit input"]
    b: Float[Tensor, " unit"]
    V: Float[Tensor, "output unit"]
    c: Float[Tensor, " output"]
    h: Float[Tensor, "batch time unit"]
    """At each step's h, from which one sees how far back a loss is felt."""


@torch.no_grad()
def gradients_by_hand(
    cell: RNN,
    V: Float[Tensor, "output unit"],
    x: Float[Tensor, "batch time input"],
    do: Float[Tensor, "batch time output"],
    first: Hidden | None = None,
) -> RNNGradients:
    """Back-propagation through time, written out: the gradients of a loss whose gradient at the outputs o_t is `do`."""
    begin: Hidden = cell.initial(x) if first is None else first
    h = cell(x, begin).outputs
    before = torch.cat([begin.h.unsqueeze(1), h], 1)[:, :-1]  # h_{t−1}
    dh, da = torch.zeros_like(h), torch.zeros_like(h)
    later = torch.zeros_like(begin.h)  # Wᵀ ∂a_{t+1}
    for t in reversed(range(x.shape[1])):
        # ∂h_t = Vᵀ ∂o_t + Wᵀ ∂a_{t+1},   ∂a_t = (1 − h_t²) ⊙ ∂h_t
        dh[:, t] = do[:, t] @ V + later
        da[:, t] = (1 - h[:, t] ** 2) * dh[:, t]
        later = da[:, t] @ cell.state_weight
    return RNNGradients(
        W=torch.einsum("bti,btj->ij", da, before),
        U=torch.einsum("bti,btj->ij", da, x),
        b=da.sum((0, 1)),
        V=torch.einsum("bti,btj->ij", do, h),
        c=do.sum((0, 1)),
        h=dh,
    )


SIZES = {"small": RNNConfig(hidden_size=32), "base": RNNConfig()}
