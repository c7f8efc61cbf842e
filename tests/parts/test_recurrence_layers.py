"""Cells one upon the other and in both directions, and what is done with their states."""

import copy
import itertools
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.models.lstm import LSTMState
from neuropil.models.recurrent import CELLS
from neuropil.parts.parameters import ParameterRow, count_parameters, parameter_rows
from neuropil.parts.recurrence import (
    Recurrence,
    backwards,
    detach,
    reorder,
)
from parts.random_cells import (
    BUILDS,
    SEEDS,
    every_cell,
    random_state,
)

# --- layers and directions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "mingru", "gru_take_before"])
@settings(deadline=None, max_examples=20)
@given(
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    time=st.integers(0, 7),
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    seed=SEEDS,
)
def test_a_stack_is_its_cells_one_upon_the_other(
    name: str, layers: int, bidirectional: bool, time: int, sizes: list[int], seed: int
):
    torch.manual_seed(seed)
    recurrence = Recurrence(BUILDS[name], 3, 4, layers, bidirectional).double()
    lengths = torch.tensor([min(size, time) for size in sizes])
    x, states = torch.randn(len(sizes), time, 3).double(), [random_state(cell, len(sizes)) for cell in recurrence.cells]
    outputs, after = recurrence(x, states, lengths)
    cells, expected, below = iter(zip(recurrence.cells, states, strict=True)), [], x
    for _ in range(layers):
        here = [
            cell(below, state, lengths, backward=i == 1)
            for i, (cell, state) in enumerate(itertools.islice(cells, 1 + bidirectional))
        ]
        below = torch.cat([ran.outputs for ran in here], -1)
        expected += [ran.state for ran in here]
    torch.testing.assert_close(outputs, below)
    assert outputs.shape[-1] == recurrence.width
    torch.testing.assert_close(after, tuple(expected))


@every_cell
def test_a_stack_goes_on_in_pieces_and_step_by_step(name: str):
    torch.manual_seed(0)
    recurrence, x = Recurrence(BUILDS[name], 3, 4, layers=2).double(), torch.randn(2, 6, 3).double()
    outputs, states = recurrence(x)
    early, middle = recurrence(x[:, :2])
    late, last = recurrence(x[:, 2:], middle)
    torch.testing.assert_close(torch.cat([early, late], 1), outputs)
    torch.testing.assert_close(last, states)
    here, steps = recurrence.initial(x), []
    for t in range(6):
        output, here = recurrence.step(x[:, t], here)
        steps.append(output)
    torch.testing.assert_close(torch.stack(steps, 1), outputs)
    torch.testing.assert_close(here, states)


def test_dropout_stands_between_layers_and_only_in_training():
    torch.manual_seed(0)
    recurrence, x = Recurrence(CELLS["rnn"], 3, 64, layers=2, dropout=0.5), torch.randn(2, 6, 3)
    first = recurrence.cells[0](x).outputs
    seen: list[Tensor] = []
    recurrence.cells[1].register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    recurrence(x)
    recurrence.eval()(x)
    assert torch.equal(seen[0] == 0, seen[0] != 2 * first)
    assert 0.3 < (seen[0] == 0).float().mean() < 0.7
    assert torch.equal(seen[1], first)


def test_cells_and_states_stand_layer_by_layer_forward_before_backward():
    recurrence = Recurrence(CELLS["lstm"], 3, 4, layers=2, bidirectional=True)
    names = {id(module): name for name, module in recurrence.named_modules()}
    assert [names[id(cell)] for cell in recurrence.cells] == ["forwards.0", "backwards.0", "forwards.1", "backwards.1"]
    assert [cell.input_size for cell in recurrence.cells] == [3, 3, 8, 8]
    rows = list(parameter_rows(recurrence, "reader"))
    assert rows[0] == ParameterRow("reader.forwards.0", "4*(n^2 + n*m + n)", {"n": 4, "m": 3})
    assert sum(row.count for row in rows) == count_parameters(recurrence)


def test_a_deep_copy_and_a_state_dict_carry_everything():
    torch.manual_seed(0)
    recurrence, x = Recurrence(CELLS["gru"], 3, 4, 2, bidirectional=True), torch.randn(2, 5, 3)
    twin = copy.deepcopy(recurrence)
    other = Recurrence(CELLS["gru"], 3, 4, 2, bidirectional=True)
    other.load_state_dict(recurrence.state_dict())
    assert torch.equal(twin(x).outputs, recurrence(x).outputs)
    assert torch.equal(other(x).outputs, recurrence(x).outputs)


COMPILED = """
import torch
from neuropil.models.recurrent import CELLS
from neuropil.parts.recurrence import Recurrence

for name in ("lstm", "mingru"):
    torch.manual_seed(0)
    recurrence = Recurrence(CELLS[name], 3, 4, bidirectional=True)
    x, lengths = torch.randn(2, 40, 3), torch.tensor([40, 2])
    results = []
    for run in (recurrence, torch.compile(recurrence, backend="eager")):
        outputs, states = run(x, None, lengths)
        loss = outputs.square().sum() + sum(part.sum() for state in states for part in state)
        results.append([outputs, *torch.autograd.grad(loss, list(recurrence.parameters()))])
    torch.testing.assert_close(*results)
"""


def test_compiled_it_is_the_same():
    """In a process of its own, as what is compiled there is not checked for shapes."""
    answer = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


# --- states -----------------------------------------------------------------------------------------------------------


def test_rows_of_states_are_chosen_and_cut_off_from_their_past():
    states = LSTMState(torch.arange(6.0).reshape(3, 2).requires_grad_(), torch.arange(6.0).reshape(3, 2) + 10)
    (chosen,) = reorder([states], torch.tensor([2, 0, 2, 2]))
    assert isinstance(chosen, LSTMState)
    assert chosen.h.tolist() == [[4, 5], [0, 1], [4, 5], [4, 5]]
    assert chosen.c.tolist() == [[14, 15], [10, 11], [14, 15], [14, 15]]
    assert chosen.h.requires_grad
    assert not detach([chosen])[0].h.requires_grad


def test_backwards_turns_each_row_within_its_length():
    x = torch.arange(8.0).reshape(2, 4, 1)
    assert backwards(x, torch.tensor([3, 0])).flatten().tolist() == [2, 1, 0, 3, 4, 5, 6, 7]
    assert backwards(x, None).flatten().tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    assert torch.equal(backwards(backwards(x, torch.tensor([2, 4])), torch.tensor([2, 4])), x)
