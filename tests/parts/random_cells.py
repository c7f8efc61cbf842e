"""Cells, sequences and states to try a recurrence with."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.models.gru import GRU, GRUConfig
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.models.recurrent import CELLS
from neuropil.parts.recurrence import (
    Cell,
    CellOutput,
    State,
    Way,
    map_states,
)

Build = Callable[[int, int], Cell]

BUILDS: dict[str, Build] = {
    **CELLS,
    "gru_take_before": lambda inputs, units: GRU(
        GRUConfig(input_size=inputs, hidden_size=units, gate="take", reset="before")
    ),
    "gru_take_none": lambda inputs, units: GRU(
        GRUConfig(input_size=inputs, hidden_size=units, gate="take", reset="none")
    ),
    "gru_keep_shared": lambda inputs, units: GRU(
        GRUConfig(input_size=inputs, hidden_size=units, gate="keep", reset="shared")
    ),
    "positive_mingru": lambda inputs, units: MinGRU(MinGRUConfig(input_size=inputs, hidden_size=units, positive=True)),
}
FASTER: dict[str, Way] = {"rnn": "fused", "lstm": "fused", "gru": "fused", "mingru": "scan", "positive_mingru": "scan"}
SEEDS = st.integers(0, 2**16)

every_cell = pytest.mark.parametrize("name", BUILDS)
maybe_padded = pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])


def random_cell(name: str, inputs: int, units: int, dtype: torch.dtype = torch.float64) -> Cell:
    """With biases that are not the zeros they start as."""
    cell = BUILDS[name](inputs, units).to(dtype)
    for parameter in cell.parameters():
        nn.init.normal_(parameter, std=0.7)
    return cell


def random_state(cell: Cell, batch: int, size: float = 1.0) -> State:
    zero = cell.initial(torch.zeros(batch))
    return map_states(lambda part: (size * torch.randn_like(part)).requires_grad_(), [zero])[0]


class Problem(NamedTuple):
    cell: Cell
    x: Tensor
    state: State
    lengths: Tensor | None


@st.composite
def problems(draw: st.DrawFn, name: str, *, padded: bool, dtype: torch.dtype = torch.float64) -> Problem:
    torch.manual_seed(draw(SEEDS))
    batch, time = draw(st.integers(0, 4)), draw(st.one_of(st.integers(0, 6), st.sampled_from([11, 16])))
    inputs, units = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cell = random_cell(name, inputs, units, dtype)
    lengths = None
    if padded:
        lengths = torch.tensor(draw(st.lists(st.integers(0, time), min_size=batch, max_size=batch)), dtype=torch.int64)
    return Problem(
        cell, torch.randn(batch, time, inputs, dtype=dtype).requires_grad_(), random_state(cell, batch), lengths
    )


def everything(problem: Problem, run: Callable[[Problem], CellOutput]) -> list[Tensor]:
    """Outputs, last state, and the gradients of all parameters, of the inputs and of the first state."""
    ran = run(problem)
    results = [ran.outputs, *ran.state]
    sources = [*problem.cell.parameters(), problem.x, *problem.state]
    torch.manual_seed(0)
    loss = torch.stack([(result * torch.randn(result.shape, dtype=result.dtype)).sum() for result in results]).sum()
    return [*results, *torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)]


def require_equal(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def row_by_row(problem: Problem, *, backward: bool = False) -> CellOutput:
    """The definition: each row for itself, as long as it is, one step after the other."""
    cell, x, state, lengths = problem
    sizes = [x.shape[1]] * len(x) if lengths is None else lengths.tolist()
    outputs, states = [x.new_zeros(0, x.shape[1], cell.hidden_size)], [map_states(lambda part: part[:0], [state])[0]]
    for row, size in enumerate(sizes):
        here, found = map_states(lambda part, row=row: part[row : row + 1], [state])[0], {}
        for t in reversed(range(size)) if backward else range(size):
            here = cell.step(x[row : row + 1, t], here)
            found[t] = here.h
        zero = torch.zeros(1, cell.hidden_size, dtype=x.dtype)
        steps = [found.get(t, zero) for t in range(x.shape[1])]
        outputs.append(torch.stack(steps, 1) if steps else x.new_zeros(1, 0, cell.hidden_size))
        states.append(here)
    return CellOutput(torch.cat(outputs), type(state)(*map(torch.cat, zip(*states, strict=True))))
