import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from neuropil.errors import InputError
from neuropil.models.lif import (
    LIF,
    SIZES,
    LIFConfig,
    SpikeTimes,
    constants,
    grid_step,
    leak,
    rate,
    tuning_curve,
    until_spike,
)

MODES: list[SpikeTimes] = ["exact", "grid"]
CORTICAL = SIZES["cortical"]


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.double)


def firing_inputs(config: LIFConfig, top: float = 6.0, points: int = 40) -> torch.Tensor:
    return (config.threshold - config.rest) * torch.linspace(1.02, top, points, dtype=torch.double)


@pytest.mark.parametrize("config", SIZES.values(), ids=list(SIZES))
@pytest.mark.parametrize("dt", [0.1, 1.0, 2.0])
def test_the_rate_formula_holds_over_the_tuning_curve(config: LIFConfig, dt: float):
    v_in = firing_inputs(config)
    counted = tuning_curve(v_in, config, duration=2000, dt=dt)
    torch.testing.assert_close(counted, rate(v_in, config), rtol=1e-9, atol=0)


def test_spikes_on_the_grid_keep_the_formula_within_half_a_per_cent_for_short_steps():
    v_in = firing_inputs(LIFConfig())
    counted = tuning_curve(v_in, LIFConfig(), duration=2000, dt=0.01, spike_times="grid")
    torch.testing.assert_close(counted, rate(v_in, LIFConfig()), rtol=0.005, atol=0)


@pytest.mark.parametrize("mode", MODES)
def test_too_small_an_input_never_fires(mode: SpikeTimes):
    recording = LIF(LIFConfig(), mode).simulate(doubles(-1, 0, 0.5, 1), duration=3000, dt=1.0)
    assert recording.counts().tolist() == [0, 0, 0, 0]
    assert recording.rates().tolist() == [0, 0, 0, 0]
    assert rate(doubles(-1, 0, 0.5, 1), LIFConfig()).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_below_the_threshold_it_is_the_solution_of_the_equation(mode: SpikeTimes):
    config = LIFConfig(tau_m=13.0, rest=-70.0, threshold=-50.0, reset=-65.0)
    recording = LIF(config, mode).simulate(
        doubles(12.0), duration=50, dt=0.5, first=doubles(-55.0), watch=torch.tensor([0])
    )
    solved = solve_ivp(
        lambda t, v: (-70 + 12 - v) / 13, (0, 50), [-55.0], t_eval=0.5 * np.arange(1, 101), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(recording.voltages[:, 0].numpy(), solved.y[0], atol=1e-7)


@given(v_in=st.floats(1.05, 30), tau_m=st.floats(2, 40), tau_ref=st.floats(0, 6), dt=st.floats(0.05, 2))
@settings(deadline=None, max_examples=60)
def test_exact_spike_times_do_not_depend_on_the_step(v_in: float, tau_m: float, tau_ref: float, dt: float):
    config = LIFConfig(tau_m=tau_m, tau_ref=tau_ref)
    times = LIF(config).simulate(doubles(v_in), duration=60, dt=dt).times
    # the first after a charge from rest, then one after every refractory period and charge
    charge = tau_m * math.log(v_in / (v_in - 1))
    expected = charge + (tau_ref + charge) * torch.arange(len(times), dtype=torch.double)
    torch.testing.assert_close(times, expected, rtol=1e-9, atol=1e-8)
    assert len(times) >= math.floor((60 - dt - charge) / (tau_ref + charge))


def test_exact_spikes_are_where_an_adaptive_solver_finds_the_crossing():
    config, v_in = LIFConfig(tau_m=17.0, tau_ref=1.3), lambda t: 1.6 + 0.9 * math.sin(0.2 * t)

    def crossing(t: float, v: np.ndarray) -> float:
        return v[0] - 1

    crossing.terminal, crossing.direction = True, 1  # type: ignore[attr-defined]  # how scipy is told
    found, start = [], 0.0
    while start < 200:
        solved = solve_ivp(
            lambda t, v: (v_in(t) - v) / 17, (start, 200), [0.0], events=crossing, rtol=1e-10, atol=1e-12
        )
        if not len(solved.t_events[0]):
            break
        found.append(solved.t_events[0][0])
        start = found[-1] + 1.3
    middles = 0.01 * (torch.arange(20_000, dtype=torch.double) + 0.5)
    drive = torch.tensor([v_in(t) for t in middles.tolist()], dtype=torch.double).unsqueeze(1)
    times = LIF(config).simulate(drive, duration=200, dt=0.01).times
    np.testing.assert_allclose(times.numpy(), found, atol=1e-3)


@given(
    v_in=st.lists(st.floats(-5, 8), min_size=1, max_size=80),
    tau_ref=st.floats(0, 4),
    dt=st.sampled_from([0.1, 0.5, 1.0]),
)
@settings(deadline=None, max_examples=50)
def test_the_grid_follows_its_rule_step_by_step(v_in: list[float], tau_ref: float, dt: float):
    config = LIFConfig(tau_m=5.0, tau_ref=tau_ref if tau_ref >= dt else 0.0)
    v, left, spikes, voltages = 0.0, 0, [], []
    for step, drive in enumerate(v_in):
        if left > 0:
            v, left = config.reset, left - 1
        else:
            v = drive + (v - drive) * math.exp(-dt / 5.0)
        if v > config.threshold:
            spikes.append((step + 1) * dt)
            v, left = config.reset, round(config.tau_ref / dt)
        voltages.append(v)
    drive = torch.tensor(v_in, dtype=torch.double).unsqueeze(1)
    found = LIF(config, "grid").simulate(drive, duration=len(v_in) * dt, dt=dt, watch=torch.tensor([0]))
    torch.testing.assert_close(found.times, torch.tensor(spikes, dtype=torch.double))
    torch.testing.assert_close(found.voltages[:, 0], torch.tensor(voltages, dtype=torch.double))


@pytest.mark.parametrize("mode", MODES)
def test_a_neuron_in_millivolts_fires_when_its_dimensionless_twin_does(mode: SpikeTimes):
    v_in = torch.linspace(0.5, 5, 30, dtype=torch.double)
    twin = LIF(LIFConfig(), mode).simulate(v_in, duration=300, dt=0.1)
    cortical = LIF(CORTICAL, mode).simulate(15 * v_in, duration=300, dt=0.1)
    assert twin.counts().tolist() == cortical.counts().tolist()
    torch.testing.assert_close(twin.times, cortical.times)
    assert (LIFConfig().unit, CORTICAL.unit) == ("", "mV")


@pytest.mark.parametrize("mode", MODES)
def test_a_neuron_does_not_know_of_the_others(mode: SpikeTimes):
    drive = 3 * torch.rand(200, 7, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    together = LIF(LIFConfig(), mode).simulate(drive, duration=20, dt=0.1)
    for neuron in range(7):
        alone = LIF(LIFConfig(), mode).simulate(drive[:, [neuron]], duration=20, dt=0.1)
        assert torch.equal(alone.times, together.times[together.neurons == neuron])
    assert torch.equal(together.times, together.times.sort().values)


@pytest.mark.parametrize("mode", MODES)
def test_watching_some_changes_nothing_for_any(mode: SpikeTimes):
    v_in = torch.linspace(0.5, 4, 9, dtype=torch.double)
    unwatched = LIF(LIFConfig(), mode).simulate(v_in, duration=100, dt=0.1)
    watched = LIF(LIFConfig(), mode).simulate(v_in, duration=100, dt=0.1, watch=torch.tensor([7, 2]))
    assert torch.equal(unwatched.times, watched.times)
    assert unwatched.voltages.shape == (1000, 0)
    alone = LIF(LIFConfig(), mode).simulate(v_in[[7]], duration=100, dt=0.1, watch=torch.tensor([0]))
    assert torch.equal(watched.voltages[:, [0]], alone.voltages)


def test_a_constant_input_is_one_that_never_changes():
    v_in = doubles(1.2, 3.0)
    constant = LIF(LIFConfig()).simulate(v_in, duration=50, dt=0.5)
    repeated = LIF(LIFConfig()).simulate(v_in.expand(100, -1), duration=50, dt=0.5)
    assert torch.equal(constant.times, repeated.times)


def test_many_spikes_and_no_neurons_are_no_trouble():
    recording = LIF(LIFConfig(tau_ref=0.0)).simulate(torch.full((40,), 50.0), duration=200, dt=1.0)
    assert recording.counts().unique().tolist() == [math.floor(200 / (20 * math.log(50 / 49)))]
    none = LIF(LIFConfig()).simulate(torch.zeros(0), duration=1, dt=0.5)
    assert (len(none.times), none.rates().shape) == (0, (0,))


@given(v=st.floats(-2, 1), v_in=st.floats(-5, 30), wait=st.floats(0, 3), cut=st.floats(0.05, 0.95))
@settings(deadline=None, max_examples=80)
def test_an_exact_step_may_be_cut_anywhere(v: float, v_in: float, wait: float, cut: float):
    """Two shorter steps are one longer step: the spike at the same time, the same voltage and the same wait at the
    end."""
    neuron = constants(LIFConfig(tau_ref=5.0), 1.0)

    def run(lengths: list[float]) -> tuple[float, float, list[float]]:
        state, time, spikes = (v, wait), 0.0, []
        for left in lengths:
            while left > 0:
                voltage, waiting, gone, spiked = until_spike(*state, v_in, left, neuron)
                state, left, time = (voltage, waiting), left - gone, time + gone
                spikes += [time] if spiked else []
        return state[0], state[1], spikes

    whole, parts = run([1.0]), run([cut, 1.0 - cut])
    np.testing.assert_allclose(whole[:2], parts[:2], atol=1e-9)
    np.testing.assert_allclose(whole[2], parts[2], atol=1e-9)


def test_the_equation_is_the_same_compiled_in_python_and_for_tensors():
    v, target, decay = torch.linspace(-1, 1, 5, dtype=torch.double), 2.0, math.exp(-0.1)
    by_hand = 2.0 + (v - 2.0) * decay
    assert torch.equal(leak.py_func(v, target, decay), by_hand)
    assert [leak(each, target, decay) for each in v.tolist()] == by_hand.tolist()


def test_a_spike_comes_above_the_threshold_and_not_on_it():
    neuron = constants(LIFConfig(), 0.5)
    assert grid_step(1.0, 0, 1.0, neuron) == (1.0, 0, False)
    assert grid_step(1.0, 0, 1.1, neuron) == (0.0, 4, True)
    assert grid_step(0.7, 2, 9.0, neuron) == (0.0, 1, False)


@pytest.mark.parametrize("v_in", [-1.0, 0.5, 1.0, 1.2, 9.0])
def test_a_voltage_that_begins_above_the_threshold_is_a_spike_at_once(v_in: float):
    recording = LIF(LIFConfig(), "exact").simulate(doubles(v_in), duration=1, dt=0.5, first=doubles(5.0))
    assert recording.times.tolist() == [0.0]


@pytest.mark.parametrize(
    ("v", "v_in", "left"),
    [
        (0.2809940471052814, 2.3541445780064882, 8.517989971831252),
        (0.32667007660237624, 2.3657141403327224, 8.016072605258799),
    ],
)
def test_a_crossing_that_rounding_puts_behind_the_step_is_at_its_end(v: float, v_in: float, left: float):
    neuron = constants(LIFConfig(), dt=10.0)
    assert neuron.tau_m * math.log1p((1 - v) / (v_in - 1)) > left
    assert until_spike(v, 0.0, v_in, left, neuron) == (0.0, 2.0, left, True)


def test_the_rate_has_finite_gradients_everywhere():
    v_in = torch.linspace(-2, 5, 29, dtype=torch.double, requires_grad=True)
    rate(v_in, LIFConfig()).sum().backward()
    assert v_in.grad is not None
    assert torch.isfinite(v_in.grad).all()
    assert torch.equal(v_in.grad > 0, v_in > 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"tau_m": 0.0}, "tau_m must be above 0, but got 0.0."),
        ({"tau_ref": -1.0}, "tau_ref must be at least 0, but got -1.0."),
        ({"tau_ref": math.inf}, "tau_ref must be a finite number, but got inf."),
        ({"reset": 1.0}, "a neuron must be reset to below its threshold, but got reset=1 and threshold=1."),
        ({"rest": math.nan}, "rest must be a finite number, but got nan."),
    ],
)
def test_a_neuron_that_cannot_be_is_refused(wrong: dict, sentence: str):
    with pytest.raises(InputError) as error:
        LIFConfig(**wrong)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("mode", "wrong", "sentence"),
    [
        (
            "exact",
            {"dt": 25.0},
            "dt must be a time above 0 ms and no longer than the time constants allow, but got 25: the largest that "
            "works for tau_m=20 and tau_ref=2 is 20.",
        ),
        (
            "grid",
            {"dt": 2.5},
            "dt must be a time above 0 ms and no longer than the time constants allow, but got 2.5: the largest that "
            "works for tau_m=20 and tau_ref=2 is 2.",
        ),
        (
            "exact",
            {"dt": -1.0},
            "dt must be a time above 0 ms and no longer than the time constants allow, but got -1: the largest that "
            "works for tau_m=20 and tau_ref=2 is 20.",
        ),
        (
            "exact",
            {"duration": -5.0},
            "duration must be a time of at least one step, but got -5 ms in steps of 0.1 ms.",
        ),
        (
            "exact",
            {"v_in": torch.ones(3, 1)},
            "an input that changes must have a value for each of the 1,000 steps, but got 3.",
        ),
        (
            "exact",
            {"v_in": torch.tensor([math.inf])},
            "inputs must be finite numbers, but got some that are not: see where they come from.",
        ),
        (
            "exact",
            {"v_in": torch.ones(300_000), "first": torch.tensor([0.5])},
            "first must have a finite voltage for each of the 300,000 neurons, but got 1.",
        ),
        (
            "grid",
            {"first": torch.tensor([math.nan])},
            "first must have a finite voltage for each of the 1 neurons, but got some that are not finite.",
        ),
    ],
)
def test_a_simulation_that_cannot_be_is_refused(mode: SpikeTimes, wrong: dict, sentence: str):
    given = {"v_in": torch.ones(1), "duration": 100.0, "dt": 0.1} | wrong
    with pytest.raises(InputError) as error:
        LIF(LIFConfig(), mode).simulate(given.pop("v_in"), **given)
    assert str(error.value) == sentence


def test_an_input_that_would_fill_the_memory_with_spikes_is_refused():
    with pytest.raises(InputError) as error:
        LIF(LIFConfig(tau_ref=0.0)).simulate(torch.full((1,), 1e12), duration=100, dt=1.0)
    assert str(error.value) == (
        "a simulation may have up to 100,000,000 spikes, but got inputs for up to 5e+12: make the inputs smaller."
    )
