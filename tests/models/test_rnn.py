"""The formula, back-propagation through time by hand beside autograd and finite differences, and how gradients fade."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.models.rnn import RNN, RNNConfig, RNNGradients, gradients_by_hand
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import Hidden


def cell_of(inputs: int, units: int) -> RNN:
    cell = RNN(RNNConfig(input_size=inputs, hidden_size=units)).double()
    nn.init.normal_(cell.bias)
    return cell


def test_the_step_is_the_formula():
    torch.manual_seed(0)
    cell, x, h = cell_of(3, 4), torch.randn(2, 3).double(), torch.randn(2, 4).double()
    W, U, b = cell.state_weight, cell.input_weight, cell.bias
    expected = [[torch.tanh(W[i] @ h[row] + U[i] @ x[row] + b[i]).item() for i in range(4)] for row in range(2)]
    torch.testing.assert_close(cell.step(x, Hidden(h)).h, torch.tensor(expected).double())


@settings(deadline=None, max_examples=30)
@given(
    batch=st.integers(0, 3),
    time=st.integers(0, 8),
    inputs=st.integers(1, 3),
    units=st.integers(1, 4),
    outputs=st.integers(1, 3),
    given=...,
)
def test_gradients_by_hand_are_those_of_autograd(
    batch: int, time: int, inputs: int, units: int, outputs: int, given: bool
):
    torch.manual_seed(batch + 10 * time + 100 * inputs)
    cell, output = cell_of(inputs, units), nn.Linear(units, outputs).double()
    x, target = torch.randn(batch, time, inputs).double(), torch.randn(batch, time, outputs).double()
    first = Hidden(torch.randn(batch, units).double()) if given else None
    h = cell(x, first).outputs
    o = output(h)
    loss = (o - target).square().sum() / 2
    sources = [cell.state_weight, cell.input_weight, cell.bias, output.weight, output.bias]
    expected = torch.autograd.grad(loss, sources, materialize_grads=True, allow_unused=True)
    found = gradients_by_hand(cell, output.weight, x, o.detach() - target, first)
    torch.testing.assert_close(tuple(found[:5]), expected, rtol=1e-6, atol=1e-9)
    assert found.h.shape == h.shape


def test_in_single_precision_they_agree_within_a_millionth():
    torch.manual_seed(0)
    cell, output, x = RNN(RNNConfig(input_size=8, hidden_size=16)), nn.Linear(16, 5), torch.randn(4, 30, 8)
    o = output(cell(x).outputs)
    do = torch.randn_like(o) / o.numel()
    expected = torch.autograd.grad(o, [cell.state_weight, cell.input_weight, cell.bias, output.weight, output.bias], do)
    found = gradients_by_hand(cell, output.weight, x, do)
    assert max(float((ours - theirs).abs().max()) for ours, theirs in zip(found[:5], expected, strict=True)) < 1e-6


def test_gradients_by_hand_are_finite_differences():
    torch.manual_seed(0)
    cell, V, c = cell_of(2, 3), torch.randn(2, 3).double(), torch.randn(2).double()
    x, target = torch.randn(2, 5, 2).double(), torch.randn(2, 5, 2).double()

    def loss() -> Tensor:
        with torch.no_grad():
            return (cell(x).outputs @ V.mT + c - target).square().sum() / 2

    found = gradients_by_hand(cell, V, x, (cell(x).outputs @ V.mT + c - target).detach())
    for gradient, parameter in zip(found[:5], (cell.state_weight, cell.input_weight, cell.bias, V, c), strict=True):
        numbers, expected = parameter.data.view(-1), []
        for i in range(len(numbers)):
            here = numbers[i].item()
            ends = []
            for shift in (1e-6, -1e-6):
                numbers[i] = here + shift
                ends.append(loss())
            numbers[i] = here
            expected.append((ends[0] - ends[1]) / 2e-6)
        torch.testing.assert_close(gradient.flatten(), torch.stack(expected), rtol=1e-6, atol=1e-7)


def test_the_gradient_at_each_step_is_that_of_autograd_and_fades():
    torch.manual_seed(0)
    cell, V, x = cell_of(2, 3), torch.randn(1, 3).double(), torch.randn(1, 12, 2).double()
    states = [cell.initial(x)]
    for t in range(12):
        states.append(cell.step(x[:, t], states[-1]))
        states[-1].h.retain_grad()
    (V @ states[-1].h.mT).sum().backward()
    at_the_end = torch.zeros(1, 12, 1).double()
    at_the_end[:, -1] = 1
    found = gradients_by_hand(cell, V, x, at_the_end)
    assert isinstance(found, RNNGradients)
    by_autograd = [state.h.grad for state in states[1:]]
    for t, gradient in enumerate(by_autograd):
        torch.testing.assert_close(found.h[:, t], gradient)
    assert found.h[0, 0].norm() < 0.1 * found.h[0, -1].norm()


def test_a_gradient_over_n_steps_is_the_nth_power_of_w():
    """One unit at h = 0, where tanh is the identity: the story of wⁿ."""
    cell = cell_of(1, 1)
    for w in (0.9, 1.1):
        with torch.no_grad():
            cell.bias.zero_()
            cell.state_weight.fill_(w)
        do = torch.zeros(1, 50, 1).double()
        do[:, -1] = 1
        found = gradients_by_hand(cell, torch.ones(1, 1).double(), torch.zeros(1, 50, 1).double(), do)
        torch.testing.assert_close(found.h.flatten(), w ** torch.arange(49, -1, -1).double())


@pytest.mark.parametrize(("inputs", "units"), [(1, 1), (5, 7)])
def test_it_learns_n_squared_and_n_m_and_n_numbers(inputs: int, units: int):
    cell = RNN(RNNConfig(input_size=inputs, hidden_size=units))
    assert count_parameters(cell) == cell.parameter_table()[0].count == units**2 + units * inputs + units


def test_at_first_w_keeps_the_length_of_the_state():
    W = RNN(RNNConfig(input_size=3, hidden_size=6)).state_weight
    torch.testing.assert_close(W @ W.mT, torch.eye(6))
