"""Every cell run in every way: the ways agree, padding has no influence, and pieces of a sequence add up to the
whole."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from neuropil.errors import InputError
from neuropil.models.lstm import LSTMState
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.models.recurrent import CELLS
from neuropil.parts.recurrence import (
    CellOutput,
    Hidden,
    Recurrence,
    RunChoice,
    Way,
    choose,
    map_states,
    precision,
    require_sequences,
    valid_mask,
)
from parts.random_cells import (
    BUILDS,
    FASTER,
    Problem,
    every_cell,
    everything,
    maybe_padded,
    problems,
    random_cell,
    random_state,
    require_equal,
    row_by_row,
)

# --- one cell ---------------------------------------------------------------------------------------------------------


@every_cell
@maybe_padded
@settings(deadline=None, max_examples=8)
@given(data=st.data(), backward=st.booleans())
def test_a_loop_is_each_row_step_by_step(name: str, padded: bool, data: st.DataObject, backward: bool):
    problem = data.draw(problems(name, padded=padded))
    cell, x, state, lengths = problem
    ours = everything(problem, lambda _: cell(x, state, lengths, backward=backward, way="loop"))
    require_equal(ours, everything(problem, lambda problem: row_by_row(problem, backward=backward)))


@pytest.mark.parametrize(("name", "way"), FASTER.items())
@maybe_padded
@settings(deadline=None, max_examples=12)
@given(data=st.data(), backward=st.booleans())
def test_the_kernel_and_the_scan_equal_the_loop(name: str, way: Way, padded: bool, data: st.DataObject, backward: bool):
    problem = data.draw(problems(name, padded=padded))
    cell, x, state, lengths = problem
    loop = everything(problem, lambda _: cell(x, state, lengths, backward=backward, way="loop"))
    require_equal(everything(problem, lambda _: cell(x, state, lengths, backward=backward, way=way)), loop)


@pytest.mark.parametrize("name", FASTER)
@maybe_padded
@settings(deadline=None, max_examples=6)
@given(data=st.data(), backward=st.booleans())
def test_in_single_precision_they_agree_to_its_digits(name: str, padded: bool, data: st.DataObject, backward: bool):
    """PyTorch has another kernel of the LSTM for single precision."""
    problem = data.draw(problems(name, padded=padded, dtype=torch.float32))
    cell, x, state, lengths = problem
    loop = everything(problem, lambda _: cell(x, state, lengths, backward=backward, way="loop"))
    require_equal(everything(problem, lambda _: cell(x, state, lengths, backward=backward)), loop, tolerance=3e-5)


@every_cell
@settings(deadline=None, max_examples=8)
@given(
    data=st.data(),
    backward=st.booleans(),
    garbage=st.sampled_from([math.nan, math.inf, 1e30]),
    way=st.sampled_from(["loop", None]),
)
def test_what_stands_in_the_padding_reaches_no_output_no_state_and_no_gradient(
    name: str, data: st.DataObject, backward: bool, garbage: float, way: Way | None
):
    problem = data.draw(problems(name, padded=True))
    cell, x, state, lengths = problem
    assert lengths is not None
    filled = x.detach().masked_fill(~valid_mask(lengths, x.shape[1]).unsqueeze(-1), garbage).requires_grad_()
    clean = everything(problem, lambda _: cell(x, state, lengths, backward=backward, way=way))
    dirty = everything(problem._replace(x=filled), lambda _: cell(filled, state, lengths, backward=backward, way=way))
    assert all(map(torch.equal, clean, dirty))


@every_cell
@settings(deadline=None, max_examples=6)
@given(data=st.data(), cuts=st.lists(st.integers(0, 16), max_size=4))
def test_a_stream_in_pieces_is_the_whole(name: str, data: st.DataObject, cuts: list[int]):
    problem = data.draw(problems(name, padded=False))
    cell, x, first, _ = problem
    bounds = [0, *sorted(min(cut, x.shape[1]) for cut in cuts), x.shape[1]]

    def streamed(_: Problem) -> CellOutput:
        state, outputs = first, []
        for start, stop in itertools.pairwise(bounds):
            piece, state = cell(x[:, start:stop], state)
            outputs.append(piece)
        return CellOutput(torch.cat(outputs, 1), state)

    require_equal(everything(problem, streamed), everything(problem, lambda _: cell(x, first)))


@every_cell
def test_full_lengths_are_no_lengths_at_all(name: str):
    torch.manual_seed(0)
    cell, x = random_cell(name, 3, 4), torch.randn(3, 5, 3, dtype=torch.float64)
    for backward in (False, True):
        whole, padded = cell(x, backward=backward), cell(x, lengths=torch.full((3,), 5), backward=backward)
        assert torch.equal(whole.outputs, padded.outputs)
        assert all(map(torch.equal, whole.state, padded.state))


@every_cell
def test_no_state_is_the_zero_state(name: str):
    torch.manual_seed(0)
    cell, x = random_cell(name, 3, 4), torch.randn(2, 5, 3, dtype=torch.float64)
    zero = map_states(lambda part: torch.zeros(2, 4, dtype=torch.float64), [cell.initial(x)])[0]
    assert torch.equal(cell(x).outputs, cell(x, zero).outputs)
    assert all(not part.any() for part in cell.initial(x))


@pytest.mark.parametrize("name", FASTER)
def test_strided_inputs_are_read_as_what_they_hold(name: str):
    torch.manual_seed(0)
    cell, x = random_cell(name, 3, 4), torch.randn(5, 2, 3, dtype=torch.float64).transpose(0, 1)
    ways: list[Way | None] = ["loop", None]
    for way in ways:
        torch.testing.assert_close(cell(x, way=way).outputs, cell(x.contiguous(), way=way).outputs)


@every_cell
def test_gates_can_be_had_for_all_steps_at_once(name: str):
    torch.manual_seed(0)
    cell, x = random_cell(name, 3, 4), torch.randn(2, 5, 3, dtype=torch.float64)
    state = random_state(cell, 2)
    outputs = cell(x, state).outputs
    before = torch.cat([state.h.unsqueeze(1), outputs[:, :-1]], 1)
    gates = cell.gates(cell.drive(x), before)
    for t in range(5):
        for gate, at_once in zip(cell.gates(cell.drive(x[:, t]), before[:, t]), gates, strict=True):
            torch.testing.assert_close(at_once[:, t], gate)


@every_cell
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["reads float32", "reads bfloat16"])
@maybe_padded
@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_products_are_short_and_states_are_not(name: str, dtype: torch.dtype, padded: bool):
    """A state may come from a layer that answered in bfloat16."""
    torch.manual_seed(0)
    cell, lengths = random_cell(name, 3, 4, torch.float32), torch.tensor([6, 0, 3]) if padded else None
    x = torch.randn(3, 6, 3).to(dtype)
    state = random_state(cell, 3)
    exact = cell(x.float(), state, lengths)
    ways: list[Way | None] = ["loop", None]
    for way in ways:
        with torch.autocast("cpu", torch.bfloat16):
            ran = cell(x, map_states(lambda part: part.to(dtype), [state])[0], lengths, way=way)
            assert cell.step(x[:, 0], ran.state).h.dtype == torch.float32
        assert {part.dtype for part in (ran.outputs, *ran.state)} == {torch.float32}
        for ours, theirs in zip((ran.outputs, *ran.state), (exact.outputs, *exact.state), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0.1, atol=0.1)
        ran.outputs.sum().backward()
        assert all(
            parameter.grad is not None and torch.isfinite(parameter.grad).all() for parameter in cell.parameters()
        )


@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_a_long_scan_adds_up_with_all_digits():
    """A gate of 0.001 keeps 0.999, which bfloat16 would round to 1 and never forget."""
    cell = MinGRU(MinGRUConfig(input_size=1, hidden_size=1))
    with torch.no_grad():
        cell.input_weight.zero_()
        cell.bias.copy_(torch.tensor([math.log(0.001 / 0.999), 1.0]))
    with torch.autocast("cpu", torch.bfloat16):
        last = cell(torch.zeros(1, 4096, 1), Hidden(torch.tensor([[5.0]]))).state.h
    torch.testing.assert_close(last, torch.tensor([[1 + 4 * 0.999**4096]]), rtol=0.02, atol=0.02)


@every_cell
@maybe_padded
def test_on_the_meta_device_shapes_are_enough(name: str, padded: bool):
    cell, x = BUILDS[name](3, 4).to("meta"), torch.empty(2, 5, 3, device="meta")
    lengths = torch.ones(2, dtype=torch.int64, device="meta") if padded else None
    ran = cell(x, lengths=lengths, backward=True)
    assert ran.outputs.shape == (2, 5, 4)
    assert {part.shape for part in ran.state} == {(2, 4)}


# --- which way --------------------------------------------------------------------------------------------------------

CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize(
    ("name", "time", "device", "expected"),
    [
        ("rnn", 9, CPU, RunChoice("fused", "PyTorch has a kernel for RNN")),
        ("lstm", 9, CPU, RunChoice("fused", "PyTorch has a kernel for LSTM")),
        ("gru", 2, CPU, RunChoice("fused", "PyTorch has a kernel for GRU")),
        ("gru", 2, torch.device("cuda", 1), RunChoice("fused", "PyTorch has a kernel for GRU")),
        ("lstm", 9, META, RunChoice("loop", "PyTorch's kernel for LSTM does not run on meta")),
        ("lstm", 1, CPU, RunChoice("loop", "there is only one step")),
        ("mingru", 1, CPU, RunChoice("loop", "there is only one step")),
        ("mingru", 2, CPU, RunChoice("scan", "the new state of MinGRU is linear in the old one")),
        ("mingru", 9, META, RunChoice("scan", "the new state of MinGRU is linear in the old one")),
        (
            "gru_take_before",
            9,
            CPU,
            RunChoice("loop", "PyTorch has no kernel for this GRU, and its state is not linear"),
        ),
        (
            "gru_keep_shared",
            9,
            CPU,
            RunChoice("loop", "PyTorch has no kernel for this GRU, and its state is not linear"),
        ),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_way_is_chosen_by_cell_length_and_device(
    name: str, time: int, device: torch.device, expected: RunChoice, dtype: torch.dtype
):
    assert choose(BUILDS[name](3, 4).to(dtype), time, device) == expected


@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_the_kernel_is_used_in_the_precision_in_which_it_runs():
    cell, x = BUILDS["lstm"](3, 4), torch.zeros(1, 2, 3)
    assert precision(x) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        chosen = choose(cell, 2, CPU, precision(x))
        try:
            nn.LSTM(3, 4)(x)
            expected = "PyTorch has a kernel for LSTM"
        except RuntimeError:
            expected = "PyTorch has a kernel for LSTM, in float32, as none runs in bfloat16 on this cpu"
    assert chosen == RunChoice("fused", expected)


# --- what is refused --------------------------------------------------------------------------------------------------

LSTM = CELLS["lstm"](3, 4)
X = torch.zeros(2, 5, 3)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda: require_sequences(X, 3, torch.tensor([1])),
            "lengths must be 2 whole numbers from 0 to 5, but got [1].",
        ),
        (lambda: LSTM(X, lengths=torch.tensor([1, 6])), "lengths must be 2 whole numbers from 0 to 5, but got [1, 6]."),
        (
            lambda: LSTM(X, lengths=torch.tensor([-1, 5])),
            "lengths must be 2 whole numbers from 0 to 5, but got [-1, 5].",
        ),
        (lambda: LSTM(X[..., :2]), "a recurrence reads sequences of shape [batch, time, 3], but got [2, 5, 2]."),
        (
            lambda: LSTM(X.double()),
            "this recurrence reads numbers in float32, but got float64: convert them by x.to(torch.float32).",
        ),
        (lambda: LSTM(X, LSTM.initial(X[:1])), "the state h of this cell has shape [2, 4], but got [1, 4]."),
        (
            lambda: LSTM(X, LSTMState(torch.zeros(2, 4), torch.zeros(2, 3))),
            "the state c of this cell has shape [2, 4], but got [2, 3].",
        ),
        (
            lambda: CELLS["mingru"](3, 4)(X, way="fused"),
            "MinGRU must have a kernel of PyTorch's to run on, but got none: run it as a loop.",
        ),
        (
            lambda: LSTM(X, way="scan"),
            "the new state of LSTM must be linear in the old one for a scan, but got another: run it as a loop.",
        ),
        (
            lambda: Recurrence(CELLS["rnn"], 3, 4, bidirectional=True).step(X[:, 0], []),
            "a step needs a recurrence of one direction, but got one that also reads from the end.",
        ),
        (
            lambda: Recurrence(CELLS["rnn"], 3, 4, layers=2)(X, [Hidden(torch.zeros(2, 4))]),
            "this recurrence has 2 states, one for each layer and direction, but got 1.",
        ),
        (
            lambda: Recurrence(CELLS["rnn"], 3, 4).step(X[:, 0], []),
            "this recurrence has 1 states, one for each layer and direction, but got 0.",
        ),
    ],
)
def test_a_mistake_gets_one_sentence(run: Callable[[], object], message: str):
    with pytest.raises(InputError) as error:
        run()
    assert str(error.value) == message
