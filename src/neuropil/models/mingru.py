"""minGRU (Feng et al. 2024): a gated unit whose gate and candidate look at the input alone, so that a whole sequence is
one parallel scan.

    g_t = σ(U_g x_t + b_g)                       update: how much of the candidate comes in
    h̃_t = U x_t + b                              candidate
    h_t = g_t ⊙ h̃_t + (1 − g_t) ⊙ h_{t−1}

Each h_t is linear in h_{t−1}: `parts.scan` finds all of them in O(log T) steps. With `positive` candidates,

    h̃_t = e^a for a < 0, and 1 + a otherwise,    a = U x_t + b

the recurrence can also be run on logarithms (`log_outputs`), as the paper does to keep its own scan from overflowing;
the scan that is used here neither divides nor overflows, and needs none.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.recurrence import Cell, Hidden, LinearSteps
from neuropil.parts.scan import log_scan


class MinGRUConfig(Config):
    input_size: int = option(64, "input size", low=1)
    hidden_size: int = option(128, "hidden size", low=1)
    positive: bool = option(False, "positive candidates only, which also run in log space")


class MinGRUGates(NamedTuple):
    update: Float[Tensor, "*any unit"]
    candidate: Float[Tensor, "*any unit"]


class MinGRU(Cell):
    def __init__(self, config: MinGRUConfig):
        super().__init__()
        self.config, self.input_size, self.hidden_size = config, config.input_size, config.hidden_size
        n, m = config.hidden_size, config.input_size
        self.input_weight = nn.Parameter(torch.empty(2 * n, m))  # U_g U
        self.bias = nn.Parameter(torch.zeros(2 * n))
        for u in self.input_weight.chunk(2):
            nn.init.xavier_uniform_(u)

    def drive(self, x: Float[Tensor, "*any input"]) -> Float[Tensor, "*any drive"]:
        return F.linear(x, self.input_weight, self.bias)  # U x + b

    def gates(self, drive: Float[Tensor, "*any drive"], h: Float[Tensor, "*any unit"]) -> MinGRUGates:
        g, a = drive.chunk(2, -1)
        candidate = torch.where(a < 0, a.clamp(max=0).exp(), 1 + a) if self.config.positive else a
        return MinGRUGates(torch.sigmoid(g), candidate)

    def update(self, gates: MinGRUGates, state: Hidden) -> Hidden:
        g, candidate = gates
        return Hidden(g * candidate + (1 - g) * state.h)

    def linear(self, drive: Float[Tensor, "batch time drive"]) -> LinearSteps:
        g, candidate = self.gates(drive, drive)
        return LinearSteps(1 - g, g * candidate)

    def log_outputs(
        self, x: Float[Tensor, "batch time input"], first: Hidden | None = None
    ) -> Float[Tensor, "batch time unit"]:
        """All h_t, by logarithms: log g = −log(1 + e^{−a}), log (1 − g) = −log(1 + e^a)."""
        if not self.config.positive:
            rule = "logarithms need candidates above zero"
            raise InputError(rule, got="positive=False", fix="set positive=True")
        g, a = self.drive(x).chunk(2, -1)
        log_candidate = torch.where(a < 0, a, torch.log1p(a.clamp(min=0)))
        h = (self.initial(x) if first is None else first).h
        return log_scan(F.logsigmoid(-g), F.logsigmoid(g) + log_candidate, h)

    def parameter_row(self, name: str) -> ParameterRow:
        return ParameterRow(name, "2*(n*m + n)", {"n": self.hidden_size, "m": self.input_size})


SIZES = {"small": MinGRUConfig(hidden_size=32), "base": MinGRUConfig(), "positive": MinGRUConfig(positive=True)}
