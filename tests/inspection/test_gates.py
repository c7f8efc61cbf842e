"""Gates that are looked at without being disturbed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from neuropil.errors import InputError
from neuropil.inspection.gates import correlation, gates_of, ranked_units, record_gates, ties
from neuropil.models.recurrent import CELLS, CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.recurrence import Cell, Recurrence

NAMES: list[CellName] = ["rnn", "lstm", "gru", "mingru"]


def stepped(cell: Cell, x: torch.Tensor, state, length: int) -> dict[str, list[torch.Tensor]]:
    """One row, a step at a time, written down as it happens."""
    seen: dict[str, list[torch.Tensor]] = {}
    for t in range(length):
        gates = cell.gates(cell.drive(x[t]), state.h[0])
        state = cell.step(x[t].unsqueeze(0), state)
        for name, value in gates._asdict().items():
            seen.setdefault(name, []).append(value)
        for name, value in state._asdict().items():
            seen.setdefault(name, []).append(value[0])
    return seen


@settings(deadline=None, max_examples=40)
@given(
    name=st.sampled_from(NAMES),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    backward=st.booleans(),
    begun=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_gates_are_those_of_every_single_step(
    name: CellName, lengths: list[int], backward: bool, begun: bool, seed: int
):
    torch.manual_seed(seed)
    cell = CELLS[name](3, 4)
    x = torch.randn(len(lengths), 6, 3)
    first = cell.initial(x)
    state = type(first)(*(torch.randn_like(part) for part in first)) if begun else None
    counts = torch.tensor(lengths)
    with torch.no_grad():
        ran = cell(x, state, counts, backward=backward)
        found = gates_of(cell, x, ran.outputs, state, counts, backward=backward)
        for row, length in enumerate(lengths):
            there = x[row, :length].flip(0) if backward else x[row, :length]
            begins = type(first)(*(part[row : row + 1] for part in (first if state is None else state)))
            for gate, values in stepped(cell, there, begins, length).items():
                expected = torch.stack(values[::-1] if backward else values)
                torch.testing.assert_close(found[gate][row, :length], expected, atol=1e-5, rtol=1e-4)
                assert not found[gate][row, length:].any()


@pytest.mark.parametrize("name", NAMES)
def test_looking_changes_no_bit_of_what_comes_out(name: CellName):
    torch.manual_seed(0)
    model = RecurrentNetwork(
        RecurrentNetworkConfig(
            cell=name, hidden_size=8, layers=2, bidirectional=True, vocabulary_size=20, output_size=5, shape="aligned"
        )
    ).eval()
    tokens = torch.randint(1, 20, (3, 9))
    tokens[1, 5:] = 0
    alone = model(tokens)
    with record_gates(model) as tape:
        watched = model(tokens)
    assert torch.equal(alone, watched)
    assert list(tape) == ["reader.forwards.0", "reader.backwards.0", "reader.forwards.1", "reader.backwards.1"]
    for cell in tape.values():
        assert all(values.shape == (3, 9, 8) for values in cell.values())
        assert not cell["h"][1, 5:].any()
    last = torch.cat([tape["reader.forwards.1"]["h"], tape["reader.backwards.1"]["h"]], -1)
    assert torch.equal(model.output(last), alone)
    assert all(not module._forward_hooks for module in model.modules())


def test_the_gates_of_an_lstm_are_pytorchs():
    """With one step the gates can be read off `nn.LSTMCell`: c' = f c + i g for two memories tells f, and h' = o tanh
    c' tells o."""
    torch.manual_seed(0)
    theirs, ours = nn.LSTMCell(3, 4), CELLS["lstm"](3, 4)
    ours.load_state_dict(
        {"input_weight": theirs.weight_ih, "state_weight": theirs.weight_hh, "bias": theirs.bias_ih + theirs.bias_hh}
    )
    x, h, c = torch.randn(2, 1, 3), torch.randn(2, 4), torch.randn(2, 4)
    with torch.no_grad(), record_gates(ours) as tape:
        ours(x, type(ours.initial(x))(h, c))
        (h_after, c_after), (_, c_more) = theirs(x[:, 0], (h, c)), theirs(x[:, 0], (h, c + 1))
    gates = tape["cell"]
    torch.testing.assert_close(gates["forget"][:, 0], c_more - c_after, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gates["output"][:, 0], h_after / c_after.tanh(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        (gates["input"] * gates["candidate"])[:, 0], c_after - (c_more - c_after) * c, atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(gates["c"][:, 0], c_after)


def test_a_sequence_without_steps_has_gates_without_steps():
    recurrence = Recurrence(CELLS["lstm"], 3, 4)
    with record_gates(recurrence) as tape:
        recurrence(torch.randn(2, 0, 3))
    assert {name: tuple(values.shape) for name, values in tape["forwards.0"].items()} == dict.fromkeys(
        ["input", "forget", "candidate", "output", "h", "c"], (2, 0, 4)
    )


def test_a_model_without_cells_is_refused():
    with pytest.raises(InputError) as error, record_gates(nn.Linear(2, 2)):
        pass
    assert str(error.value) == "gates are recorded in recurrent cells, but got a Linear without any."


def test_correlation_is_numpys_and_zero_for_what_does_not_move():
    torch.manual_seed(0)
    values, wanted = torch.randn(50, 3), torch.randn(50)
    expected = [float(torch.corrcoef(torch.stack([unit, wanted]))[0, 1]) for unit in values.T]
    torch.testing.assert_close(
        correlation(values, wanted), torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=1e-5
    )
    assert correlation(torch.full((50, 2), 0.3), wanted).tolist() == [0, 0]
    assert correlation(values, torch.ones(50)).tolist() == [0, 0, 0]


def test_a_unit_that_follows_a_property_is_found_and_chance_is_not():
    torch.manual_seed(0)
    quoted = (torch.rand(2_000) < 0.3).float()
    values = torch.randn(2_000, 200)
    values[:, 17] = 0.8 * quoted - 0.1 * torch.randn(2_000)
    values[:1_000, 5] = quoted[:1_000]  # goes with it in the first half only
    strongest, *others = ties({"forget": values}, {"inside quotes": quoted}, most=3)
    assert (strongest.gate, strongest.unit, strongest.property) == ("forget", 17, "inside quotes")
    assert strongest.held_out > 0.9
    assert {tie.unit for tie in others} >= {5}
    assert all(abs(tie.held_out) < 0.15 for tie in others)


def test_nothing_is_tied_to_what_does_not_vary():
    assert ties({"forget": torch.randn(20, 4)}, {"digit": torch.zeros(20)}) == []


def test_units_are_ranked_by_how_they_move_or_by_their_tie():
    property = torch.tensor([0.0, 1.0, 0.0, 1.0])
    still, wild, tied = torch.ones(4), torch.tensor([9.0, 9.0, -9.0, -9.0]), -property
    values = torch.stack([still, wild, tied], 1)
    assert ranked_units(values).tolist() == [1, 2, 0]
    assert ranked_units(values, property).tolist() == [2, 0, 1]
