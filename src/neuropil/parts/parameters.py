"""How many parameters a model has, by formula.

    MLP().parameter_table()[0]    hidden.0   n·m + m with n = 64, m = 256   16,640

A row's formula is both what is printed and what is computed, so the two cannot disagree; a test compares it with the
module itself. The table follows from the modules: a part that has a formula of its own says it by `parameter_row`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from torch import nn

from neuropil.parts.expression import Expression

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class ParameterRow:
    """The submodule `name` learns `formula` numbers: ParameterRow("output", "n*m + m", {"n": 64, "m": 10})."""

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


@runtime_checkable
class Counted(Protocol):
    def parameter_row(self, name: str) -> ParameterRow: ...


class TypedModuleList(nn.ModuleList, Generic[M]):
    """`nn.ModuleList` that knows what kind of modules it holds."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[M]: ...

        @overload
        def __getitem__(self, idx: slice) -> "TypedModuleList[M]": ...

        @overload
        def __getitem__(self, idx: int) -> M: ...

        def __getitem__(self, idx: int | slice) -> "M | TypedModuleList[M]": ...


class Model(nn.Module):
    """A network that lists its parameters."""

    def parameter_table(self) -> list[ParameterRow]:
        return list(parameter_rows(self))


FORMULAS: dict[type[nn.Module], Callable[[Any], tuple[str, dict[str, int]]]] = {
    nn.Linear: lambda it: ("n*m", {"n": it.in_features, "m": it.out_features}),
    nn.Embedding: lambda it: ("v*d", {"v": it.num_embeddings, "d": it.embedding_dim}),
    nn.LayerNorm: lambda it: ("2*d", {"d": it.normalized_shape[0]}),
    nn.BatchNorm1d: lambda it: ("2*m", {"m": it.num_features}),
    nn.BatchNorm2d: lambda it: ("2*m", {"m": it.num_features}),
    nn.GroupNorm: lambda it: ("2*m", {"m": it.num_channels}),
    nn.Conv2d: lambda it: ("c*m*k^2", {"c": it.in_channels, "m": it.out_channels, "k": it.kernel_size[0]}),
    nn.ConvTranspose2d: lambda it: ("c*m*k^2", {"c": it.in_channels, "m": it.out_channels, "k": it.kernel_size[0]}),
}


def parameter_rows(module: nn.Module, name: str = "") -> Iterator[ParameterRow]:
    """Of a module that is called `name`: its own row, that of its type, or those of its parts."""
    if isinstance(module, Counted):
        yield module.parameter_row(name)
    elif type(module) in FORMULAS:
        formula, sizes = FORMULAS[type(module)](module)
        biased = isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d) and module.bias is not None
        yield ParameterRow(name, f"{formula} + m" if biased else formula, sizes)
    else:
        prefix = f"{name}." if name else ""
        for part, parameter in module.named_parameters(recurse=False):
            yield ParameterRow(f"{prefix}{part}", "n", {"n": parameter.numel()})
        for part, child in module.named_children():
            yield from parameter_rows(child, f"{prefix}{part}")


def linear_row(name: str, inputs: int, outputs: int) -> ParameterRow:
    """n inputs, m outputs: a weight for each pair and a bias for each output."""
    return ParameterRow(name, "n*m + m", {"n": inputs, "m": outputs})


def count_parameters(module: nn.Module) -> int:
    """The actual number of parameters; one that is used twice counts once."""
    return sum(parameter.numel() for parameter in module.parameters())
