"""The formula, back-propagation through time by hand beside autograd and finite differences, and how gradients fade."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.models.rnn import RNN, RNNConfig, RNNGradients, back_through_time, gradients_by_hand
from neuropil.parts.activations import ACTIVATIONS, ActivationName
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import Hidden, Lengths, choose, valid_mask


def cell_of(inputs: int, units: int, activation: ActivationName = "tanh") -> RNN:
    cell = RNN(RNNConfig(input_size=inputs, hidden_size=units, activation=activation)).double()
    nn.init.normal_(cell.bias)
    return cell


def gradients_of(loss: Tensor, cell: RNN, output: nn.Linear, first: Tensor) -> tuple[Tensor, ...]:
    """Of W, U, b, V, c and h_0, by autograd."""
    sources = [cell.state_weight, cell.input_weight, cell.bias, output.weight, output.bias, first]
    return torch.autograd.grad(loss, sources, materialize_grads=True, allow_unused=True)


def test_the_step_is_the_formula():
    torch.manual_seed(0)
    cell, x, h = cell_of(3, 4), torch.randn(2, 3).double(), torch.randn(2, 4).double()
    W, U, b = cell.state_weight, cell.input_weight, cell.bias
    expected = [[torch.tanh(W[i] @ h[row] + U[i] @ x[row] + b[i]).item() for i in range(4)] for row in range(2)]
    torch.testing.assert_close(cell.step(x, Hidden(h)).h, torch.tensor(expected).double())


@pytest.mark.parametrize(("activation", "theirs"), [("tanh", "tanh"), ("relu", "relu")])
def test_with_pytorchs_two_activations_it_runs_on_the_kernel_of_nn_rnn(activation: ActivationName, theirs: str):
    torch.manual_seed(0)
    cell, x, h = cell_of(3, 4, activation), torch.randn(2, 9, 3).double(), torch.randn(2, 4).double()
    module = nn.RNN(3, 4, batch_first=True, nonlinearity=theirs).double()
    weights = (cell.input_weight, cell.state_weight, cell.bias, torch.zeros(4))
    module.load_state_dict(dict(zip(module.state_dict(), weights, strict=True)))
    assert choose(cell, 9, x.device).way == "fused"
    torch.testing.assert_close(cell(x, Hidden(h)).outputs, module(x, h.unsqueeze(0))[0])
    torch.testing.assert_close(cell(x, Hidden(h), way="loop").outputs, module(x, h.unsqueeze(0))[0])


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS.keys() - {"tanh", "relu"}))
def test_with_any_other_activation_it_runs_as_a_loop(activation: ActivationName):
    cell = cell_of(3, 4, activation)
    way, reason = choose(cell, 9, torch.device("cpu"))
    assert (way, reason) == ("loop", "PyTorch has no kernel for this RNN, and its state is not linear")


# --- back-propagation through time by hand ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(0, 3),
    time=st.integers(0, 8),
    inputs=st.integers(1, 3),
    units=st.integers(1, 4),
    outputs=st.integers(1, 3),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    classes=...,
    padded=...,
    weighted=...,
)
def test_gradients_by_hand_are_those_of_autograd(
    batch: int,
    time: int,
    inputs: int,
    units: int,
    outputs: int,
    activation: ActivationName,
    classes: bool,
    padded: bool,
    weighted: bool,
):
    """From the first link on, for both losses as torch has them, every activation, any lengths and initial state."""
    torch.manual_seed(batch + 10 * time + 100 * inputs)
    cell, output = cell_of(inputs, units, activation), nn.Linear(units, outputs).double()
    x, first = torch.randn(batch, time, inputs).double(), torch.randn(batch, units).double().requires_grad_()
    lengths: Lengths | None = torch.randint(0, time + 1, (batch,)) if padded else None
    counted = torch.ones(batch, time).bool() if lengths is None else valid_mask(lengths, time)
    alpha = torch.rand(batch, time).double() if weighted else torch.ones(batch, time).double()
    o = output(cell(x, Hidden(first), lengths).outputs)
    if classes:
        target = torch.randint(0, outputs, (batch, time))
        losses = F.cross_entropy(o.flatten(0, 1), target.flatten(), reduction="none").view(batch, time)
    else:
        target = torch.randn(batch, time, outputs).double()
        losses = F.mse_loss(o, target, reduction="none").sum(-1) / 2
    expected = gradients_of((alpha * losses)[counted].sum(), cell, output, first)
    filled = x.masked_fill(~counted.unsqueeze(-1), torch.nan)  # whatever stands in the padding
    found = gradients_by_hand(cell, output, filled, target, Hidden(first), lengths, alpha if weighted else None)
    torch.testing.assert_close(tuple(found[:6]), expected, rtol=1e-6, atol=1e-9)
    assert found.h.shape == (batch, time, units)


def test_without_an_initial_state_it_begins_at_zero():
    torch.manual_seed(0)
    cell, output = cell_of(2, 3), nn.Linear(3, 2).double()
    x, target = torch.randn(2, 5, 2).double(), torch.randint(0, 2, (2, 5))
    zero = Hidden(torch.zeros(2, 3).double())
    torch.testing.assert_close(
        gradients_by_hand(cell, output, x, target), gradients_by_hand(cell, output, x, target, zero)
    )


def test_in_single_precision_they_agree_within_a_millionth():
    torch.manual_seed(0)
    cell, output, x = RNN(RNNConfig(input_size=8, hidden_size=16)), nn.Linear(16, 5), torch.randn(4, 30, 8)
    o = output(cell(x).outputs)
    do = torch.randn_like(o) / o.numel()
    expected = torch.autograd.grad(o, [cell.state_weight, cell.input_weight, cell.bias, output.weight, output.bias], do)
    found = back_through_time(cell, output.weight, x, do)
    assert max(float((ours - theirs).abs().max()) for ours, theirs in zip(found[:5], expected, strict=True)) < 1e-6


def test_gradients_by_hand_are_finite_differences():
    torch.manual_seed(0)
    cell, output = cell_of(2, 3, "logistic"), nn.Linear(3, 2).double()
    x, target = torch.randn(2, 5, 2).double(), torch.randint(0, 2, (2, 5))

    def loss() -> Tensor:
        """−Σ ln ŷ of the right class."""
        with torch.no_grad():
            odds = output(cell(x).outputs).exp()
            return -(odds.gather(-1, target.unsqueeze(-1)).squeeze(-1) / odds.sum(-1)).log().sum()

    found = gradients_by_hand(cell, output, x, target)
    parameters = (cell.state_weight, cell.input_weight, cell.bias, output.weight, output.bias)
    for gradient, parameter in zip(found[:5], parameters, strict=True):
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
    found = back_through_time(cell, V, x, at_the_end)
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
        found = back_through_time(cell, torch.ones(1, 1).double(), torch.zeros(1, 50, 1).double(), do)
        torch.testing.assert_close(found.h.flatten(), w ** torch.arange(49, -1, -1).double())


@pytest.mark.parametrize(("inputs", "units"), [(1, 1), (5, 7)])
def test_it_learns_n_squared_and_n_m_and_n_numbers(inputs: int, units: int):
    cell = RNN(RNNConfig(input_size=inputs, hidden_size=units))
    assert count_parameters(cell) == cell.parameter_table()[0].count == units**2 + units * inputs + units


def test_at_first_w_keeps_the_length_of_the_state():
    W = RNN(RNNConfig(input_size=3, hidden_size=6)).state_weight
    torch.testing.assert_close(W @ W.mT, torch.eye(6))
