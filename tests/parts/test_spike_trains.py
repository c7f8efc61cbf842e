"""Rates from intervals, neuron by neuron, beside what NumPy says of each train alone."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuropil.parts.spike_trains import interval_rates


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 4)), max_size=60, unique=True))
def test_a_rate_is_one_over_the_mean_interval_and_zero_where_there_is_none(spikes: list[tuple[int, int]]):
    times = torch.tensor([time / 10 for time, _ in spikes], dtype=torch.double)
    neurons = torch.tensor([neuron for _, neuron in spikes], dtype=torch.int64)
    found = interval_rates(times, neurons, 5)
    for neuron in range(5):
        train = np.sort(times[neurons == neuron].numpy())
        expected = 1000 / np.diff(train).mean() if len(train) > 1 else 0.0
        np.testing.assert_allclose(found[neuron], expected)
