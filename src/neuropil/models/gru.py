"""Gated recurrent unit (Cho et al. 2014): one gate decides how much of the state is new, another how much of the old
one the new sees.

    r = σ(W_r h + U_r x + b_r)                     reset: how much of the old state the candidate sees
    g = σ(W_g h + U_g x + b_g)                     update: how much of the candidate is taken
    h̃ = tanh(r ⊙ (W h + b') + U x + b)             candidate
    h' = g ⊙ h̃ + (1 − g) ⊙ h

There are two conventions for each gate, and all of them can be had:

- `gate="keep"` learns z = 1 − g, how much of the old state is kept, as PyTorch does; `gate="take"` learns g itself. As
  1 − σ(a) = σ(−a), the weights of one are those of the other with the sign changed (`convert`).
- `reset="after"` is the candidate above, PyTorch's, which has a kernel. `reset="before"` is the first paper's,
  h̃ = tanh(W (r ⊙ h) + U x + b); they differ for every W that is not diagonal. `reset="none"` has no such gate, r = 1:
  the gated unit with one gate. `reset="shared"` is the minimal gated unit (Zhou 2016), whose one gate does both, r = g,
  before the product.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.recurrence import Cell, FusedKernel, Hidden

OPEN = 40.0
"""A sum at which σ is exactly 1 in double precision."""

Gate = Literal["keep", "take"]
Reset = Literal["after", "before", "none", "shared"]


class GRUConvention(Config):
    gate: Gate = option("keep", "update gate: share of the old state that is kept, or of the new one that is taken")
    reset: Reset = option(
        "after",
        "reset gate after the product with W (PyTorch), before it (Cho 2014), none, or shared: one gate for both",
    )


class GRUConfig(GRUConvention):
    input_size: int = option(64, "input size", low=1)
    hidden_size: int = option(128, "hidden size", low=1)

    @property
    def num_gates(self) -> int:
        return 2 if self.reset in ("after", "before") else 1


class GRUGates(NamedTuple):
    reset: Float[Tensor, "*any unit"]
    update: Float[Tensor, "*any unit"]
    candidate: Float[Tensor, "*any unit"]


class GRU(Cell):
    def __init__(self, config: GRUConfig):
        super().__init__()
        self.config, self.input_size, self.hidden_size = config, config.input_size, config.hidden_size
        n, m, parts = config.hidden_size, config.input_size, config.num_gates + 1
        self.input_weight = nn.Parameter(torch.empty(parts * n, m))  # U_r U_g U
        self.state_weight = nn.Parameter(torch.empty(parts * n, n))  # W_r W_g W
        self.bias = nn.Parameter(torch.zeros(parts * n))
        if config.reset == "after":
            self.state_bias = nn.Parameter(torch.zeros(n))  # b'
        for u, w in zip(self.input_weight.chunk(parts), self.state_weight.chunk(parts), strict=True):
            nn.init.xavier_uniform_(u)
            nn.init.orthogonal_(w)

    def drive(self, x: Float[Tensor, "*any input"]) -> Float[Tensor, "*any drive"]:
        return F.linear(x, self.input_weight, self.bias)  # U x + b

    def gates(self, drive: Float[Tensor, "*any drive"], h: Float[Tensor, "*any unit"]) -> GRUGates:
        n, before = self.hidden_size, self.config.reset in ("before", "shared")
        seen = h @ (self.state_weight[:-n] if before else self.state_weight).mT  # W_r h, W_g h (, W h)
        opened = torch.sigmoid(drive[..., :-n] + seen[..., : drive.shape[-1] - n])
        update = opened[..., -n:] if self.config.gate == "take" else 1 - opened[..., -n:]
        if before:
            reset = opened[..., :n] if self.config.reset == "before" else update
            candidate = (reset * h) @ self.state_weight[-n:].mT
        else:
            reset = opened[..., :n] if self.config.reset == "after" else torch.ones_like(update)
            candidate = reset * (seen[..., -n:] + self.state_bias) if self.config.reset == "after" else seen[..., -n:]
        return GRUGates(reset, update, torch.tanh(drive[..., -n:] + candidate))

    def update(self, gates: GRUGates, state: Hidden) -> Hidden:
        _, g, candidate = gates
        return Hidden(g * candidate + (1 - g) * state.h)

    def kernel(self) -> FusedKernel | None:
        """PyTorch's has four biases, of which two are added to others."""
        if (self.config.gate, self.config.reset) != ("keep", "after"):
            return None
        inside = torch.cat([torch.zeros_like(self.bias[: 2 * self.hidden_size]), self.state_bias])
        return FusedKernel("gru", (self.input_weight, self.state_weight, self.bias, inside))

    def parameter_row(self, name: str) -> ParameterRow:
        formula = f"{self.config.num_gates + 1}*(n^2 + n*m + n){' + n' if self.config.reset == 'after' else ''}"
        return ParameterRow(name, formula, {"n": self.hidden_size, "m": self.input_size})


@torch.no_grad()
def convert(cell: GRU, gate: Gate, reset: Reset) -> GRU:
    """The same unit in another convention, where there is one.

    The sign of the update gate can always be changed. A unit without a reset gate is one whose reset gate is open, and
    one gate for both is two with the same weights. The place of a reset gate makes no difference where it is open, or
    where no unit's candidate sees another unit and b' is zero.
    """
    parts = _Parts.of(cell)
    parts = parts if reset == cell.config.reset else parts.with_reset(reset)
    converted = (
        GRU(GRUConfig(input_size=cell.input_size, hidden_size=cell.hidden_size, gate=gate, reset=reset))
        .to(cell.bias)
        .train(cell.training)
    )
    parts.write(converted)
    return converted


Sum = tuple[Tensor, ...]
"""U, W and b of one gate."""


class _Parts(NamedTuple):
    cell: GRU
    reset: Sum | None
    update: Sum
    """Of g, whatever the cell's convention."""
    candidate: Sum
    inside: Tensor | None
    """b', which the reset gate multiplies too."""

    @classmethod
    def of(cls, cell: GRU) -> "_Parts":
        parts = (part.split(cell.hidden_size) for part in (cell.input_weight, cell.state_weight, cell.bias))
        *opening, candidate = zip(*parts, strict=True)
        update = _signed(opening[-1], cell.config.gate)
        reset = {"none": None, "shared": update}.get(cell.config.reset, opening[0])
        return cls(cell, reset, update, candidate, cell.state_bias if cell.config.reset == "after" else None)

    def with_reset(self, reset: Reset) -> "_Parts":
        u, w, b = self.candidate
        gate = self.reset or (torch.zeros_like(u), torch.zeros_like(w), torch.full_like(b, OPEN))
        inside = torch.zeros_like(b) if self.inside is None else self.inside
        if not gate[0].any() and not gate[1].any() and bool((gate[2] >= OPEN).all()):
            b, inside = b + inside, torch.zeros_like(b)
        elif reset == "none":
            raise self.not_the_same(reset, "a reset gate that is not always open")
        elif "after" in (self.cell.config.reset, reset) and torch.count_nonzero(w - w.diagonal().diag()):
            why = "units that see one another, where the order of a product with W and with r matters"
            raise self.not_the_same(reset, why)
        elif inside.any():
            raise self.not_the_same(reset, "a bias b' that is not zero, which no other reset gate multiplies")
        if reset == "shared" and not all(map(torch.equal, gate, self.update)):
            raise self.not_the_same(reset, "a reset gate that is not the update gate")
        return _Parts(self.cell, gate, self.update, (u, w, b), inside)

    def write(self, cell: GRU) -> None:
        sums = [_signed(self.update, cell.config.gate), self.candidate]
        if cell.config.num_gates == 2 and self.reset is not None:
            sums = [self.reset, *sums]
        parameters = (cell.input_weight, cell.state_weight, cell.bias)
        for parameter, pieces in zip(parameters, zip(*sums, strict=True), strict=True):
            parameter.copy_(torch.cat(pieces))
        if cell.config.reset == "after" and self.inside is not None:
            cell.state_bias.copy_(self.inside)

    def not_the_same(self, reset: Reset, why: str) -> InputError:
        change = f"a GRU with reset={self.cell.config.reset!r} can become one with reset={reset!r}"
        return InputError(f"{change} only if both compute the same", got=why)


def _signed(update: Sum, gate: Gate) -> Sum:
    """1 − σ(a) = σ(−a)"""
    return update if gate == "take" else tuple(-part for part in update)


SIZES = {
    "small": GRUConfig(hidden_size=32),
    "base": GRUConfig(),
    "first_paper": GRUConfig(gate="take", reset="before"),
    "one_gate": GRUConfig(gate="take", reset="none"),
    "minimal": GRUConfig(gate="take", reset="shared"),
}
