import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.hodgkin_huxley.currents import pulse
from neuropil.models.hodgkin_huxley.neuron import (
    MARCHES,
    STEPS,
    HodgkinHuxley,
    HodgkinHuxleyConfig,
    Membrane,
    Method,
    bernoulli,
    both,
    exp,
    largest_dt,
    steady_state,
    time_constants,
)
from neuropil.parts.compilation import compiled

SQUID = HodgkinHuxley(HodgkinHuxleyConfig())
METHODS = list(STEPS)


def doubles(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.double)


def noise(steps: int, neurons: int, seed: int) -> Tensor:
    return 20 * torch.rand(steps, neurons, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


# --- one set of equations, two ways to run it -------------------------------------------------------------------------


@given(
    method=st.sampled_from(METHODS),
    dt=st.sampled_from([0.005, 0.02, 0.05]),
    seed=st.integers(0, 99),
    neurons=st.integers(1, 5),
)
@settings(deadline=None, max_examples=12)
def test_torch_and_numba_take_the_same_steps(method: Method, dt: float, seed: int, neurons: int):
    current = noise(120, neurons, seed)
    compiled = SQUID.simulate(current, duration=120 * dt, dt=dt, method=method, watch=torch.arange(neurons))
    with torch.no_grad():
        torch.testing.assert_close(SQUID(current.T, dt, method).T, compiled.voltages, atol=1e-9, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_differences_between_simulations(method: Method):
    model, current, dt = HodgkinHuxley(HodgkinHuxleyConfig()), doubles(30.0).expand(60, 1), 0.03
    model(current.T, dt, method)[:, -1].sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        for place in range(parameter.numel()):
            ends = []
            for sign in (1, -1):
                moved = HodgkinHuxley(HodgkinHuxleyConfig())
                with torch.no_grad():
                    dict(zip(model.parameters(), moved.parameters(), strict=True))[parameter].flatten()[place] += (
                        sign * 1e-5
                    )
                ends.append(
                    moved.simulate(current, duration=1.8, dt=dt, method=method, watch=torch.tensor([0]))
                    .voltages[-1, 0]
                    .item()
                )
            assert parameter.grad.flatten()[place].item() == pytest.approx(
                (ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7
            )


def test_a_gradient_leads_back_to_every_current_before():
    current = torch.full((1, 60), 15.0, dtype=torch.double, requires_grad=True)
    voltage = SQUID(current, 0.02)
    voltage[0, -1].backward()
    assert current.grad is not None
    assert torch.isfinite(current.grad).all()
    assert current.grad.all()


# --- the membrane -----------------------------------------------------------------------------------------------------


def test_a_squid_axon_rests_at_minus_65_millivolts():
    assert SQUID.rest == pytest.approx(-65, abs=0.01)
    recording = SQUID.simulate(doubles(0.0), duration=50, watch=torch.tensor([0]))
    torch.testing.assert_close(recording.voltages, torch.full_like(recording.voltages, SQUID.rest), atol=1e-9, rtol=0)


def test_a_membrane_of_one_conductance_rests_at_its_reversal_potential_and_charges_exponentially():
    leaky = HodgkinHuxley(HodgkinHuxleyConfig(sodium=0, potassium=0, leak=0.5, capacitance=2.0, leak_reversal=-60))
    assert leaky.rest == pytest.approx(-60, abs=1e-9)
    recording = leaky.simulate(doubles(3.0), duration=20, dt=0.05, method="exponential_euler", watch=torch.tensor([0]))
    times = 0.05 * np.arange(1, 401)
    # V = E + I/g (1 − e^{−t g/C})
    np.testing.assert_allclose(recording.voltages[:, 0], -60 + 6 * (1 - np.exp(-times / 4)), atol=1e-9)


@given(st.floats(-120, 80))
@settings(deadline=None, max_examples=40)
def test_a_gate_that_is_held_at_a_voltage_goes_where_the_published_rates_say(v: float):
    def ratio(x: float) -> float:
        return 1.0 if x == 0 else x / np.expm1(x)

    # as printed, with u the depolarisation from rest and the sign turned
    u = v + 65
    alphas = (0.1 * ratio((10 - u) / 10), ratio((25 - u) / 10), 0.07 * np.exp(-u / 20))
    betas = (0.125 * np.exp(-u / 80), 4 * np.exp(-u / 18), 1 / (np.exp((30 - u) / 10) + 1))
    gates = steady_state(doubles(v))[1:]
    for alpha, beta, gate, constant in zip(alphas, betas, gates, time_constants(doubles(v)), strict=True):
        assert gate.item() == pytest.approx(alpha / (alpha + beta), rel=1e-9)
        assert constant.item() == pytest.approx(1 / (alpha + beta), rel=1e-9)


def test_warmth_makes_gates_faster_and_leaves_them_where_they_are():
    warm = HodgkinHuxleyConfig(temperature=16.3)
    v = torch.linspace(-100, 50, 7, dtype=torch.double)
    for cold, hot in zip(time_constants(v), time_constants(v, warm.speed), strict=True):
        torch.testing.assert_close(cold, 3 * hot)
    torch.testing.assert_close(steady_state(v), steady_state(v, warm.speed))
    widths = [_width_of_a_spike(HodgkinHuxley(config)) for config in (HodgkinHuxleyConfig(), warm)]
    assert widths[1] < 0.6 * widths[0]


def _width_of_a_spike(model: HodgkinHuxley) -> float:
    """ms above −40 mV."""
    current = pulse(doubles(30.0), start=1, stop=2, duration=20, dt=0.01)
    voltage = model.simulate(current, duration=20, dt=0.01, watch=torch.tensor([0])).voltages
    assert voltage.max() > 0
    return 0.01 * int((voltage > -40).sum())


@given(st.sampled_from(["staggered", "exponential_euler"]), st.floats(-80, 300), st.floats(0.001, 0.11))
@settings(deadline=None, max_examples=25)
def test_gates_stay_between_closed_and_open_whatever_the_current(method: Method, current: float, dt: float):
    recording = SQUID.simulate(doubles(current), duration=12, dt=dt, method=method, watch=torch.tensor([0]))
    for gate in (recording.n, recording.m, recording.h):
        assert gate.min() >= 0
        assert gate.max() <= 1
    assert recording.voltages.isfinite().all()


def test_the_currents_through_the_membrane_are_what_charges_it():
    current = pulse(doubles(15.0), start=1, stop=2, duration=15, dt=0.001)
    recording = SQUID.simulate(current, duration=15, dt=0.001, method="rk4", watch=torch.tensor([0]))
    outward = torch.stack(list(SQUID.ionic_currents(recording).values())).sum(0)
    slope = (recording.voltages[2:] - recording.voltages[:-2]) / 0.002
    calm = (current[2:] == current[1:-1]) & (current[3 - 1 :] == current[:-2])
    torch.testing.assert_close(slope[calm], (current[1:-1] - outward[1:-1])[calm], atol=0.05, rtol=1e-3)


# --- spikes -----------------------------------------------------------------------------------------------------------


def test_it_fires_for_ever_above_the_rheobase_only_and_faster_with_more_current():
    recording = SQUID.simulate(doubles(0, 5.5, 7, 10, 20, 40), duration=500)
    rates = recording.rates(after=100)
    assert rates[:2].tolist() == [0, 0]
    assert rates[2] > 50
    assert (rates[2:].diff() > 0).all()


def test_spikes_come_by_time_and_lie_between_the_steps_around_them():
    recording = SQUID.simulate(doubles(8, 10, 30), duration=60, dt=0.02, watch=torch.arange(3))
    assert (recording.times.diff() >= 0).all()
    for time, neuron in zip(recording.times.tolist(), recording.neurons.tolist(), strict=True):
        end = int(np.ceil(time / 0.02)) - 1
        assert recording.voltages[end - 1, neuron] < 0 <= recording.voltages[end, neuron]


def test_a_rate_is_counted_by_intervals():
    recording = SQUID.simulate(doubles(10, 0), duration=100)
    times = recording.times[recording.neurons == 0]
    assert recording.rates().tolist() == pytest.approx([1000 / times.diff().mean().item(), 0])


def test_no_bit_depends_on_the_number_of_threads_or_on_who_is_watched():
    current, before = torch.linspace(0, 40, 300, dtype=torch.double), torch.get_num_threads()
    found = []
    try:
        for threads, watch in ((1, None), (2, torch.tensor([299, 5])), (3, torch.arange(300))):
            torch.set_num_threads(threads)
            found.append(SQUID.simulate(current, duration=30, watch=watch))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(found[0].times, other.times)
        assert torch.equal(found[0].neurons, other.neurons)
    assert torch.equal(found[1].voltages, found[2].voltages[:, [299, 5]])


def test_a_neuron_does_not_know_its_neighbours():
    crowd = SQUID.simulate(torch.linspace(0, 40, 131, dtype=torch.double), duration=20, watch=torch.tensor([100]))
    alone = SQUID.simulate(
        torch.linspace(0, 40, 131, dtype=torch.double)[100:101], duration=20, watch=torch.tensor([0])
    )
    torch.testing.assert_close(crowd.voltages, alone.voltages, atol=1e-9, rtol=0)


def test_pulses_last_as_long_as_they_say_and_add_up():
    one = pulse(doubles(2, 3), start=0.3, stop=0.5, duration=1.0, dt=0.1)
    assert one[:, 0].tolist() == [0, 0, 0, 2, 2, 0, 0, 0, 0, 0]
    assert one[:, 1].sum() == 6
    both = one + pulse(doubles(1, 1), start=doubles(0.4, 0.8), duration=1.0, dt=0.1)
    assert both[:, 0].tolist() == [0, 0, 0, 2, 3, 1, 1, 1, 1, 1]
    assert both[:, 1].tolist() == [0, 0, 0, 3, 3, 0, 0, 0, 1, 1]


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "order"), [("exponential_euler", 1), ("staggered", 2)])
def test_errors_fall_as_the_order_of_a_method_says(method: Method, order: int):
    truth = SQUID.simulate(doubles(10.0), duration=50, dt=0.001, method="rk4").times
    errors = [
        (SQUID.simulate(doubles(10.0), duration=50, dt=dt, method=method).times - truth).abs().max().item()
        for dt in (0.04, 0.02)
    ]
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.1)


def test_runge_and_kuttas_step_is_right_to_a_thousandth_of_a_millisecond_where_it_is_allowed():
    truth = SQUID.simulate(doubles(10.0), duration=100, dt=0.001, method="rk4").times
    coarse = SQUID.simulate(doubles(10.0), duration=100, dt=0.05, method="rk4").times
    torch.testing.assert_close(coarse, truth, atol=1e-3, rtol=0)


@pytest.mark.parametrize("temperature", [6.3, 18.5, 30.0])
def test_the_largest_step_is_stable_for_strong_currents_and_twice_as_long_a_step_is_not(temperature: float):
    model = HodgkinHuxley(HodgkinHuxleyConfig(temperature=temperature))
    dt = largest_dt(model.config, "rk4")
    currents = torch.linspace(0, 300, 31, dtype=torch.double)
    recording = model.simulate(currents, duration=60, dt=dt, method="rk4", watch=torch.arange(31))
    assert recording.voltages.abs().max() < 150
    assert not np.isfinite(_end_of_run(model, currents, 2 * dt)).all()


@pytest.mark.parametrize("current", [-10.0, -20.0, -30.0])
def test_the_largest_step_for_a_negative_current_is_stable_and_twice_as_long_a_step_is_not(current: float):
    dt = largest_dt(SQUID.config, "rk4", current)
    recording = SQUID.simulate(doubles(current), duration=100, dt=dt, method="rk4", watch=torch.tensor([0]))
    assert recording.voltages.min() > -54.387 + current / 0.3 - 1
    assert not np.isfinite(_end_of_run(SQUID, doubles(current, 0.0, 100.0), 2 * dt)).all()


def _end_of_run(model: HodgkinHuxley, currents: Tensor, dt: float) -> np.ndarray:
    """The state after 60 ms of rk4, with no questions asked."""
    state, steps = (
        torch.stack(steady_state(torch.full_like(currents, model.rest), model.config.speed)).numpy(),
        round(60 / dt),
    )
    with torch.no_grad():
        membrane = Membrane._make(float(constant) for constant in model.membrane())
    watched, traces = np.empty(0, np.int64), np.empty((4, steps, 0))
    MARCHES["rk4"](state, currents[None].numpy(), 0, len(currents), 0, steps, dt, membrane, 0.0, watched, traces)
    return state


def test_a_smaller_capacitance_needs_shorter_steps():
    quick = HodgkinHuxleyConfig(capacitance=0.1)
    assert largest_dt(quick, "rk4") == pytest.approx(0.1 * largest_dt(HodgkinHuxleyConfig(), "rk4"), rel=0.05)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dt": 0.1, "method": "rk4"},
            "a step of rk4 must be stable, but got dt = 0.1 ms: the largest that works is 0.058 ms.",
        ),
        (
            {"dt": 0.5},
            "a step of staggered must not skip the opening of a gate, but got dt = 0.5 ms: the largest that works is "
            "0.11 ms.",
        ),
        ({"dt": 0.0}, "dt must be a time above 0 ms, but got 0."),
        ({"dt": float("nan")}, "dt must be a time above 0 ms, but got nan."),
        (
            {"duration": 0.001},
            "a simulation must last for 1 to 100,000,000 steps, but got 0.001 ms in steps of 0.01 ms.",
        ),
        (
            {"duration": float("inf")},
            "a simulation must last for 1 to 100,000,000 steps, but got inf ms in steps of 0.01 ms.",
        ),
        (
            {"current": torch.zeros(7, 2)},
            "a current that changes must have a value for each of the 100 steps, but got 7.",
        ),
        ({"current": torch.zeros(0)}, "currents must be finite, and of one neuron at least, but got none."),
        (
            {"current": doubles(1, float("nan"))},
            "currents must be finite, and of one neuron at least, but got some that are not.",
        ),
        ({"watch": torch.tensor([0, 2])}, "neurons to watch must be of 0 to 1, but got 2."),
        (
            {"current": doubles(1e9, 0), "method": "rk4", "duration": 50.0},
            "voltages must stay finite, but got currents too strong for steps of 0.01 ms: take shorter steps.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options: dict, message: str):
    with pytest.raises(InputError) as error:
        SQUID.simulate(**({"current": doubles(5, 10), "duration": 1.0} | options))
    assert str(error.value) == message


def test_learning_refuses_an_unstable_step_too():
    with pytest.raises(InputError) as error:
        SQUID(torch.zeros(1, 3), 0.2)
    assert str(error.value).endswith("but got dt = 0.2 ms: the largest that works is 0.11 ms.")


# --- exp and B, of tensors and in compiled loops ---


@both
def gauss(x, width):
    return exp(-x * x / width) * bernoulli(x)


@compiled
def each_exp(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = exp(x[i])
    return y


@compiled
def each_bernoulli(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = bernoulli(x[i])
    return y


@compiled
def each_gauss(x, width):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = gauss(x[i], width)
    return y


@given(st.lists(st.floats(-699, 699), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_a_compiled_exponential_is_numpys_to_the_last_bits(numbers: list[float]):
    x = np.array(numbers)
    np.testing.assert_allclose(each_exp(x), np.exp(x), rtol=6e-16)


def test_it_is_one_at_zero_and_ends_where_numbers_end():
    assert each_exp(np.zeros(3)).tolist() == [1.0] * 3
    assert each_exp(np.array([-1e6, 1e6])) == pytest.approx([math.exp(-700), math.exp(700)], rel=1e-15)


@given(st.lists(st.floats(-50, 50) | st.floats(-0.01, 0.01), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_bernoulli_is_x_over_exp_x_minus_one_everywhere(numbers: list[float]):
    x = np.array(numbers)
    with np.errstate(invalid="ignore"):
        formula = np.where(x == 0, 1.0, x / np.where(x == 0, 1.0, np.expm1(x)))
    np.testing.assert_allclose(each_bernoulli(x), formula, rtol=1e-12)
    np.testing.assert_allclose(bernoulli(torch.from_numpy(x)).numpy(), formula, rtol=1e-12)


def test_bernoulli_has_a_gradient_at_zero_and_beside_it():
    x = torch.tensor([-1e-3, -1e-9, 0.0, 1e-9, 1e-3, 5.0], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(bernoulli, x)
    (gradient,) = torch.autograd.grad(bernoulli(x).sum(), x)
    assert gradient[2].item() == -0.5


def test_one_function_serves_tensors_and_compiled_loops():
    x = np.linspace(-4, 4, 101)
    np.testing.assert_allclose(each_gauss(x, 2.0), gauss(torch.from_numpy(x), 2.0).numpy(), rtol=1e-12)
