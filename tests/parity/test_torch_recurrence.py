"""Recurrences beside `nn.RNN`, `nn.LSTM` and `nn.GRU` with the same weights: outputs, last states and every
gradient."""

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from neuropil.parts.recurrence import Cell, Recurrence, RecurrenceOutput, State, Way
from neuropil.pretrained.torch_recurrence import TorchRecurrence, from_torch

MODULES = [nn.RNN, nn.LSTM, nn.GRU]


class Problem(NamedTuple):
    module: TorchRecurrence
    x: Tensor
    first: tuple[Tensor, ...]
    """h_0, and c_0 where there is one, as PyTorch has them."""


@st.composite
def problems(draw: st.DrawFn, kind: type[TorchRecurrence], dtype: torch.dtype = torch.float64) -> Problem:
    torch.manual_seed(draw(st.integers(0, 2**16)))
    module = kind(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 4)),
        num_layers=draw(st.integers(1, 3)),
        bidirectional=draw(st.booleans()),
        bias=draw(st.booleans()),
        batch_first=True,
        dtype=dtype,
    )
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)
    batch, time = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    count = module.num_layers * (2 if module.bidirectional else 1)
    first = [
        torch.randn(count, batch, module.hidden_size, dtype=dtype).requires_grad_()
        for _ in range(1 + isinstance(module, nn.LSTM))
    ]
    return Problem(module, torch.randn(batch, time, module.input_size, dtype=dtype).requires_grad_(), tuple(first))


def lengths_for(problem: Problem) -> st.SearchStrategy[Tensor]:
    """A packed batch has no row without a step."""
    batch, time, _ = problem.x.shape
    return st.lists(st.integers(1, time), min_size=batch, max_size=batch).map(torch.tensor)


def run_torchs(problem: Problem, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
    """Outputs and last states; packed where rows end early."""
    module, x, first = problem
    entering: Any = x if lengths is None else pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, last = module(entering, first if isinstance(module, nn.LSTM) else first[0])
    if lengths is not None:
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    return outputs, *(last if isinstance(module, nn.LSTM) else (last,))


def states_of(recurrence: Recurrence, first: tuple[Tensor, ...]) -> list[State]:
    """As ours has them: one for each layer and direction."""
    zero = recurrence.initial(first[0][0])
    return [type(state)(*(part[i] for part in first)) for i, state in enumerate(zero)]


def run_ours(recurrence: Recurrence, problem: Problem, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
    outputs, states = recurrence(problem.x, states_of(recurrence, problem.first), lengths)
    return outputs, *(torch.stack(parts) for parts in zip(*states, strict=True))


def gradients(results: tuple[Tensor, ...], sources: list[Tensor]) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    loss = torch.stack([(result * torch.randn(result.shape, dtype=result.dtype)).sum() for result in results]).sum()
    return torch.autograd.grad(loss, sources)


def parameter_gradients(cell: Cell, found: dict[nn.Parameter, Tensor]) -> dict[str, Tensor]:
    """By the names of the two biases that theirs have, of which the gates' are one in ours."""
    named = {name: found[parameter] for name, parameter in cell.named_parameters()}
    inside = (
        torch.cat([named["bias"][: -cell.hidden_size], named["state_bias"]]) if "state_bias" in named else named["bias"]
    )
    return {
        "weight_ih": named["input_weight"],
        "weight_hh": named["state_weight"],
        "bias_ih": named["bias"],
        "bias_hh": inside,
    }


def require_parity(problem: Problem, lengths: Tensor | None, *, tolerance: float) -> None:
    module, x, first = problem
    ours = from_torch(module)
    expected, results = run_torchs(problem, lengths), run_ours(ours, problem, lengths)
    torch.testing.assert_close(results, expected, rtol=tolerance, atol=tolerance)
    theirs, mine = list(module.parameters()), list(ours.parameters())
    their_gradients, our_gradients = gradients(expected, [*theirs, x, *first]), gradients(results, [*mine, x, *first])
    torch.testing.assert_close(
        our_gradients[len(mine) :], their_gradients[len(theirs) :], rtol=10 * tolerance, atol=10 * tolerance
    )
    named = dict(zip((name for name, _ in module.named_parameters()), their_gradients, strict=False))
    found = dict(zip(mine, our_gradients, strict=False))
    directions = ("", "_reverse") if module.bidirectional else ("",)
    suffixes = [f"_l{layer}{direction}" for layer in range(module.num_layers) for direction in directions]
    compared = 0
    for cell, suffix in zip(ours.cells, suffixes, strict=True):
        for name, gradient in parameter_gradients(cell, found).items():
            if f"{name}{suffix}" in named:
                torch.testing.assert_close(gradient, named[f"{name}{suffix}"], rtol=10 * tolerance, atol=10 * tolerance)
                compared += 1
    assert compared == len(theirs)


every_kind = pytest.mark.parametrize("kind", MODULES)


@every_kind
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_outputs_states_and_gradients_equal_torchs(kind: type[TorchRecurrence], data: st.DataObject):
    require_parity(data.draw(problems(kind)), None, tolerance=1e-10)


@every_kind
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_with_lengths_they_equal_torchs_of_a_packed_batch(kind: type[TorchRecurrence], data: st.DataObject):
    problem = data.draw(problems(kind))
    require_parity(problem, data.draw(lengths_for(problem)), tolerance=1e-10)


@every_kind
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_in_single_precision_they_equal_torchs_to_its_digits(kind: type[TorchRecurrence], data: st.DataObject):
    problem = data.draw(problems(kind, torch.float32))
    for lengths in (None, data.draw(lengths_for(problem))):
        require_parity(problem, lengths, tolerance=1e-5)


@pytest.mark.parametrize("way", ["loop", "fused"])
@every_kind
def test_in_every_way_a_cell_is_one_direction_of_torchs(kind: type[TorchRecurrence], way: Way):
    torch.manual_seed(0)
    module, x = (
        kind(3, 4, bidirectional=True, batch_first=True, dtype=torch.float64),
        torch.randn(2, 6, 3, dtype=torch.float64),
    )
    for cell, backward, expected in zip(
        from_torch(module).cells, (False, True), module(x)[0].split(4, -1), strict=True
    ):
        torch.testing.assert_close(cell(x, backward=backward, way=way).outputs, expected)


@every_kind
def test_a_stream_is_handed_over_between_theirs_and_ours(kind: type[TorchRecurrence]):
    """They read the first half, we the second."""
    torch.manual_seed(0)
    module, x = (
        kind(3, 4, num_layers=2, batch_first=True, dtype=torch.float64),
        torch.randn(2, 8, 3, dtype=torch.float64),
    )
    whole, _ = module(x)
    _, last = module(x[:, :4])
    ours = from_torch(module)
    rest = ours(x[:, 4:], states_of(ours, last if isinstance(last, tuple) else (last,)))
    assert isinstance(rest, RecurrenceOutput)
    torch.testing.assert_close(rest.outputs, whole[:, 4:])


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_they_agree_to_the_digits_of_bfloat16(kind: type[TorchRecurrence], bidirectional: bool):
    """`nn.LSTM` runs there on some processors only."""
    torch.manual_seed(0)
    module, x = kind(3, 8, num_layers=2, batch_first=True, bidirectional=bidirectional), torch.randn(2, 20, 3)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = from_torch(module)(x).outputs, module(x)[0]
    torch.testing.assert_close(ours, theirs.float(), rtol=0.05, atol=0.05)
