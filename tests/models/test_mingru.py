"""The scan beside the step, from any first state, with gates that are shut, open or in between, over 16,384 steps, and
by logarithms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import Hidden

SIZES_OF_STATES = [0.0, 1.0, 1e6, 1e30]


def random_cell(inputs: int = 3, units: int = 4, *, positive: bool = False, spread: float = 1.0) -> MinGRU:
    cell = MinGRU(MinGRUConfig(input_size=inputs, hidden_size=units, positive=positive)).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter, std=spread)
    return cell


def stepwise(cell: MinGRU, x: Tensor, first: Hidden) -> Tensor:
    state, outputs = first, []
    for step in x.unbind(1):
        state = cell.step(step, state)
        outputs.append(state.h)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("positive", [False, True])
def test_the_step_is_the_formula(positive: bool):
    torch.manual_seed(0)
    cell, x, h = random_cell(positive=positive), torch.randn(9, 3).double(), torch.randn(9, 4).double()
    (U_g, U), (b_g, b) = cell.input_weight.split(4), cell.bias.split(4)
    g, a = 1 / (1 + torch.exp(-(x @ U_g.mT + b_g))), x @ U.mT + b
    candidate = (
        torch.tensor([[math.exp(z) if z < 0 else 1 + z for z in row] for row in a.tolist()]).double() if positive else a
    )
    torch.testing.assert_close(cell.step(x, Hidden(h)).h, g * candidate + (1 - g) * h)


@settings(deadline=None, max_examples=50)
@given(
    time=st.integers(1, 40),
    size=st.sampled_from(SIZES_OF_STATES),
    spread=st.sampled_from([0.1, 1.0, 30.0, 1000.0]),
    positive=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_scan_equals_the_step_from_any_state_with_gates_saturated_both_ways(
    time: int, size: float, spread: float, positive: bool, seed: int
):
    torch.manual_seed(seed)
    cell, x = random_cell(positive=positive, spread=spread), torch.randn(2, time, 3).double()
    first = Hidden((size * torch.randn(2, 4).double()).requires_grad_())
    scanned, stepped = cell(x, first, way="scan").outputs, stepwise(cell, x, first)
    torch.testing.assert_close(scanned, stepped, rtol=1e-9, atol=1e-12 * max(size, 1))
    direction, sources = torch.randn(scanned.shape).double(), [*cell.parameters(), first.h]
    ours, theirs = (torch.autograd.grad(h, sources, direction) for h in (scanned, stepped))
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9 * max(size, 1))


@settings(deadline=None, max_examples=50)
@given(
    time=st.integers(0, 40),
    size=st.sampled_from(SIZES_OF_STATES),
    spread=st.sampled_from([0.1, 1.0, 30.0, 1000.0]),
    seed=st.integers(0, 2**16),
)
def test_logarithms_give_the_same(time: int, size: float, spread: float, seed: int):
    torch.manual_seed(seed)
    cell, x = random_cell(positive=True, spread=spread), torch.randn(2, time, 3).double()
    first = Hidden(size * torch.randn(2, 4).double())
    ours, by_scan = cell.log_outputs(x, first), cell(x, first).outputs
    torch.testing.assert_close(ours, by_scan, rtol=1e-9, atol=1e-9 * max(size, 1))
    if time:
        torch.testing.assert_close(cell.log_outputs(x), cell(x).outputs, rtol=1e-9, atol=1e-9)
        gradients = [torch.autograd.grad(h.sum(), list(cell.parameters())) for h in (ours, by_scan)]
        torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6 * max(size, 1))


@pytest.mark.parametrize("bias", [-12.0, -4.0, 0.0, 4.0, 30.0])
def test_16384_steps_in_single_precision_agree_with_double_precision(bias: float):
    """From gates that hardly ever open to gates that hardly ever shut."""
    torch.manual_seed(0)
    cell = random_cell(2, 3, positive=True)
    with torch.no_grad():
        cell.bias[:3] = bias
    x, first = torch.randn(1, 16_384, 2).double(), Hidden(torch.tensor([[-100.0, 0.0, 100.0]]).double())
    cell, x, first = cell.float(), x.float(), Hidden(first.h.float())
    drive = cell.drive(x)
    rounded, by_logarithms = cell(x, first).outputs, cell.log_outputs(x, first)
    steps = cell.linear(drive.double())
    h, expected = first.h.double(), []
    for a, b in zip(steps.a.unbind(1), steps.b.unbind(1), strict=True):
        h = a * h + b
        expected.append(h)
    exact = torch.stack(expected, 1)
    for found in (rounded, by_logarithms):
        assert ((found - exact).abs().amax(1) <= 1e-4 * exact.abs().amax(1)).all()


def test_shut_it_keeps_its_state_and_open_it_is_the_candidate():
    torch.manual_seed(0)
    cell, x, first = random_cell(), torch.randn(2, 50, 3).double(), Hidden(torch.randn(2, 4).double())
    with torch.no_grad():
        cell.input_weight[:4] = 0
        cell.bias[:4] = -800
        assert torch.equal(cell(x, first).outputs, first.h.unsqueeze(1).expand(2, 50, 4))
        cell.bias[:4] = 800
        assert torch.equal(cell(x, first).outputs, cell.drive(x)[..., 4:])


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    cell, x = random_cell(2, 2, positive=True), torch.randn(2, 5, 2).double().requires_grad_()
    h = torch.randn(2, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, h: cell(x, Hidden(h)).outputs, (x, h))
    assert torch.autograd.gradcheck(lambda x, h: cell.log_outputs(x, Hidden(h)), (x, h))


def test_logarithms_of_what_may_be_negative_are_refused():
    with pytest.raises(InputError) as error:
        random_cell().log_outputs(torch.zeros(1, 2, 3).double())
    assert str(error.value) == "logarithms need candidates above zero, but got positive=False: set positive=True."


def test_it_learns_nothing_about_its_state():
    cell = MinGRU(MinGRUConfig(input_size=5, hidden_size=7))
    assert count_parameters(cell) == cell.parameter_table()[0].count == 2 * (7 * 5 + 7)
