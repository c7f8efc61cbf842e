import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, signal, stats

from neuropil.errors import InputError
from neuropil.parts.synapses import Synapse, coefficients, held_input, interval_rates, latencies

orders = st.integers(0, 6)
taus = st.floats(0.5, 30)
steps = st.floats(0.05, 2)
delays = st.floats(0, 12)


def spike_train(length: int, seed: int = 0, rate: float = 0.1) -> torch.Tensor:
    return (torch.rand(length, generator=torch.Generator().manual_seed(seed)) < rate).double()


@given(order=orders, tau=taus, delay=delays)
@settings(deadline=None, max_examples=40)
def test_a_filter_is_the_density_of_a_gamma_distribution(order: int, tau: float, delay: float):
    t = np.linspace(0, 60, 301)
    ours = Synapse(tau, order, delay).response(torch.from_numpy(t))
    expected = stats.gamma.pdf(t - delay, order + 1, scale=tau)
    np.testing.assert_allclose(ours.numpy()[t > delay], expected[t > delay], rtol=1e-9, atol=1e-15)
    assert not ours[torch.from_numpy(t < delay)].any()


@pytest.mark.parametrize("order", range(8))
@pytest.mark.parametrize("tau", [0.5, 5.0, 80.0])
def test_the_area_is_one(order: int, tau: float):
    t = torch.linspace(0, tau * (order + 60), 200_001, dtype=torch.double)
    assert torch.trapezoid(Synapse(tau, order).response(t), t).item() == pytest.approx(1, abs=1e-6)


def test_the_peak_comes_after_n_time_constants():
    t = torch.linspace(0, 60, 60_001, dtype=torch.double)
    for order in range(5):
        assert t[Synapse(4.0, order).response(t).argmax()].item() == pytest.approx(4.0 * order, abs=2e-3)


@given(order=orders, tau=taus, dt=steps, delay=delays, length=st.integers(0, 120), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_the_recursion_equals_explicit_convolution(
    order: int, tau: float, dt: float, delay: float, length: int, seed: int
):
    spikes, synapse = spike_train(length, seed), Synapse(tau, order, delay)
    k = torch.arange(length, dtype=torch.double)
    lags = (
        k.unsqueeze(1) - k
    ) * dt  # an h that is 0 before the delay and jumps there is looked at a hair after the step
    summed = (synapse.response(lags + 1e-10 * dt) * spikes).sum(1)
    torch.testing.assert_close(synapse.filter(spikes, dt), summed, atol=1e-8, rtol=1e-7)


@given(order=orders, dt=steps, delay=delays, seed=st.integers(0, 20))
@settings(deadline=None, max_examples=40)
def test_spikes_between_the_steps_are_filtered_without_error(order: int, dt: float, delay: float, seed: int):
    times = 50 * torch.rand(9, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    synapse, ends = Synapse(4.0, order, delay), dt * torch.arange(1, 101, dtype=torch.double)
    summed = synapse.response(ends.unsqueeze(1) + 1e-10 - times).sum(1)
    torch.testing.assert_close(synapse.filter_times(times, 100, dt), summed, atol=1e-8, rtol=1e-7)


def test_a_spike_on_the_grid_is_there_at_its_own_time():
    times = torch.tensor([0.3], dtype=torch.double)  # 3 · 0.1 is a little more than 0.3
    filtered = Synapse(5.0).filter_times(times, 5, 0.1)
    torch.testing.assert_close(filtered[1:3], torch.tensor([0, 0.2], dtype=torch.double))


def test_it_equals_scipys_linear_filter_of_the_same_poles():
    order, tau, dt = 2, 5.0, 0.5
    spikes = spike_train(300).numpy()
    poles = np.poly([math.exp(-dt / tau)] * (order + 1))
    impulse = stats.gamma.pdf(dt * np.arange(order + 1), order + 1, scale=tau)
    numerator = signal.convolve(poles, impulse)[: order + 1]
    expected = signal.lfilter(numerator, poles, spikes)
    np.testing.assert_allclose(Synapse(tau, order).filter(torch.from_numpy(spikes), dt).numpy(), expected, atol=1e-10)


@given(order=orders, tau=taus, dt=steps)
@settings(deadline=None, max_examples=30)
def test_smoothing_leaves_a_constant_what_it_is(order: int, tau: float, dt: float):
    length = math.ceil((order + 40) * tau / dt)
    smoothed = Synapse(tau, order).smooth(torch.full((length,), 3.0, dtype=torch.double), dt)
    assert smoothed[-1].item() == pytest.approx(3.0, rel=1e-9)


@given(order=st.integers(0, 3), tau=st.floats(1, 20))
@settings(deadline=None, max_examples=20)
def test_smoothing_is_scipys_response_of_the_chain_to_an_input_that_is_held(order: int, tau: float):
    n, dt = order + 1, 0.7
    chain = np.diag(np.full(n, -1 / tau)) + np.diag(np.full(order, 1 / tau), -1)
    system = (chain, np.eye(n, 1) / tau, np.eye(1, n)[:, ::-1], np.zeros((1, 1)))
    u = np.random.default_rng(0).standard_normal(80)
    discrete: Any = signal.cont2discrete(system, dt, "zoh")
    a, b, c = discrete[:3]
    x, expected = np.zeros((n, 1)), []
    for value in u:
        x = a @ x + b * value
        expected.append((c @ x).item())
    np.testing.assert_allclose(Synapse(tau, order).smooth(torch.from_numpy(u), dt).numpy(), expected, atol=1e-9)


def test_any_axis_and_any_batch_gives_the_same():
    spikes, synapse = spike_train(60).reshape(3, 20), Synapse(3.0, 2, delay=0.4)
    alone = torch.stack([synapse.filter(row, 0.2) for row in spikes])
    torch.testing.assert_close(synapse.filter(spikes, 0.2), alone)
    torch.testing.assert_close(synapse.filter(spikes.T, 0.2, dim=0), alone.T)
    single = synapse.filter(spikes.float(), 0.2)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), alone, atol=1e-5, rtol=1e-4)


def test_gradients_go_through_a_filter():
    weights = torch.rand(30, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: Synapse(3.0, 2, delay=0.7).filter(x, 0.5), weights)


@given(order=orders, ratio=st.floats(1e-3, 3))
@settings(deadline=None, max_examples=30)
def test_a_chain_of_leaks_step_by_step_is_what_the_filter_does(order: int, ratio: float):
    spikes, tau = spike_train(50, seed=3), 5.0
    state, transition = np.zeros(order + 1), linalg.toeplitz(coefficients(ratio, order), np.zeros(order + 1))
    found = []
    for spike in spikes.tolist():
        state = transition @ state  # xᵢ ← Σ_j g_{i−j} xⱼ
        state[0] += spike / tau
        found.append(state[-1])
    np.testing.assert_allclose(found, Synapse(tau, order).filter(spikes, ratio * tau).numpy(), atol=1e-10)


@given(order=orders, ratio=st.floats(1e-6, 5))
@settings(deadline=None, max_examples=40)
def test_what_a_held_input_leaves_is_the_distribution_of_a_gamma(order: int, ratio: float):
    expected = [stats.gamma.cdf(ratio, i + 1) for i in range(order + 1)]
    np.testing.assert_allclose(held_input(ratio, order), expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"tau": 0.0}, "a synapse must have a time constant above 0 ms, but got tau=0."),
        ({"tau": math.nan}, "a synapse must have a time constant above 0 ms, but got tau=nan."),
        ({"tau": 5.0, "order": -1}, "a synapse must be of an order from 0 to 20, but got order=-1."),
        ({"tau": 5.0, "delay": -1.0}, "a synapse must have a delay of 0 ms or more, but got delay=-1."),
    ],
)
def test_a_synapse_that_cannot_be_is_refused(wrong: dict, sentence: str):
    with pytest.raises(InputError) as error:
        Synapse(**wrong)
    assert str(error.value) == sentence


def test_steps_and_delays_that_make_no_sense_are_refused():
    with pytest.raises(InputError) as error:
        Synapse(5.0).filter(torch.zeros(3), dt=0.0)
    assert str(error.value) == "dt must be a time above 0 ms, but got 0."
    with pytest.raises(InputError) as error:
        Synapse(5.0, delay=0.15).smooth(torch.zeros(3), dt=0.1)
    assert (
        str(error.value)
        == "the delay of a signal must be a whole number of steps, but got delay=0.15 ms in steps of 0.1 ms."
    )


# --- rates, beside what NumPy says of each train alone ---


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 4)), max_size=60, unique=True))
def test_a_rate_is_one_over_the_mean_interval_and_zero_where_there_is_none(spikes: list[tuple[int, int]]):
    times = torch.tensor([time / 10 for time, _ in spikes], dtype=torch.double)
    neurons = torch.tensor([neuron for _, neuron in spikes], dtype=torch.int64)
    found = interval_rates(times, neurons, 5)
    for neuron in range(5):
        train = np.sort(times[neurons == neuron].numpy())
        expected = 1000 / np.diff(train).mean() if len(train) > 1 else 0.0
        np.testing.assert_allclose(found[neuron], expected)


def test_a_latency_is_the_time_of_the_first_spike():
    times, neurons = torch.tensor([3.0, 1.0, 2.0, 5.0]), torch.tensor([0, 2, 0, 2])
    torch.testing.assert_close(latencies(times, neurons, 3), torch.tensor([2.0, torch.nan, 1.0]), equal_nan=True)
