"""What a search over options may set each of them to, declared in the option's own line:

    learning_rate: float = option(1e-3, "peak learning rate", low=0, tune=around(10))
    dropout: float = option(0.2, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    width: int = option(64, "embedding width (d_model)", low=2, tune=times(1 / 2, 1, 2))

Recipes have defaults of their own, and a range follows the default: it is around it, in multiples of it, or at least
holds it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Range:
    """Every number from `low` to `high`, both included; with `log`, their logarithms are searched evenly."""

    low: float
    high: float
    log: bool = False

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high

    def place(self, value: float) -> float:
        """From 0 at the lower end to 1 at the upper."""
        low, high, at = (map(math.log, (self.low, self.high, value))) if self.log else (self.low, self.high, value)
        return (at - low) / (high - low)

    def to_dict(self) -> dict[str, Any]:
        return vars(self)

    def holding(self, value: Any) -> "Range":
        """Widened so far that the value is in it."""
        return Range(min(self.low, value), max(self.high, value), self.log and value > 0)

    def within(self, low: float | None, high: float | None) -> "Range":
        lowest, highest = -math.inf if low is None else low, math.inf if high is None else high
        return Range(max(self.low, lowest), min(self.high, highest), self.log)


@dataclass(frozen=True)
class Choices:
    """Some values, of any type that an option may have."""

    values: tuple[Any, ...]

    def __contains__(self, value: Any) -> bool:
        return value in self.values

    def to_dict(self) -> dict[str, Any]:
        return {"values": list(self.values)}

    def holding(self, value: Any) -> "Choices":
        return self if value in self.values else Choices((value, *self.values))

    def within(self, low: float | None, high: float | None) -> "Choices":
        lowest, highest = -math.inf if low is None else low, math.inf if high is None else high
        fits = (value for value in self.values if not isinstance(value, int | float) or lowest <= value <= highest)
        return Choices(tuple(fits))


Searched: TypeAlias = Range | Choices
Declared: TypeAlias = Searched | Callable[[Any], Searched | None]
"""By itself, or by the default that a recipe gives the option; None where that one is not to be searched around."""


def around(factor: float) -> Callable[[Any], Range | None]:
    """From the default divided by `factor` to the default times it; an option that is off (none or 0) stays off."""
    return lambda default: Range(default / factor, default * factor, log=True) if default else None


def times(*factors: float) -> Callable[[Any], Choices | None]:
    """Multiples of the default, as whole numbers; sizes that divide one another stay so."""

    def choices(default: int | None) -> Choices | None:
        if not default:
            return None
        return Choices(tuple(sorted({max(1, round(default * factor)) for factor in factors})))

    return choices


def from_dict(written: Mapping[str, Any]) -> Searched:
    """What `to_dict` wrote."""
    if "values" not in written:
        return Range(**written)
    return Choices(tuple(tuple(value) if isinstance(value, list) else value for value in written["values"]))


def searched(declared: Declared | None, default: Any, low: float | None, high: float | None) -> Searched | None:
    """For an option with this default and these limits."""
    found = declared(default) if callable(declared) else declared
    return None if found is None else found.within(low, high).holding(default)
