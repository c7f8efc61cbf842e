"""Matrices in fewer bytes, beside their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.sampling.gpt2_cpu.matrix import Matrix, packed


def linear(rows: int, columns: int) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(columns, rows)


def test_rounding_to_int8_is_wrong_by_half_a_step_at_most_and_keeps_rows_of_zeros():
    module = linear(24, 40)
    module.weight.data[3] = 0
    matrix = packed(module, "int8")
    assert matrix.weights.dtype == np.uint8
    whole = matrix.weights.astype(np.int64) - 128
    assert np.abs(whole).max(1).tolist() == [127 if row != 3 else 0 for row in range(24)]
    error = (matrix.widened() - module.weight).abs().amax(1)
    assert (error <= 0.5001 * module.weight.abs().amax(1) / 127).all()


def test_int4_takes_half_a_byte_a_weight_and_two_for_each_group_of_32():
    matrix = packed(linear(70, 1024), "int4")
    assert matrix.weights.nbytes + matrix.groups.nbytes == 70 * (1024 // 2 + 1024 // 32 * 2)


@given(rows=st.integers(0, 70), columns=st.integers(0, 700), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=30)
def test_what_int4_can_hold_is_held_exactly(rows: int, columns: int, seed: int):
    """Every place among the bytes is its own: numbers from -8 to 7, with a -8 in each group."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.Embedding(rows, columns)
    whole = torch.randint(-8, 8, (rows, columns), generator=generator).float()
    for start in range(0, columns, 512):
        whole[:, start : start + 64] = -8
    module.weight.data = whole * torch.pow(2.0, torch.randint(-9, 9, (rows, 1), generator=generator))
    assert torch.equal(packed(module, "int4").widened(), module.weight)


def relative_error(matrix: Matrix, weight: Tensor) -> float:
    return ((matrix.widened() - weight).square().sum() / weight.square().sum()).sqrt().item()


def test_int4_is_nearer_than_with_the_largest_weight_as_seven_or_as_minus_eight():
    module = linear(64, 1024)
    module.weight.data.normal_()
    groups = module.weight.detach().view(64, 2, 8, 16, 4).transpose(2, 3).flatten(3)
    extreme = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    for scale in (extreme.abs() / 7, extreme / -8):
        plain = (groups / scale).round().clamp(-8, 7) * scale
        error = ((plain - groups).square().sum() / groups.square().sum()).sqrt().item()
        assert relative_error(packed(module, "int4"), module.weight.detach()) < 0.97 * error


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_some_rows_can_be_widened_alone(precision: str):
    matrix = packed(linear(9, 130), precision)
    assert torch.equal(matrix.widened(torch.tensor([7, 0])), matrix.widened()[[7, 0]])
