"""Random numbers by counting, beside published ones and beside what probability says."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neuropil.parts.binary_units.bernoulli import bernoulli, bernoulli_, random_start, uniform

PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
"""What splitmix64 gives from the seed 1234567, as the reference implementation of Vigna has it."""


def uniforms(count: int, start: int = 0) -> np.ndarray:
    return np.array([uniform(np.uint64(start), place) for place in range(count)])


def test_the_numbers_are_those_of_splitmix64():
    found = [uniform(np.uint64(1234567), place) for place in range(1, 6)]
    assert found == [(number >> 40) / 2**24 for number in PUBLISHED]


def test_the_numbers_are_uniform_and_do_not_depend_on_their_neighbours():
    numbers = uniforms(200_000, start=17)
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    pairs = np.histogram2d(numbers[:-1:2], numbers[1::2], bins=20, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sample_is_one_as_often_as_its_probability_says(dtype: torch.dtype):
    p = torch.linspace(0, 1, 21, dtype=dtype)
    samples = bernoulli(p.repeat(20_000, 1), torch.Generator().manual_seed(0))
    assert samples.dtype == dtype
    assert set(samples.unique().tolist()) == {0.0, 1.0}
    deviation = (samples.double().mean(0) - p) / (p * (1 - p) / 20_000).sqrt().clamp(min=1e-12)
    assert deviation.abs().max() < 4
    assert not samples[:, 0].any()
    assert samples[:, -1].all()


@given(seed=st.integers(0, 2**63 - 1))
def test_the_same_generator_gives_the_same_sample_and_goes_on_to_another(seed: int):
    first, second = (torch.Generator().manual_seed(seed) for _ in range(2))
    p = torch.full((3, 50), 0.5)
    assert torch.equal(bernoulli(p, first), bernoulli(p, second))
    assert not torch.equal(bernoulli(p, first), bernoulli(p, torch.Generator().manual_seed(seed)))
    assert random_start(first) != random_start(first)


def test_probabilities_that_are_no_block_of_memory_are_read_in_their_order():
    p = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]).mT
    assert torch.equal(bernoulli(p), p)


def test_samples_can_take_the_place_of_their_probabilities():
    p = torch.full((3, 50), 0.5)
    first, second = (torch.Generator().manual_seed(0) for _ in range(2))
    expected = bernoulli(p, first)
    assert torch.equal(p, torch.full((3, 50), 0.5))
    assert bernoulli_(p, second) is p
    assert torch.equal(p, expected)


def test_a_sample_has_no_gradient_and_follows_its_device():
    p = torch.full((4,), 0.5, requires_grad=True)
    assert not bernoulli(p).requires_grad
    assert bernoulli(torch.empty(2, 3, device="meta")).shape == (2, 3)
