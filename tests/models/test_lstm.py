"""The gates beside their formulas, and what they are for: to keep a number, and its gradient, for as long as they
want."""

import pytest
import torch
from torch import Tensor

from neuropil.models.lstm import LSTM, LSTMConfig, LSTMState
from neuropil.parts.parameters import count_parameters


def logistic(a: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-a))


def random_cell(inputs: int, units: int) -> LSTM:
    torch.manual_seed(0)
    cell = LSTM(LSTMConfig(input_size=inputs, hidden_size=units)).double()
    torch.nn.init.normal_(cell.bias)
    return cell


def test_gates_and_step_are_the_formulas():
    cell, x = random_cell(3, 4), torch.randn(2, 3).double()
    state = LSTMState(torch.randn(2, 4).double(), torch.randn(2, 4).double())
    W, U, b = (part.split(4) for part in (cell.state_weight, cell.input_weight, cell.bias))
    i, f, g, o = (state.h @ W[k].mT + x @ U[k].mT + b[k] for k in range(4))
    i, f, g, o = logistic(i), logistic(f), torch.tanh(g), logistic(o)
    gates = cell.gates(cell.drive(x), state.h)
    torch.testing.assert_close(tuple(gates), (i, f, g, o))
    assert gates._fields == ("input", "forget", "candidate", "output")
    after = cell.step(x, state)
    torch.testing.assert_close(after.c, f * state.c + i * g)
    torch.testing.assert_close(after.h, o * torch.tanh(f * state.c + i * g))


def test_the_forget_gate_starts_as_open_as_it_is_asked_to():
    for bias in (0.0, 1.0, 2.5):
        cell = LSTM(LSTMConfig(input_size=3, hidden_size=4, forget_bias=bias))
        assert cell.bias.tolist() == [0.0] * 4 + [bias] * 4 + [0.0] * 8
        gates = cell.gates(cell.drive(torch.zeros(1, 3)), torch.zeros(1, 4))
        torch.testing.assert_close(gates.forget, logistic(torch.full((1, 4), bias)))


def test_open_to_the_past_and_shut_to_the_present_it_keeps_number_and_gradient():
    cell = random_cell(3, 4)
    with torch.no_grad():
        cell.bias[:4], cell.bias[4:8] = -50, 50
    first = LSTMState(torch.zeros(2, 4).double(), torch.randn(2, 4).double().requires_grad_())
    last = cell(torch.randn(2, 500, 3).double(), first).state.c
    torch.testing.assert_close(last, first.c)
    torch.testing.assert_close(torch.autograd.grad(last.sum(), first.c)[0], torch.ones(2, 4).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_keeps_what_is_in_the_cell_to_the_last_bit(dtype: torch.dtype):
    """In the kernel a row of no steps at all goes through as many as the longest has."""
    cell = random_cell(3, 4).to(dtype)
    state = LSTMState(torch.randn(2, 4, dtype=dtype), 1e3 * torch.randn(2, 4, dtype=dtype))
    ran = cell(torch.randn(2, 300, 3, dtype=dtype), state, torch.tensor([0, 299]), way="fused")
    assert torch.equal(ran.state.c[0], state.c[0])
    assert torch.equal(ran.state.h[0], state.h[0])
    assert not torch.equal(ran.state.c[1], state.c[1])


def test_it_learns_four_times_what_an_rnn_learns():
    cell = LSTM(LSTMConfig(input_size=5, hidden_size=7))
    assert count_parameters(cell) == cell.parameter_table()[0].count == 4 * (7**2 + 7 * 5 + 7)
