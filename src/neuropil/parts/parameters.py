"""How many parameters a model has, by formula.

    MLP().parameter_table()[0]    hidden.0   n·m + m with n = 64, m = 256   16,640

A row's formula is both printed and computed, so the two cannot disagree; a test compares it with the module itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from neuropil.parts.expression import Expression


@dataclass(frozen=True)
class ParameterRow:
    """The submodule `name` has `formula` parameters: ParameterRow("output", "n*m + m", {"n": 64, "m": 10})."""

    name: str
    formula: str
    sizes: Mapping[str, int]

    @property
    def count(self) -> int:
        return int(Expression(self.formula, tuple(self.sizes))(*self.sizes.values()))

    def __str__(self) -> str:
        formula = self.formula.replace("*", "·").replace("^2", "²").replace("^3", "³")
        sizes = ", ".join(f"{symbol} = {size}" for symbol, size in self.sizes.items())
        return f"{formula} with {sizes}"


def linear_row(name: str, inputs: int, outputs: int) -> ParameterRow:
    """n inputs, m outputs: a weight for each pair and a bias for each output."""
    return ParameterRow(name, "n*m + m", {"n": inputs, "m": outputs})


def count_parameters(module: nn.Module) -> int:
    """The actual number of parameters; one that is used twice counts once."""
    return sum(parameter.numel() for parameter in module.parameters())
