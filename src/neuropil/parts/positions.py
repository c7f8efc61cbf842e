"""Positions: attention sees a set, so each element is told where it stands, by a vector that is added to it.

sinusoidal   PE(i, 2j) = sin(i / 10000^(2j/d)),  PE(i, 2j+1) = cos(i / 10000^(2j/d))
learned      a vector for each position, found by training
none         without them, shuffling the input only shuffles the output
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.errors import InputError

PositionName = Literal["sinusoidal", "learned", "none"]
SLOWEST = 10_000.0
"""The longest wave is 2π times this many positions."""


def sinusoidal(
    num_positions: int, width: int, *, start: int = 0, device: torch.device | str = "cpu"
) -> Float[Tensor, "position width"]:
    """The encodings of `num_positions` positions from `start` on, without a table: a text may be of any length."""
    position = torch.arange(start, start + num_positions, dtype=torch.float64, device=device)[:, None]
    pair = torch.arange(0, width, 2, dtype=torch.float64, device=device)
    # PE(i, 2j) = sin(i / 10000^(2j/d)),  PE(i, 2j+1) = cos(i / 10000^(2j/d)); in double precision, or far positions
    # would be noise
    angle = position / SLOWEST ** (pair / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width].float()


def require_context(length: int, context: int) -> None:
    if length > context:
        rule = f"the context length of this model is {context} tokens"
        raise InputError(rule, got=f"{length}", fix="shorten the text")


class Positions(nn.Module):
    """Adds to each element of [batch time width] the vector of its position."""

    def __init__(self, kind: PositionName, width: int, context: int):
        """`context` is the number of learned positions; as many sinusoids are kept, and made anew for more."""
        super().__init__()
        self.kind: PositionName = kind
        self.width = width
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(context, width) / width**0.5)
        elif kind == "sinusoidal":
            self.register_buffer("table", sinusoidal(context, width), persistent=False)

    def forward(self, x: Float[Tensor, "batch time width"], start: int = 0) -> Float[Tensor, "batch time width"]:
        if self.kind == "none":
            return x
        end = start + x.shape[1]
        if end > len(self.table):
            if self.kind == "learned":
                rule = f"learned positions reach as far as they were trained, to {len(self.table)} tokens"
                fix = "shorten the text, or train with longer texts or sinusoidal positions"
                raise InputError(rule, got=f"{end}", fix=fix)
            self.table = sinusoidal(max(end, 2 * len(self.table)), self.width, device=x.device).to(self.table.dtype)
        return x + self.table[start:end]
