"""A forward pass as stages of numbers, and the rules by which each number of a stage is made of others."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeAlias

from torch import Tensor, nn

from neuropil.errors import InputError, nearest
from neuropil.inspection.products.opened import Factor, Index, Kind, NumberPlace, OpenedNumber, Operation, Term
from neuropil.inspection.products.source import Computed, SourceLine
from neuropil.parts.attention import attention_weights

MASKED = Computed(attention_weights, "scores = fill(hidden, -torch.inf)")


@dataclass(frozen=True, eq=False)
class NamedValues:
    """The numbers of a stage or of a parameter, or constants, as factors."""

    name: str
    values: Tensor
    kind: Kind = "number"

    def __getitem__(self, index: Index) -> Factor:
        return Factor(float(self.values[index].item()), self.name, index, self.kind)

    def row(self, *begin: int) -> list[Factor]:
        """All numbers whose index begins so, in order."""
        part = self.values[begin]
        indices = product(*map(range, part.shape))
        return [
            Factor(float(value), self.name, (*begin, *index), self.kind)
            for value, index in zip(part.flatten().tolist(), indices, strict=True)
        ]


def constant(value: float, name: str, index: Index = ()) -> Factor:
    return Factor(value, name, index, "constant")


Makers: TypeAlias = Callable[[Index], list[Term]]


class Rule(NamedTuple):
    """How the number at an index is made."""

    operation: Operation
    terms: Makers
    function: str = ""


class Where(NamedTuple):
    """Of a stage: the line that computes it, and the part of the model that it stands in."""

    computed: Computed
    part: str = ""


@dataclass(frozen=True, eq=False)
class TracedStage:
    """Numbers of a pass that are made in one way. `values` has no axis for the batch."""

    name: str
    title: str
    path: tuple[str, ...]
    """The parts of the model that it stands in, from the outermost: blocks.0, blocks.0.attention."""
    axes: tuple[str, ...]
    values: Tensor
    equation: str
    """With {0}, {1} … for the index."""
    computed: Computed
    rule: Rule

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def code(self) -> SourceLine:
        return self.computed.line


def parts_of(name: str) -> tuple[str, ...]:
    """A part of a model and those around it that are one of several."""
    words = name.split(".")
    begins = [".".join(words[: count + 1]) for count, word in enumerate(words) if word.isdigit()]
    return tuple(dict.fromkeys([*begins, *([name] if name else [])]))


class TracedPass:
    """What a model computed for one input: its stages, in the order in which they are computed."""

    def __init__(self, model: nn.Module, sequence: str = "time"):
        """`sequence` is what stands in a row for the model: steps in time, or patches."""
        self.sequence = sequence
        self.stages: dict[str, TracedStage] = {}
        # Tied weights and buffers have every one of their names.
        self._parameters = dict(model.named_parameters(remove_duplicate=False))
        self._buffers = dict(model.named_buffers(remove_duplicate=False))

    def parameter(self, name: str) -> NamedValues:
        """A parameter or buffer of the model."""
        values = self._parameters[name] if name in self._parameters else self._buffers[name]
        return NamedValues(name, values.detach(), "parameter")

    def weights(self, module: str) -> tuple[NamedValues, NamedValues | None]:
        """The weight of a module, and its bias where it has one."""
        bias = f"{module}.bias"
        return self.parameter(f"{module}.weight"), self.parameter(bias) if bias in self._parameters else None

    def add(
        self,
        name: str,
        values: Tensor,
        rule: Rule,
        where: Where,
        *,
        title: str,
        axes: str,
        equation: str,
    ) -> NamedValues:
        """`axes` are their names, with spaces between."""
        names, values = tuple(axes.replace("time", self.sequence).split()), values.detach()
        path = parts_of(where.part)
        self.stages[name] = TracedStage(name, title, path, names, values, equation, where.computed, rule)
        return NamedValues(name, values)

    def open(self, place: NumberPlace) -> OpenedNumber:
        name, index = place.stage, place.index
        if name not in self.stages:
            raise InputError(
                "a number is opened in a stage of the pass", got=f"{name!r}", fix=nearest(name, self.stages)
            )
        stage = self.stages[name]
        if len(index) != len(stage.shape) or not all(0 <= i < n for i, n in zip(index, stage.shape, strict=False)):
            rule = f"a number of {name} has an index within {list(stage.shape)}"
            raise InputError(rule, got=f"{list(index)}")
        value = float(stage.values[index].item())
        if value == -math.inf:
            left = stage.equation.partition(" = ")[0].format(*index)
            equation = f"{left} = −∞: this query may not look at this key"
            return OpenedNumber(NumberPlace(name, index), value, equation, "masked", (), 0.0, MASKED.line)
        return OpenedNumber(
            place=NumberPlace(name, index),
            value=value,
            equation=stage.equation.format(*index),
            operation=stage.rule.operation,
            terms=tuple(stage.rule.terms(index)),
            rest=0.0,
            code=stage.code,
            function=stage.rule.function,
        )


# --- rules ------------------------------------------------------------------------------------------------------------


def multiplied(*factors: Factor) -> Term:
    return Term(factors, math.prod(factor.value for factor in factors))


def pairwise_products(left: Iterable[Factor], right: Iterable[Factor]) -> list[Term]:
    return [multiplied(*pair) for pair in zip(left, right, strict=True)]


GIVEN = Rule("input", lambda _: [])


def _leading(index: Index) -> tuple[Index, int]:
    return index[:-1], index[-1]


def linear(
    x: NamedValues,
    weight: NamedValues,
    bias: NamedValues | None = None,
    locate: Callable[[Index], tuple[Index, int]] = _leading,
) -> Rule:
    """y = W x + b; `locate` says of an index where the row of x begins and which row of W it is."""

    def terms(index: Index) -> list[Term]:
        begin, unit = locate(index)
        found = pairwise_products(weight.row(unit), x.row(*begin))
        return found if bias is None else [*found, multiplied(bias[unit,])]

    return Rule("sum of products", terms)


def convolution(x: NamedValues, weight: NamedValues, bias: NamedValues | None, stride: int, padding: int) -> Rule:
    """(w ⋆ x)[k, i, j] = Σ_c Σ_a Σ_b w[k, c, a, b] x[c, s i + a − p, s j + b − p]; beyond the picture there is nothing
    to multiply."""

    def terms(index: Index) -> list[Term]:
        kernel, i, j = index
        _, height, breadth = x.values.shape
        found: list[Term] = []
        for factor in weight.row(kernel):
            _, channel, a, b = factor.index
            row, column = stride * i + a - padding, stride * j + b - padding
            if 0 <= row < height and 0 <= column < breadth:
                found.append(multiplied(factor, x[channel, row, column]))
        return found if bias is None else [*found, multiplied(bias[kernel,])]

    return Rule("sum of products", terms)


def function(name: str, x: NamedValues) -> Rule:
    return Rule("function", lambda index: [multiplied(x[index])], name)


def total(*parts: NamedValues) -> Rule:
    """Of numbers with the same index."""
    return Rule("sum", lambda index: [multiplied(part[index]) for part in parts])


def sum_of(terms: Callable[[Index], Iterable[tuple[Factor, ...]]], operation: Operation = "sum of products") -> Rule:
    """Σ Π of the factors of each term."""
    return Rule(operation, lambda index: [multiplied(*factors) for factors in terms(index)])


def copied(source: Callable[[Index], Factor]) -> Rule:
    return Rule("copy", lambda index: [multiplied(source(index))])


def softmax_of(z: NamedValues, among: Callable[[Index], Sequence[Factor]] | None = None) -> Rule:
    """Over the last axis, or over the numbers that `among` finds; then `z` is among them."""

    def terms(index: Index) -> list[Term]:
        scores = z.row(*index[:-1]) if among is None else among(index)
        largest = max(score.value for score in scores)
        return [Term((score,), math.exp(score.value - largest)) for score in scores]

    return Rule("softmax", terms)


def mean_of_numbers(among: Callable[[Index], list[Factor]]) -> Rule:
    return Rule("mean", lambda index: [multiplied(factor) for factor in among(index)])


def largest_of(among: Callable[[Index], list[Factor]]) -> Rule:
    return Rule("maximum", lambda index: [multiplied(factor) for factor in among(index)])


def variance_of(x: NamedValues, mean: NamedValues) -> Rule:
    """Over the last axis of x."""

    def terms(index: Index) -> list[Term]:
        middle = mean[index]
        return [Term((each, middle), (each.value - middle.value) ** 2) for each in x.row(*index)]

    return Rule("variance", terms)


def norm_of(among: Callable[[Index], list[Factor]]) -> Rule:
    """√Σ x²"""
    return Rule("norm", lambda index: [multiplied(factor, factor) for factor in among(index)])


def normalised(parts: Callable[[Index], dict[str, Factor]]) -> Rule:
    """Parts of γ (x − μ) / √(σ² + ε) + β: `x`, `mean`, `std` or `variance` and `epsilon`, `scale` and `shift`."""

    def terms(index: Index) -> list[Term]:
        return [multiplied(factor)._replace(role=role) for role, factor in parts(index).items()]

    return Rule("normalisation", terms)


def quotient(above: Callable[[Index], Factor], below: Callable[[Index], Factor]) -> Rule:
    return Rule("quotient", lambda index: [multiplied(above(index)), multiplied(below(index))])


def lookup(row: Callable[[Index], Factor], found: Callable[[Index], Factor]) -> Rule:
    """A number of a table, in the row whose number is another number of the pass."""

    def terms(index: Index) -> list[Term]:
        return [multiplied(row(index))._replace(role="row"), multiplied(found(index))._replace(role="found")]

    return Rule("lookup", terms)


def squared_distance(q: Callable[[Index], list[Factor]], k: Callable[[Index], list[Factor]], scale: Factor) -> Rule:
    """scale · Σ (q − k)²"""

    def terms(index: Index) -> list[Term]:
        return [
            Term((scale, a, b), scale.value * (a.value - b.value) ** 2) for a, b in zip(q(index), k(index), strict=True)
        ]

    return Rule("squared distance", terms)
