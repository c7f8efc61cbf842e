"""The scan is the recurrence taken step by step, with its gradients, whatever the sizes, the layout in memory and the
length."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from neuropil.parts import scan as scan_module
from neuropil.parts.scan import WIDE, Form, choose_form, depth, log_scan, log_scan_of_logs, scan

SEEDS = st.integers(0, 2**16)
LENGTHS = st.one_of(st.integers(0, 9), st.sampled_from([15, 16, 17, 31, 33, 64]))


def stepwise(a: Tensor, b: Tensor, first: Tensor) -> Tensor:
    h, states = first, [b[:, :0]]
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h.unsqueeze(1))
    return torch.cat(states, 1)


def problem(
    batch: int, time: int, units: int, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Factors between −1 and 1, some of them exactly 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.empty(batch, time, units, dtype=dtype).uniform_(-1, 1, generator=generator)
    kind = torch.rand(a.shape, generator=generator)
    a = a.masked_fill(kind < 0.1, 0).masked_fill(kind > 0.9, 1)
    b, first = (torch.randn(shape, dtype=dtype, generator=generator) for shape in (a.shape, (batch, units)))
    return a, b, first


@pytest.fixture(params=["one after the other", "in pairs"])
def branch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way of solving, whatever the size of the problem."""
    monkeypatch.setattr(scan_module, "WIDE", 0 if request.param == "one after the other" else math.inf)


@pytest.mark.usefixtures("branch")
class TestBothBranches:
    @settings(deadline=None, max_examples=40)
    @given(batch=st.integers(0, 3), time=LENGTHS, units=st.integers(1, 4), seed=SEEDS)
    def test_all_states_and_all_gradients_are_those_of_the_steps(self, batch: int, time: int, units: int, seed: int):
        inputs = [part.requires_grad_() for part in problem(batch, time, units, seed)]
        direction = torch.randn(batch, time, units, dtype=torch.float64)
        results = []
        for function in (scan, stepwise):
            h = function(*inputs)
            results.append((h, torch.autograd.grad(h, inputs, direction, materialize_grads=True)))
        (ours, our_gradients), (theirs, their_gradients) = results
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(our_gradients, their_gradients, rtol=1e-10, atol=1e-11)

    @pytest.mark.parametrize("time", [0, 1, 2, 3, 6])
    def test_gradients_and_their_gradients_are_those_of_finite_differences(self, time: int):
        inputs = [part.requires_grad_() for part in problem(2, time, 2, seed=time)]
        assert torch.autograd.gradcheck(scan, inputs)
        assert torch.autograd.gradgradcheck(scan, inputs)

    def test_the_layout_in_memory_does_not_matter_and_the_inputs_are_left_alone(self):
        a, b, first = problem(3, 9, 4, seed=0)
        expected = stepwise(a, b, first)
        layouts: list[Callable[[Tensor], Tensor]] = [
            lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
            lambda x: x.mT.contiguous().mT,
            lambda x: x.repeat(1, 1, 2)[..., : x.shape[-1]],
        ]
        for layout in layouts:
            strided = layout(a), layout(b), layout(first.unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(scan(*strided), expected)
            assert all(map(torch.equal, strided, (a, b, first)))
        gradient = torch.autograd.grad(scan(a.requires_grad_(), b, first).sum(), a)[
            0
        ]  # the gradient of a sum is one number, expanded
        torch.testing.assert_close(gradient, torch.autograd.grad(stepwise(a, b, first).sum(), a)[0])
        expanded = torch.ones(1, 1, 1, dtype=torch.float64).expand(3, 9, 4)
        torch.testing.assert_close(
            scan(expanded, expanded, expanded[:, 0]), torch.arange(2.0, 11).double()[:, None].expand(3, 9, 4)
        )

    def test_without_gradients_it_is_the_same(self):
        inputs = problem(2, 7, 3, seed=0)
        with torch.no_grad():
            unwatched = scan(*(part.clone().requires_grad_() for part in inputs))
        with torch.inference_mode():
            inferred = scan(*inputs)
        assert not unwatched.requires_grad
        assert torch.equal(unwatched, scan(*inputs))
        assert torch.equal(inferred, unwatched)

    def test_only_what_needs_a_gradient_gets_one(self):
        for needed in range(3):
            inputs = [part.requires_grad_(i == needed) for i, part in enumerate(problem(2, 5, 3, seed=1))]
            direction = torch.randn(2, 5, 3, dtype=torch.float64)
            ours, theirs = (torch.autograd.grad(f(*inputs), inputs[needed], direction)[0] for f in (scan, stepwise))
            torch.testing.assert_close(ours, theirs)

    @pytest.mark.parametrize("gate", [1e-9, 1e-4, 0.5, 1.0], ids=str)
    def test_16384_steps_in_single_precision_agree_with_double_precision(self, gate: float):
        """From gates that are shut almost always to gates that are open almost always."""
        generator = torch.Generator().manual_seed(0)
        opened = (gate * 2 * torch.rand(1, 16_384, 2, generator=generator)).clamp(max=1)
        a, b, first = 1 - opened, opened * torch.randn(opened.shape, generator=generator), torch.tensor([[-1e4, 1.0]])
        exact = stepwise(a.double(), b.double(), first.double())
        torch.testing.assert_close(scan(a.double(), b.double(), first.double()), exact, rtol=1e-11, atol=1e-11)
        assert ((scan(a, b, first) - exact).abs().amax(1) <= 1e-4 * exact.abs().amax(1)).all()


def test_wide_problems_are_solved_as_narrow_ones_are():
    wide = problem(2, 5, WIDE, seed=0)
    narrow = torch.cat([scan(*(part[..., i : i + 1] for part in wide)) for i in range(0, WIDE, 100)], -1)
    torch.testing.assert_close(scan(*wide)[..., ::100], narrow)


def test_on_the_meta_device_shapes_are_enough():
    x = torch.empty(2, 5, 3, device="meta")
    assert scan(x, x, x[:, 0]).shape == log_scan(x, x, x[:, 0]).shape == x.shape


# --- logarithms -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(0, 3), time=LENGTHS, units=st.integers(1, 3), seed=SEEDS, size=st.sampled_from([0.0, 1.0, 1e6])
)
def test_logarithms_give_the_same_from_any_first_state(batch: int, time: int, units: int, seed: int, size: float):
    a, b, first = problem(batch, time, units, seed)
    log_a, log_b, first = -10 * a.abs(), 3 * b, size * first
    inputs = [part.requires_grad_() for part in (log_a, log_b, first)]
    ours, theirs = log_scan(*inputs), stepwise(log_a.exp(), log_b.exp(), first)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    direction = torch.randn(ours.shape, dtype=torch.float64)
    gradients = [torch.autograd.grad(h, inputs, direction, materialize_grads=True) for h in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-7)


def test_logarithms_hold_what_no_number_could():
    log_a, log_b = torch.full((1, 6, 1), -2000.0), torch.full((1, 6, 1), 1000.0)
    found = log_scan_of_logs(log_a, log_b + torch.arange(6.0).reshape(1, 6, 1))
    torch.testing.assert_close(found.flatten(), 1000 + torch.arange(6.0))


def test_16384_logarithms_in_single_precision_agree_with_double_precision():
    generator = torch.Generator().manual_seed(0)
    sums = 8 * torch.randn(1, 16_384, 2, dtype=torch.float64, generator=generator)
    log_a, log_b = torch.nn.functional.logsigmoid(-sums), torch.nn.functional.logsigmoid(sums)
    first = torch.tensor([[-1e3, 1e3]], dtype=torch.float64)
    exact = scan(log_a.exp(), log_b.exp(), first)
    torch.testing.assert_close(log_scan(log_a, log_b, first), exact, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        log_scan(log_a.float(), log_b.float(), first.float()).double(), exact, rtol=1e-4, atol=1e-5
    )


# --- how deep it is ---------------------------------------------------------------------------------------------------


class CountedOperations(TorchDispatchMode):
    """Multiplications and additions that something is computed by: each of them needs the one before it, while the
    products of factors stand beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = self.beside = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found, name = func(*args, **(kwargs or {})), func.__name__
        if isinstance(found, Tensor) and found.numel():
            self.waiting += name.startswith("addcmul")
            self.beside += name.startswith("mul")
        return found


@pytest.mark.parametrize("form", ["steps", "doubling"])
@pytest.mark.parametrize("time", [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 64, 100, 127, 1000, 1024])
def test_the_depth_is_what_a_count_of_its_operations_finds(time: int, form: Form):
    a, b, first = problem(1, time, 2, 0)
    with CountedOperations() as counted:
        h = scan(a, b, first, form=form)
    torch.testing.assert_close(h, stepwise(a, b, first))
    assert counted.waiting == depth(time, form)
    assert counted.beside == (0 if form == "steps" or time < 1 else math.floor(math.log2(time)))  # one in each level


@given(time=st.integers(2, 2**20))
def test_by_doubling_it_is_twice_the_logarithm_at_most(time: int):
    levels = math.floor(math.log2(time))
    assert math.ceil(math.log2(time)) <= depth(time, "doubling") <= 2 * levels + 1
    assert depth(time, "steps") == time


def test_a_processor_takes_wide_steps_one_after_the_other():
    cpu, other = torch.device("cpu"), torch.device("meta")
    assert [choose_form(width, cpu) for width in (1, WIDE - 1, WIDE)] == ["doubling", "doubling", "steps"]
    assert choose_form(WIDE, other) == "doubling"
    for width, waiting in ((WIDE // 2, depth(50, "doubling")), (WIDE, 50)):
        with CountedOperations() as counted:
            scan(*problem(1, 50, width, 0))
        assert counted.waiting == waiting
