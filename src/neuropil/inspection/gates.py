"""The gates of recurrent cells over time, of a model that runs on the fused kernels, which never return them.

    with record_gates(model) as tape:
        model(tokens)
    tape["reader.forwards.0"]["forget"]          batch × time × unit

A gate depends on the input and on the state one step before, and both are known once a cell has run: so the gates of
all steps are computed afterwards and at once, one matrix product in place of a loop. What the model computes is
untouched, bit for bit. A cell that runs several times within the block is remembered as it ran last.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.parts.recurrence import Cell, Lengths, State, backwards, valid_mask

Trace: TypeAlias = Float[Tensor, "batch time unit"]
GateTape = dict[str, dict[str, Trace]]
"""By the name of the cell: `input`, `forget`, `output`, `update`, `reset` and `candidate`, as it has them, and its
state, `h` and `c`. Steps stand in the order of the sequence in both directions; past a row's length there are zeros."""

GATES_BETWEEN_0_AND_1 = ("input", "forget", "output", "update", "reset")


class Passage(NamedTuple):
    """A text that a model is about to read: `run` reads it; `labels` are the tokens of the cell of a name."""

    run: Callable[[], object]
    labels: Callable[[str], Sequence[str]]


@contextmanager
def record_gates(model: nn.Module) -> Iterator[GateTape]:
    cells = {name or "cell": module for name, module in model.named_modules() if isinstance(module, Cell)}
    if not cells:
        raise InputError("gates are recorded in recurrent cells", got=f"a {type(model).__name__} without any")
    tape: GateTape = {}
    with ExitStack() as stack:
        for name, cell in cells.items():
            stack.callback(cell.register_forward_hook(_remember(tape, name), with_kwargs=True).remove)
        yield tape


def _remember(tape: GateTape, name: str) -> Callable[..., None]:
    def hook(cell: Cell, args: tuple[Any, ...], kwargs: dict[str, Any], ran: Any) -> None:
        given = inspect.signature(cell.forward).bind(*args, **kwargs)
        given.apply_defaults()
        x, state, lengths = (given.arguments[part] for part in ("x", "state", "lengths"))
        tape.pop(name, None)  # in the order in which they ran last
        tape[name] = gates_of(cell, x, ran.outputs, state, lengths, backward=given.arguments["backward"])

    return hook


@torch.no_grad()
def gates_of(
    cell: Cell,
    x: Float[Tensor, "batch time input"],
    outputs: Trace,
    state: State | None = None,
    lengths: Lengths | None = None,
    *,
    backward: bool = False,
) -> dict[str, Trace]:
    """What went on in `cell` when it read x and put out `outputs`."""
    first: State = cell.initial(x) if state is None else state
    h, x = (backwards(part, lengths) if backward else part for part in (outputs.detach(), x.detach()))
    before = torch.cat([first.h.unsqueeze(1).to(h.dtype), h], 1)[:, :-1]  # h_{t−1}
    gates = cell.gates(cell.drive(x), before)
    found = gates._asdict() | {"h": h} | _rest_of_state(cell, gates, first)
    if lengths is not None:
        padding = ~valid_mask(lengths, x.shape[1]).unsqueeze(-1)
        found = {name: values.masked_fill(padding, 0) for name, values in found.items()}
    return {name: backwards(values, lengths) if backward else values for name, values in found.items()}


def _rest_of_state(cell: Cell, gates: Any, state: State) -> dict[str, Trace]:
    """The rest of the state, such as the c of an LSTM: the gates are known, so that this is elementwise."""
    if len(state) == 1:
        return {}
    steps: list[State] = []
    for here in zip(*(gate.unbind(1) for gate in gates), strict=True):
        state = cell.update(type(gates)(*here), state)
        steps.append(state)
    kept = {name: [step[index] for step in steps] for index, name in enumerate(state._fields) if index}
    return {name: torch.stack(parts, 1) if parts else gates[0] for name, parts in kept.items()}


# --- what units are tied to -------------------------------------------------------------------------------------------


Units: TypeAlias = Float[Tensor, "time unit"]
Property: TypeAlias = Float[Tensor, " time"]


class Tie(NamedTuple):
    """A unit whose gate correlates with a property of the text, where the tie was found and where it was checked."""

    gate: str
    unit: int
    property: str
    found: float
    held_out: float


def ties(values: Mapping[str, Units], properties: Mapping[str, Property], *, most: int = 3) -> list[Tie]:
    """For each gate and property the `most` units that are tied most strongly in the first half of the text, with the
    correlation in the second half; the strongest there first.

    Among hundreds of units some go with anything by chance. They do so in one half, and not in the other.
    """
    found: list[Tie] = []
    for gate, of_units in values.items():
        half = len(of_units) // 2
        for name, property in properties.items():
            r, checked = (correlation(of_units[part], property[part]) for part in (slice(half), slice(half, None)))
            strongest = r.abs().argsort(descending=True, stable=True)[:most].tolist()
            found += [Tie(gate, unit, name, float(r[unit]), float(checked[unit])) for unit in strongest if r[unit] != 0]
    # A tie that turns round is none.
    return sorted(found, key=lambda tie: -tie.held_out * (1 if tie.found > 0 else -1))


def ranked_units(values: Units, property: Property | None = None) -> Int64[Tensor, " unit"]:
    """The units that move most first, or those that go most with a property of the text, or against it."""
    strength = values.var(0, correction=0) if property is None else correlation(values, property).abs()
    return strength.argsort(descending=True, stable=True)


def correlation(values: Units, property: Property) -> Float[Tensor, " unit"]:
    """Pearson's r of each unit with the property; zero where one of them does not move."""
    if len(values) < 2:
        return values.new_zeros(values.shape[1], dtype=torch.float64)
    v = values.double() - values.double().mean(0)
    p = (property.double() - property.double().mean()).to(v.device)
    lengths = v.norm(dim=0) * p.norm()
    still = lengths <= 1e-9 * len(values)
    return torch.where(still, 0.0, (p @ v) / lengths.masked_fill(still, 1.0)).cpu()
