"""Statistics of spike trains, against clocks, random trains and sums written out neuron by neuron."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.inspection.spike_statistics import (
    SpikeTrains,
    binned,
    fano_factor,
    interval_cv,
    joined,
    oscillation,
    population_rate,
    rates,
    regime,
    some_neurons,
    synchrony,
)


def trains(spikes: list[tuple[float, int]], num_neurons: int, duration: float) -> SpikeTrains:
    times, neurons = zip(*spikes, strict=True) if spikes else ((), ())
    return SpikeTrains(
        torch.tensor(times, dtype=torch.double), torch.tensor(neurons, dtype=torch.long), num_neurons, duration
    )


def clock(num_neurons: int, period: float, duration: float, *, together: bool) -> SpikeTrains:
    shift = [0.0 if together else period * neuron / num_neurons for neuron in range(num_neurons)]
    ticks = np.arange(period / 2, duration - period, period)
    return trains(
        [(tick + shift[neuron], neuron) for neuron in range(num_neurons) for tick in ticks], num_neurons, duration
    )


def poisson(num_neurons: int, rate: float, duration: float) -> SpikeTrains:
    random = np.random.default_rng(0)
    number = random.poisson(num_neurons * rate * duration / 1000)
    found = zip(random.uniform(0, duration, number), random.integers(0, num_neurons, number), strict=True)
    return trains([(float(time), int(neuron)) for time, neuron in found], num_neurons, duration)


def test_a_clock_is_regular_whether_alone_or_together():
    apart, together = (clock(20, 10.0, 2000.0, together=together) for together in (False, True))
    for each in (apart, together):
        torch.testing.assert_close(rates(each), torch.full((20,), 99.5, dtype=torch.double), atol=0.6, rtol=0)
        assert interval_cv(each).max() < 1e-9
        assert fano_factor(each, 100.0).max() < 0.02
    assert synchrony(together) == pytest.approx(1.0)
    assert synchrony(apart) < 0.1
    assert oscillation(together) == pytest.approx(100.0, abs=1.0)


def test_random_trains_have_a_cv_and_a_fano_factor_of_one_and_no_synchrony():
    random = poisson(400, 30.0, 10_000.0)
    assert float(rates(random).mean()) == pytest.approx(30.0, rel=0.01)
    assert float(interval_cv(random).mean()) == pytest.approx(1.0, abs=0.01)
    assert float(fano_factor(random).mean()) == pytest.approx(1.0, abs=0.02)
    assert synchrony(random) == pytest.approx(1 / math.sqrt(400), rel=0.1)


@given(
    st.integers(1, 5).flatmap(
        lambda size: st.tuples(
            st.just(size), st.lists(st.tuples(st.floats(0.01, 99.99), st.integers(0, size - 1)), max_size=40)
        )
    )
)
@settings(deadline=None, max_examples=40)
def test_statistics_are_those_of_each_neuron_by_itself(problem: tuple[int, list[tuple[float, int]]]):
    size, spikes = problem
    given_trains = trains(spikes, size, 100.0)
    cv, counts = interval_cv(given_trains), binned(given_trains, 10.0)
    for neuron in range(size):
        own = np.sort([time for time, other in spikes if other == neuron])
        assert float(rates(given_trains)[neuron]) == pytest.approx(10 * len(own))
        intervals = np.diff(own)
        if len(intervals) < 2:
            assert math.isnan(cv[neuron])
        elif intervals.mean() > 1e-6:
            assert float(cv[neuron]) == pytest.approx(intervals.std() / intervals.mean(), abs=1e-6)
        edges = np.arange(11) * 10.0
        assert counts[neuron].tolist() == [
            ((own > low) & (own <= high)).sum() for low, high in itertools.pairwise(edges)
        ]
    torch.testing.assert_close(population_rate(given_trains, 10.0), 100 * counts.double().mean(0))


def test_a_spike_at_the_end_of_a_step_counts_for_it():
    assert binned(trains([(0.1, 0), (1.0, 0), (1.1, 0), (2.0, 0)], 1, 2.0), 1.0).tolist() == [[2, 2]]
    assert population_rate(trains([(2.1, 0)], 1, 2.5), 1.0).tolist() == [0, 0]  # in the rest, which is no whole bin


def test_what_comes_before_is_left_out():
    late = trains([(5.0, 0), (15.0, 1), (25.0, 0)], 2, 30.0).after(10.0)
    assert (late.times.tolist(), late.neurons.tolist(), late.duration) == ([5.0, 15.0], [1, 0], 20.0)


def test_silence_has_no_statistics():
    silent = trains([], 3, 1000.0)
    assert rates(silent).tolist() == [0.0, 0.0, 0.0]
    assert interval_cv(silent).isnan().all()
    assert fano_factor(silent).isnan().all()
    assert math.isnan(synchrony(silent))
    assert math.isnan(oscillation(silent))


def test_mistakes_are_named():
    for mistake, sentence in (
        (lambda: trains([], 0, 10.0), "trains of spikes need neurons and time, but got 0 neurons and 10 ms."),
        (
            lambda: fano_factor(trains([], 1, 150.0), 100.0),
            "a Fano factor needs at least two windows of 100 ms, but got 150 ms.",
        ),
        (
            lambda: binned(trains([], 1, 5.0), 10.0),
            "a bin must not be longer than what was recorded, but got 10 ms of 5 ms.",
        ),
    ):
        with pytest.raises(InputError) as error:
            mistake()
        assert str(error.value) == sentence


def test_some_of_many_neurons_are_evenly_spread_and_counted_anew():
    neurons = torch.arange(120)
    times, places = some_neurons(neurons.double(), neurons, size=100, most=4)
    assert (times.tolist(), places.tolist()) == ([0, 25, 50, 75], [0, 1, 2, 3])
    times, places = some_neurons(neurons.double(), neurons, size=3, most=10)
    assert (times.tolist(), places.tolist()) == ([0, 1, 2], [0, 1, 2])
    assert len(some_neurons(torch.empty(0), torch.empty(0, dtype=torch.long), size=3, most=10)[0]) == 0


def test_parts_of_a_recording_are_joined_in_time():
    whole = joined([trains([(5.0, 1)], 2, 10.0), trains([(1.0, 0), (9.0, 1)], 2, 20.0)])
    assert (whole.times.tolist(), whole.neurons.tolist()) == ([5.0, 11.0, 19.0], [1, 0, 1])
    assert (whole.num_neurons, whole.duration) == (2, 30.0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"cv": 0.2, "synchrony": 0.9}, "synchronous and regular"),
        ({"cv": 0.9, "synchrony": 0.2}, "weakly synchronous and irregular"),
        ({"cv": 0.9, "synchrony": 0.12}, "asynchronous and irregular"),  # 0.05 if 400 neurons are independent
        ({"synchrony": 0.1}, None),
    ],
)
def test_a_regime_is_named_from_what_was_measured(found: dict[str, float], words: str | None):
    assert regime(found, 400) == words
