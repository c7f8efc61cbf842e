"""One number of a forward pass, opened into the numbers that made it.

    sum of products     y = Σ_j Π f_j                     a unit of a layer, a convolution, a mixture of values
    function            y = φ(x)                          an activation
    normalisation       y = γ (x − μ) / √(σ² + ε) + β     or (x − μ) / σ
    softmax             y_i = e^(z_i − m) / Σ_j e^(z_j − m),   m = max z, which changes no y
    mean, variance      y = (1/n) Σ x_j,   (1/n) Σ (x_j − μ)²

Every factor of a term is a number of the pass, which opens in turn, a parameter (or buffer) of the model, or a
constant. So each way down ends at the input or at what was learned.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch

from neuropil.inspection.products.source import SourceLine
from neuropil.parts.activations import ACTIVATIONS, Activation
from neuropil.parts.blocks import HIDDEN

Index: TypeAlias = tuple[int, ...]
Kind = Literal["number", "parameter", "constant"]
Operation = Literal[
    "input",
    "lookup",
    "copy",
    "sum",
    "sum of products",
    "function",
    "quotient",
    "norm",
    "mean",
    "variance",
    "normalisation",
    "softmax",
    "maximum",
    "squared distance",
    "masked",
]
LEAVES: tuple[Operation, ...] = ("input", "masked")
"""Numbers of a pass that nothing made: what was given, and the score of a pair that must not be seen."""


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """Where a number of a forward pass stands."""

    stage: str
    index: Index


@dataclass(frozen=True, slots=True)
class Factor:
    """A number of the stage `name`, of the parameter of that name, or a constant that is called so."""

    value: float
    name: str
    index: Index
    kind: Kind

    @property
    def place(self) -> NumberPlace | None:
        """Where it can be opened."""
        return NumberPlace(self.name, self.index) if self.kind == "number" else None


class Term(NamedTuple):
    """`value` is what the operation makes of the factors: mostly their product, e^(z − m) in a softmax, (x − μ)² in a
    variance, x² in a norm, −c (q − k)² in a squared distance."""

    factors: tuple[Factor, ...]
    value: float
    role: str = ""
    """In a formula whose terms are not alike, such as a normalisation."""


FUNCTIONS: dict[str, Activation] = {
    **ACTIVATIONS,
    **HIDDEN,
    "positive": lambda a: torch.where(a < 0, a.clamp(max=0).exp(), 1 + a),
}
"""Of one number, by name."""


@dataclass(frozen=True)
class OpenedNumber:
    place: NumberPlace
    value: float
    equation: str
    operation: Operation
    terms: tuple[Term, ...]
    rest: float
    """The sum of the terms that are left out."""
    code: SourceLine
    """Which computes it."""
    function: str = ""
    """Its name, where the operation is one."""
    rest_count: int = 0

    @property
    def count(self) -> int:
        """Of all terms."""
        return len(self.terms) + self.rest_count

    def shortened(self, most: int) -> "OpenedNumber":
        """With the `most` largest terms, the largest first, and the others summed. A softmax keeps its own term, and
        parts of a formula that are not alike keep their order."""
        if self.operation in ("normalisation", "quotient", "lookup"):
            return self
        signed = self.operation == "maximum"
        ordered = sorted(self.terms, key=lambda term: -(term.value if signed else abs(term.value)))
        kept, others = ordered[:most], ordered[most:]
        if self.operation == "softmax" and (own := self.own_term) not in kept:
            others.append(kept.pop())
            others.remove(own)
            kept.append(own)
        rest = math.fsum(term.value for term in others)
        return dataclasses.replace(self, terms=tuple(kept), rest=self.rest + rest, rest_count=self.count - len(kept))

    @property
    def own_term(self) -> Term:
        """Of a softmax: that of the score which this number is the share of."""
        return next(term for term in self.terms if term.factors[0].index == self.place.index)

    def recomputed(self) -> float:
        """The number again, from its terms alone."""
        return TOTALS[self.operation](self) if self.operation not in LEAVES else self.value


def _sum(opened: OpenedNumber) -> float:
    return math.fsum(term.value for term in opened.terms) + opened.rest


def _function(opened: OpenedNumber) -> float:
    (term,) = opened.terms
    return FUNCTIONS[opened.function](torch.tensor(term.value, dtype=torch.float64)).item()


def _normalised(opened: OpenedNumber) -> float:
    role = {term.role: term.value for term in opened.terms}
    deviation = role["std"] if "std" in role else math.sqrt(role["variance"] + role["epsilon"])
    return role.get("scale", 1.0) * (role["x"] - role["mean"]) / deviation + role.get("shift", 0.0)


def _quotient(opened: OpenedNumber) -> float:
    above, below = opened.terms
    return above.value / below.value


def _mean(opened: OpenedNumber) -> float:
    return _sum(opened) / opened.count


TOTALS: dict[Operation, Callable[[OpenedNumber], float]] = {
    "lookup": lambda opened: opened.terms[-1].value,
    "copy": _sum,
    "sum": _sum,
    "sum of products": _sum,
    "squared distance": _sum,
    "function": _function,
    "quotient": _quotient,
    "norm": lambda opened: math.sqrt(_sum(opened)),
    "mean": _mean,
    "variance": _mean,
    "normalisation": _normalised,
    "softmax": lambda opened: opened.own_term.value / _sum(opened),
    "maximum": lambda opened: max(term.value for term in opened.terms),
}
