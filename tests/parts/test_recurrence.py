"""Every cell run in every way: the ways agree, padding has no influence, and pieces of a sequence add up to the whole."""

import copy
import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.models.gru import GRU, GRUConfig
from neuropil.models.lstm import LSTMState
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.models.sequence import CELLS
from neuropil.parts.parameters import ParameterRow, count_parameters
from neuropil.parts.recurrence import (
    Cell,
    Choice,
    Hidden,
    Ran,
    Recurrence,
    State,
    Way,
    backwards,
    choose,
    detach,
    map_states,
    precision,
    reorder,
    require_sequences,
    there,
)

Build = Callable[[int, int], Cell]

BUILDS: dict[str, Build] = {
    **CELLS,
    "gru_take_before": lambda inputs, units: GRU(GRUConfig(inputs=inputs, units=units, gate="take", reset="before")),
    "gru_take_none": lambda inputs, units: GRU(GRUConfig(inputs=inputs, units=units, gate="take", reset="none")),
    "gru_keep_shared": lambda inputs, units: GRU(GRUConfig(inputs=inputs, units=units, gate="keep", reset="shared")),
    "positive_mingru": lambda inputs, units: MinGRU(MinGRUConfig(inputs=inputs, units=units, positive=True)),
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
    return Problem(cell, torch.randn(batch, time, inputs, dtype=dtype).requires_grad_(), random_state(cell, batch), lengths)


def everything(problem: Problem, run: Callable[[Problem], Ran]) -> list[Tensor]:
    """Outputs, last state, and the gradients of all parameters, of the inputs and of the first state."""
    ran = run(problem)
    results = [ran.outputs, *ran.state]
    sources = [*problem.cell.parameters(), problem.x, *problem.state]
    torch.manual_seed(0)
    loss = torch.stack([(result * torch.randn(result.shape, dtype=result.dtype)).sum() for result in results]).sum()
    return [*results, *torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)]


def require_equal(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def row_by_row(problem: Problem, *, backward: bool = False) -> Ran:
    """The definition: each row for itself, as long as it is, one step after the other."""
    cell, x, state, lengths = problem
    sizes = [x.shape[1]] * len(x) if lengths is None else lengths.tolist()
    outputs, states = [x.new_zeros(0, x.shape[1], cell.units)], [map_states(lambda part: part[:0], [state])[0]]
    for row, size in enumerate(sizes):
        here, found = map_states(lambda part, row=row: part[row : row + 1], [state])[0], {}
        for t in reversed(range(size)) if backward else range(size):
            here = cell.step(x[row : row + 1, t], here)
            found[t] = here.h
        zero = torch.zeros(1, cell.units, dtype=x.dtype)
        steps = [found.get(t, zero) for t in range(x.shape[1])]
        outputs.append(torch.stack(steps, 1) if steps else x.new_zeros(1, 0, cell.units))
        states.append(here)
    return Ran(torch.cat(outputs), type(state)(*map(torch.cat, zip(*states, strict=True))))


# --- one cell -------------------------------------------------------------------------------------------------------------------


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
@given(data=st.data(), backward=st.booleans(), garbage=st.sampled_from([math.nan, math.inf, 1e30]), way=st.sampled_from(["loop", None]))
def test_what_stands_in_the_padding_reaches_no_output_no_state_and_no_gradient(
    name: str, data: st.DataObject, backward: bool, garbage: float, way: Way | None
):
    problem = data.draw(problems(name, padded=True))
    cell, x, state, lengths = problem
    assert lengths is not None
    filled = x.detach().masked_fill(~there(lengths, x.shape[1]).unsqueeze(-1), garbage).requires_grad_()
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

    def streamed(_: Problem) -> Ran:
        state, outputs = first, []
        for start, stop in itertools.pairwise(bounds):
            piece, state = cell(x[:, start:stop], state)
            outputs.append(piece)
        return Ran(torch.cat(outputs, 1), state)

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
        assert all(parameter.grad is not None and torch.isfinite(parameter.grad).all() for parameter in cell.parameters())


def test_under_autocast_a_long_scan_adds_up_with_all_digits():
    """A gate of 0.001 keeps 0.999, which bfloat16 would round to 1 and never forget."""
    cell = MinGRU(MinGRUConfig(inputs=1, units=1))
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


# --- which way ------------------------------------------------------------------------------------------------------------------

CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize(
    ("name", "time", "device", "expected"),
    [
        ("rnn", 9, CPU, Choice("fused", "PyTorch has a kernel for RNN")),
        ("lstm", 9, CPU, Choice("fused", "PyTorch has a kernel for LSTM")),
        ("gru", 2, CPU, Choice("fused", "PyTorch has a kernel for GRU")),
        ("gru", 2, torch.device("cuda", 1), Choice("fused", "PyTorch has a kernel for GRU")),
        ("lstm", 9, META, Choice("loop", "PyTorch's kernel for LSTM does not run on meta")),
        ("lstm", 1, CPU, Choice("loop", "there is only one step")),
        ("mingru", 1, CPU, Choice("loop", "there is only one step")),
        ("mingru", 2, CPU, Choice("scan", "the new state of MinGRU is linear in the old one")),
        ("mingru", 9, META, Choice("scan", "the new state of MinGRU is linear in the old one")),
        ("gru_take_before", 9, CPU, Choice("loop", "PyTorch has no kernel for this GRU, and its state is not linear")),
        ("gru_keep_shared", 9, CPU, Choice("loop", "PyTorch has no kernel for this GRU, and its state is not linear")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_way_is_chosen_by_cell_length_and_device(name: str, time: int, device: torch.device, expected: Choice, dtype: torch.dtype):
    assert choose(BUILDS[name](3, 4).to(dtype), time, device) == expected


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
    assert chosen == Choice("fused", expected)


# --- layers and directions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "mingru", "gru_take_before"])
@settings(deadline=None, max_examples=20)
@given(
    layers=st.integers(1, 3),
    bidirectional=st.booleans(),
    time=st.integers(0, 7),
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    seed=SEEDS,
)
def test_a_stack_is_its_cells_one_upon_the_other(name: str, layers: int, bidirectional: bool, time: int, sizes: list[int], seed: int):
    torch.manual_seed(seed)
    recurrence = Recurrence(BUILDS[name], 3, 4, layers, bidirectional).double()
    lengths = torch.tensor([min(size, time) for size in sizes])
    x, states = torch.randn(len(sizes), time, 3).double(), [random_state(cell, len(sizes)) for cell in recurrence.cells]
    outputs, after = recurrence(x, states, lengths)
    cells, expected, below = iter(zip(recurrence.cells, states, strict=True)), [], x
    for _ in range(layers):
        here = [cell(below, state, lengths, backward=i == 1) for i, (cell, state) in enumerate(itertools.islice(cells, 1 + bidirectional))]
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
    assert [cell.inputs for cell in recurrence.cells] == [3, 3, 8, 8]
    rows = recurrence.parameter_rows("reader")
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
from neuropil.models.sequence import CELLS
from neuropil.parts.recurrence import Recurrence

for name in ("lstm", "mingru"):
    torch.manual_seed(0)
    recurrence, x, lengths = Recurrence(CELLS[name], 3, 4, bidirectional=True), torch.randn(2, 40, 3), torch.tensor([40, 2])
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


# --- states ---------------------------------------------------------------------------------------------------------------------


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


# --- what is refused ------------------------------------------------------------------------------------------------------------

LSTM = CELLS["lstm"](3, 4)
X = torch.zeros(2, 5, 3)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: require_sequences(X, 3, torch.tensor([1])), "lengths must be 2 whole numbers from 0 to 5, but got [1]."),
        (lambda: LSTM(X, lengths=torch.tensor([1, 6])), "lengths must be 2 whole numbers from 0 to 5, but got [1, 6]."),
        (lambda: LSTM(X, lengths=torch.tensor([-1, 5])), "lengths must be 2 whole numbers from 0 to 5, but got [-1, 5]."),
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
