"""Group norm and SiLU as one function beside PyTorch's, one after the other."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from neuropil.models.unet.group_norm import FEW_THREADS, GroupNormSiLU


def layer(groups: int, channels: int) -> GroupNormSiLU:
    torch.manual_seed(0)
    found = GroupNormSiLU(groups, channels, eps=1e-3)
    with torch.no_grad():
        found.weight.normal_()
        found.bias.normal_()
    return found


def separately(norm: GroupNormSiLU, x: Tensor, shift: Tensor | None) -> Tensor:
    moved = x if shift is None else x + shift[:, :, None, None]
    return F.silu(F.group_norm(moved, norm.num_groups, norm.weight, norm.bias, norm.eps))


def features(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Whose mean is not zero."""
    x = 2 + 3 * torch.randn(*shape, dtype=dtype)
    return x.contiguous(memory_format=torch.channels_last).requires_grad_()


@settings(max_examples=25)
@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 4),
    size=st.integers(1, 5),
    height=st.integers(2, 6),
    width=st.integers(1, 6),
    shifted=st.booleans(),
    last=st.booleans(),
)
def test_it_is_the_norm_and_then_silu_with_the_same_gradients(
    batch: int, groups: int, size: int, height: int, width: int, shifted: bool, last: bool
):
    norm, x = layer(groups, groups * size), features(batch, groups * size, height, width)
    x = x if last else x.detach().contiguous().requires_grad_()
    shift = torch.randn(batch, groups * size).requires_grad_() if shifted else None
    exact = x.detach().double().requires_grad_()
    exact_shift = None if shift is None else shift.detach().double().requires_grad_()
    mine, other = norm(x, shift), separately(norm.double(), exact, exact_shift)
    torch.testing.assert_close(mine.double(), other, rtol=1e-4, atol=1e-5)
    direction = torch.randn_like(other)
    (other * direction).sum().backward()
    expected = [exact.grad, norm.weight.grad, norm.bias.grad] + ([] if exact_shift is None else [exact_shift.grad])
    norm = layer(groups, groups * size)
    (norm(x, shift) * direction.float()).sum().backward()
    found = [x.grad, norm.weight.grad, norm.bias.grad] + ([] if shift is None else [shift.grad])
    for gradient, exactly in zip(found, expected, strict=True):
        assert gradient is not None
        assert exactly is not None
        torch.testing.assert_close(gradient.double(), exactly, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_it_is_exact_to_single_precision_for_small_and_large_numbers(scale: float):
    norm, x = layer(2, 4), features(2, 4, 8, 8)
    with torch.no_grad():
        norm.weight.fill_(scale)
        expected = separately(norm.double(), x.double(), None)
        found = norm.float()(x)
    assert (found - expected).abs().max().item() <= 1e-6 * expected.abs().max().item()


def test_a_mean_far_from_zero_costs_no_digits():
    norm, x = layer(2, 4), (features(2, 4, 8, 8) + 1_000).detach()
    with torch.no_grad():
        expected = separately(norm.double(), x.double(), None)
        torch.testing.assert_close(norm.float()(x).double(), expected, rtol=1e-3, atol=1e-3)


def test_what_is_no_number_stays_so_in_its_picture():
    norm, x = layer(2, 4), features(3, 4, 5, 5).detach()
    x[1, 0, 2, 2] = torch.nan
    y = norm(x)
    assert y[1, :2].isnan().all()
    assert not y[[0, 2]].isnan().any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_pytorchs(dtype: torch.dtype):
    norm, x = layer(2, 4).to(dtype), features(2, 4, 3, 3, dtype=dtype)
    shift = torch.randn(2, 4, dtype=dtype)
    assert torch.equal(norm(x, shift), separately(norm, x, shift))


def test_features_of_autocast_are_normalised_in_single_precision_and_keep_theirs():
    norm, x = layer(2, 4), features(2, 4, 3, 3, dtype=torch.bfloat16)
    shift = torch.randn(2, 4, dtype=torch.bfloat16)
    found = norm(x, shift)
    direction = torch.randn_like(found)
    (found * direction).sum().backward()
    exact = x.detach().float().requires_grad_()
    expected = separately(norm, exact, shift.float())
    torch.testing.assert_close(found, expected.bfloat16(), rtol=2**-8, atol=1e-6)  # one step of bfloat16
    (expected * direction.float()).sum().backward()
    assert x.grad is not None
    assert exact.grad is not None
    torch.testing.assert_close(x.grad, exact.grad.bfloat16())


def test_many_threads_share_pytorchs_own():
    norm, x = layer(2, 4), features(2, 4, 3, 3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(FEW_THREADS + 1)
        assert torch.equal(norm(x), separately(norm, x, None))
        torch.set_num_threads(1)
        assert type(norm(x).grad_fn).__name__ != type(separately(norm, x, None).grad_fn).__name__
    finally:
        torch.set_num_threads(before)


def test_it_runs_where_there_are_no_numbers():
    assert layer(2, 4).to("meta")(torch.empty(2, 4, 3, 3, device="meta")).device.type == "meta"


def test_features_stay_as_they_lie():
    norm, x = layer(2, 4), features(2, 4, 3, 5)
    given_x = x.detach().clone()
    assert norm(x).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, given_x)
