"""Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers 2000): a cell that keeps what
it holds until a gate lets it go.

    f = σ(W_f h + U_f x + b_f)          forget: how much of the cell stays
    i = σ(W_i h + U_i x + b_i)          input: how much of the candidate comes in
    g = tanh(W_g h + U_g x + b_g)       candidate
    o = σ(W_o h + U_o x + b_o)          output: how much of the cell is shown
    c' = f ⊙ c + i ⊙ g
    h' = o ⊙ tanh(c')

From c to c' there is no matrix and no squashing, only f: where the forget gate is open the gradient comes back as it
was, however many steps ago. The weights of the four gates stand below one another in PyTorch's order, i f g o; PyTorch
has a second bias that adds nothing.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.recurrence import Cell, FusedKernel

SHUT = 1e4
"""Far more than W h adds: σ of it is exactly 1, and σ of its negative exactly 0."""


class LSTMConfig(Config):
    input_size: int = option(64, "input size", low=1)
    hidden_size: int = option(128, "hidden size", low=1)
    forget_bias: float = option(1.0, "initial bias of the forget gate")


class LSTMState(NamedTuple):
    h: Float[Tensor, "batch unit"]
    c: Float[Tensor, "batch unit"]


class LSTMGates(NamedTuple):
    input: Float[Tensor, "*any unit"]
    forget: Float[Tensor, "*any unit"]
    candidate: Float[Tensor, "*any unit"]
    output: Float[Tensor, "*any unit"]


class LSTM(Cell):
    begins = LSTMState

    def __init__(self, config: LSTMConfig):
        super().__init__()
        self.config, self.input_size, self.hidden_size = config, config.input_size, config.hidden_size
        n, m = config.hidden_size, config.input_size
        self.input_weight = nn.Parameter(torch.empty(4 * n, m))  # U_i U_f U_g U_o
        self.state_weight = nn.Parameter(torch.empty(4 * n, n))  # W_i W_f W_g W_o
        self.bias = nn.Parameter(torch.zeros(4 * n))
        for u, w in zip(self.input_weight.chunk(4), self.state_weight.chunk(4), strict=True):
            nn.init.xavier_uniform_(u)
            nn.init.orthogonal_(w)
        nn.init.constant_(self.bias[n : 2 * n], config.forget_bias)

    def drive(self, x: Float[Tensor, "*any input"]) -> Float[Tensor, "*any drive"]:
        return F.linear(x, self.input_weight, self.bias)  # U x + b

    def gates(self, drive: Float[Tensor, "*any drive"], h: Float[Tensor, "*any unit"]) -> LSTMGates:
        i, f, g, o = (drive + F.linear(h, self.state_weight)).chunk(4, -1)  # U x + W h + b
        return LSTMGates(torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))

    def update(self, gates: LSTMGates, state: LSTMState) -> LSTMState:
        i, f, g, o = gates
        c = f * state.c + i * g
        return LSTMState(o * torch.tanh(c), c)

    def kernel(self) -> FusedKernel:
        weights = (self.input_weight, self.state_weight, self.bias, torch.zeros_like(self.bias))
        return FusedKernel("lstm", weights, keep=(-SHUT, SHUT, 0, 0))  # i = 0 and f = 1, so c' = c

    def parameter_row(self, name: str) -> ParameterRow:
        return ParameterRow(name, "4*(n^2 + n*m + n)", {"n": self.hidden_size, "m": self.input_size})


SIZES = {"small": LSTMConfig(hidden_size=32), "base": LSTMConfig()}
