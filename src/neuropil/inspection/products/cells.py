"""The stages of one recurrent cell over all steps of a text. The fused kernels return h alone: the gates come from
`inspection.gates`, and the sums in them from the same inputs and states."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.opened import Factor, Index
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import (
    NamedValues,
    Rule,
    TracedPass,
    Where,
    constant,
    function,
    sum_of,
)
from neuropil.models.gru import GRU
from neuropil.models.lstm import LSTM
from neuropil.models.mingru import MinGRU
from neuropil.models.rnn import RNN
from neuropil.parts.recurrence import Cell

Pairs = list[tuple[Factor, ...]]


def add_cell(traced: TracedPass, name: str, cell: Cell, captured: CapturedPass, x: NamedValues) -> NamedValues:
    """The states h of all steps, after what they are made of."""
    add = next((add for kind, add in CELLS.items() if isinstance(cell, kind)), None)
    if add is None:
        known = ", ".join(kind.__name__ for kind in CELLS)
        raise InputError(f"the cells whose numbers can be opened are {known}", got=type(cell).__name__)
    given = inspect.signature(cell.forward).bind_partial(**captured.given(name))
    given.apply_defaults()
    steps = {part: values.detach()[0] for part, values in captured.gates[name].items()}
    return add(_CellSteps(traced, name, cell, x, steps, bool(given.arguments["backward"])))


@dataclass(frozen=True)
class _CellSteps:
    """A cell that read x: what it did at each step, and how its stages are named and written."""

    traced: TracedPass
    name: str
    cell: Cell
    x: NamedValues
    steps: dict[str, Tensor]
    backward: bool

    @property
    def h(self) -> NamedValues:
        return NamedValues(f"{self.name}.h", self.steps["h"])

    @property
    def before(self) -> str:
        """The step before step {0}, in equations."""
        return "{0}+1" if self.backward else "{0}−1"

    def at_step_before(self, values: NamedValues, step: int, unit: int) -> Factor:
        earlier = step + 1 if self.backward else step - 1
        within = 0 <= earlier < len(values.values)
        return values[earlier, unit] if within else constant(0.0, f"{values.name} before the first step", (unit,))

    def state_before(self, step: int, values: NamedValues | None = None) -> list[Factor]:
        values = self.h if values is None else values
        earlier, units = step + 1 if self.backward else step - 1, range(values.values.shape[1])
        if 0 <= earlier < len(values.values):
            return values.row(earlier)
        return [constant(0.0, f"{values.name} before the first step", (unit,)) for unit in units]

    def earlier(self, values: Tensor) -> Tensor:
        """The same a step before, in the order of reading."""
        zero = torch.zeros_like(values[:1])
        return torch.cat([values[1:], zero]) if self.backward else torch.cat([zero, values[:-1]])

    def parameter(self, part: str) -> NamedValues:
        return self.traced.parameter(f"{self.name}.{part}")

    def driven(self, step: int, row: int) -> Pairs:
        """U x + b"""
        weight, bias = self.parameter("input_weight"), self.parameter("bias")
        return [*zip(weight.row(row), self.x.row(step), strict=True), (bias[row,],)]

    def recurred(self, step: int, row: int, state: NamedValues | None = None) -> Pairs:
        """W h"""
        rows = self.state_before(step) if state is None else state.row(step)
        return list(zip(self.parameter("state_weight").row(row), rows, strict=True))

    def sums(self, part: int, *, recurrent: bool = True) -> Rule:
        """U x + W h + b of the gate whose weights stand at this place of the cell's; or U x + b."""
        first = part * self.cell.hidden_size

        def terms(index: Index) -> Pairs:
            step, unit = index
            return [*self.driven(step, first + unit), *(self.recurred(step, first + unit) if recurrent else [])]

        return sum_of(terms)

    def add(self, part: str, values: Tensor, rule: Rule, line: Computed, title: str, equation: str) -> NamedValues:
        """`equation` may say {before}."""
        return self.traced.add(
            f"{self.name}.{part}",
            values,
            rule,
            Where(line, self.name),
            title=title,
            axes="time unit",
            equation=equation.replace("{before}", self.before),
        )

    def add_sums(
        self, part: str, values: Tensor, gate: int, line: Computed, mark: str = "", *, recurrent: bool = True
    ) -> NamedValues:
        state = f" + Σ_j W{mark}[{{1}}, j] h[{{before}}, j]" if recurrent else ""
        equation = f"a{mark}[{{0}}, {{1}}] = Σ_j U{mark}[{{1}}, j] x[{{0}}, j]{state} + b{mark}[{{1}}]"
        title = f"weighted sums of the {part}{'' if part == 'candidate' else ' gate'}" if mark else "weighted sums"
        return self.add(f"{part}_sum", values, self.sums(gate, recurrent=recurrent), line, title, equation)

    def add_gate(self, part: str, of: str, sums: NamedValues, line: Computed, left: str, right: str) -> NamedValues:
        equation = f"{left}[{{0}}, {{1}}] = {SIGNS.get(of, of)}({right}[{{0}}, {{1}}])"
        title = {"h": "states", "candidate": "candidates"}.get(part, f"{part} gate")
        return self.add(part, self.steps[part], function(of, sums), line, title, equation)

    def add_complement(self, part: str, values: Tensor, of: NamedValues, line: Computed, title: str) -> NamedValues:
        """1 − g"""
        rule = sum_of(lambda index: [(constant(1.0, "1"),), (constant(-1.0, "−1"), of[index])])
        return self.add(part, values, rule, line, title, "k[{0}, {1}] = 1 − g[{0}, {1}]")

    def add_interpolated(self, update: NamedValues, candidate: NamedValues, update_line: Computed) -> NamedValues:
        """h' = g ⊙ h̃ + (1 − g) ⊙ h"""
        kept = self.add_complement("kept", 1 - update.values, update, update_line, "share of the old state")

        def terms(index: Index) -> Pairs:
            return [(update[index], candidate[index]), (kept[index], self.at_step_before(self.h, *index))]

        equation = "h[{0}, {1}] = g[{0}, {1}] h̃[{0}, {1}] + k[{0}, {1}] h[{before}, {1}]"
        return self.add("h", self.steps["h"], sum_of(terms), update_line, "states", equation)


SIGNS = {"logistic": "σ"}


def _all_sums(at: _CellSteps) -> Tensor:
    cell: Any = at.cell
    return cell.drive(at.x.values) + F.linear(at.earlier(at.steps["h"]), cell.state_weight)


@torch.no_grad()
def _add_rnn(at: _CellSteps) -> NamedValues:
    line, activation = Computed(RNN.gates, "self.activation(drive + F.linear("), cast(RNN, at.cell).config.activation
    sums = at.add_sums("candidate", _all_sums(at), 0, line)
    return at.add_gate("h", activation, sums, line, "h", "a")


@torch.no_grad()
def _add_lstm(at: _CellSteps) -> NamedValues:
    sums_line = Computed(LSTM.gates, "i, f, g, o = (drive + F.linear(")
    gates_line, update = Computed(LSTM.gates, "return LSTMGates("), Computed(LSTM.update, "c = f * state.c + i * g")
    gates: dict[str, NamedValues] = {}
    parts = zip(("input", "forget", "candidate", "output"), "ifgo", _all_sums(at).chunk(4, -1), strict=True)
    for number, (part, letter, values) in enumerate(parts):
        sums = at.add_sums(part, values, number, sums_line, f"_{letter}")
        of = "tanh" if part == "candidate" else "logistic"
        gates[part] = at.add_gate(part, of, sums, gates_line, letter, f"a_{letter}")
    c = NamedValues(f"{at.name}.c", at.steps["c"])

    def cell_terms(index: Index) -> Pairs:
        kept = (gates["forget"][index], at.at_step_before(c, *index))
        return [kept, (gates["input"][index], gates["candidate"][index])]

    equation = "c[{0}, {1}] = f[{0}, {1}] c[{before}, {1}] + i[{0}, {1}] g[{0}, {1}]"
    at.add("c", c.values, sum_of(cell_terms), update, "cell states", equation)
    output = Computed(LSTM.update, "return LSTMState(o * torch.tanh(c), c)")
    shown = at.add("tanh_c", c.values.tanh(), function("tanh", c), output, "tanh c", "s[{0}, {1}] = tanh(c[{0}, {1}])")
    rule = sum_of(lambda index: [(gates["output"][index], shown[index])])
    return at.add("h", at.steps["h"], rule, output, "states", "h[{0}, {1}] = o[{0}, {1}] s[{0}, {1}]")


@torch.no_grad()
def _add_gru(at: _CellSteps) -> NamedValues:
    cell, n = cast(GRU, at.cell), at.cell.hidden_size
    before, x = at.earlier(at.steps["h"]), at.x.values
    drive, seen = cell.drive(x), F.linear(before, cell.state_weight)
    opened_line = Computed(GRU.gates, "opened = torch.sigmoid(")
    last = cell.config.num_gates
    if last == 2:
        sums = at.add_sums("reset", (drive + seen)[:, :n], 0, opened_line, "_r")
        line = Computed(GRU.gates, f'reset = opened[..., :n] if self.config.reset == "{cell.config.reset}"')
        reset = at.add_gate("reset", "logistic", sums, line, "r", "a_r")
    else:
        reset = None
    sums = at.add_sums("update", (drive + seen)[:, (last - 1) * n : last * n], last - 1, opened_line, "_g")
    update_line = Computed(GRU.gates, "update = opened[..., -n:] if")
    if cell.config.gate == "take":
        update = at.add_gate("update", "logistic", sums, update_line, "g", "a_g")
    else:
        opened, equation = function("logistic", sums), "z[{0}, {1}] = σ(a_g[{0}, {1}])"
        keep = at.add("keep", sums.values.sigmoid(), opened, opened_line, "keep gate", equation)
        update = at.add_complement("update", at.steps["update"], keep, update_line, "update gate")
    sums = _add_gru_candidate(at, cell, reset, update, drive[:, -n:], seen[:, -n:])
    tanh_line = Computed(GRU.gates, "torch.tanh(drive[..., -n:] + candidate)")
    candidate = at.add_gate("candidate", "tanh", sums, tanh_line, "h̃", "a")
    return at.add_interpolated(update, candidate, Computed(GRU.update, "return Hidden(g * candidate"))


def _add_gru_candidate(
    at: _CellSteps, cell: GRU, reset: NamedValues | None, update: NamedValues, drive: Tensor, seen: Tensor
) -> NamedValues:
    """The sums of the candidate, in which the reset gate has its place."""
    first, where = cell.config.num_gates * cell.hidden_size, cell.config.reset
    before = at.earlier(at.steps["h"])
    if where == "none":
        line = Computed(GRU.gates, "candidate = reset * (seen[..., -n:] + self.state_bias) if")
        return at.add_sums("candidate", drive + seen, cell.config.num_gates, line)
    if where == "after" and reset is not None:
        line, bias = Computed(GRU.gates, "candidate = reset * ("), at.parameter("state_bias")
        equation = "s[{0}, {1}] = Σ_j W[{1}, j] h[{before}, j] + b'[{1}]"
        rule = sum_of(lambda index: [*at.recurred(index[0], first + index[1]), (bias[index[1:]],)])
        inside = at.add("seen", seen + bias.values, rule, line, "what the candidate sees of the old state", equation)
        values = drive + reset.values * inside.values
        rule = sum_of(lambda index: [*at.driven(index[0], first + index[1]), (reset[index], inside[index])])
        equation = "a[{0}, {1}] = Σ_j U[{1}, j] x[{0}, j] + b[{1}] + r[{0}, {1}] s[{0}, {1}]"
        return at.add("candidate_sum", values, rule, line, "weighted sums of the candidate", equation)
    gate = update if reset is None else reset  # reset="shared": one gate for both
    line = Computed(GRU.gates, "candidate = (reset * h) @")
    rule = sum_of(lambda index: [(gate[index], at.at_step_before(at.h, *index))])
    equation = "s[{0}, {1}] = r[{0}, {1}] h[{before}, {1}]"
    inside = at.add("seen", gate.values * before, rule, line, "what the candidate sees of the old state", equation)
    values = drive + F.linear(inside.values, cell.state_weight[first:])
    rule = sum_of(
        lambda index: [*at.driven(index[0], first + index[1]), *at.recurred(index[0], first + index[1], inside)]
    )
    equation = "a[{0}, {1}] = Σ_j U[{1}, j] x[{0}, j] + b[{1}] + Σ_j W[{1}, j] s[{0}, j]"
    return at.add("candidate_sum", values, rule, line, "weighted sums of the candidate", equation)


@torch.no_grad()
def _add_mingru(at: _CellSteps) -> NamedValues:
    cell = cast(MinGRU, at.cell)
    drive_line, gates_line = Computed(MinGRU.drive, "return F.linear("), Computed(MinGRU.gates, "return MinGRUGates(")
    opened, candidate = cell.drive(at.x.values).chunk(2, -1)
    update_sum = at.add_sums("update", opened, 0, drive_line, "_g", recurrent=False)
    update = at.add_gate("update", "logistic", update_sum, gates_line, "g", "a_g")
    sums = at.add_sums("candidate", candidate, 1, drive_line, "_h", recurrent=False)
    chosen, of = Computed(MinGRU.gates, "candidate = torch.where("), "positive" if cell.config.positive else "identity"
    taken = at.add_gate("candidate", of, sums, chosen, "h̃", "a_h")
    return at.add_interpolated(update, taken, Computed(MinGRU.update, "return Hidden(g * candidate"))


CELLS: dict[type[Cell], Callable[[_CellSteps], NamedValues]] = {
    RNN: _add_rnn,
    LSTM: _add_lstm,
    GRU: _add_gru,
    MinGRU: _add_mingru,
}
