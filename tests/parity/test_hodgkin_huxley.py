"""Hodgkin–Huxley neurons against SciPy's adaptive solver, and against Brian2 with the same steps, as recorded by
tests/parity/references/hodgkin_huxley_brian.py."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig, Method
from neuropil.models.hodgkin_huxley.recording import HodgkinHuxleyRecording

START = -65.0
MODEL = HodgkinHuxley(HodgkinHuxleyConfig())


@cache
def reference() -> dict[str, Any]:
    with np.load(Path(__file__).parent / "references" / "hodgkin_huxley_brian.npz", allow_pickle=False) as arrays:
        return dict(arrays)


@cache
def ours(method: Method) -> HodgkinHuxleyRecording:
    """With the currents of the reference, which change every millisecond."""
    brian = reference()
    dt, duration = float(brian["dt"]), float(brian["duration"])
    each_step = torch.from_numpy(brian["currents"]).repeat_interleave(round(1 / dt), 0)
    return MODEL.simulate(
        each_step, duration=duration, dt=dt, method=method, start=START, watch=torch.arange(each_step.shape[1])
    )


def trains(times: Any, neurons: Any) -> list[np.ndarray]:
    return [np.sort(np.asarray(times)[np.asarray(neurons) == neuron]) for neuron in range(10)]


def largest_difference(ones: list[np.ndarray], others: list[np.ndarray]) -> float:
    assert [len(train) for train in ones] == [len(train) for train in others]
    return max(float(np.abs(one - other).max(initial=0)) for one, other in zip(ones, others, strict=True))


def test_the_reference_was_made_by_brian():
    assert str(reference()["versions"]).startswith("Brian2 2.9")
    assert len(reference()["rk4_times"]) > 30


def test_exponential_euler_is_brians_step_for_step():
    brian, recording = reference(), ours("exponential_euler")
    sampled = int(brian["sampled"])
    np.testing.assert_allclose(
        recording.voltages[sampled - 1 :: sampled], brian["exponential_euler_voltages"], atol=1e-6
    )
    theirs = trains(brian["exponential_euler_times"], brian["exponential_euler_neurons"])
    assert largest_difference(trains(recording.times, recording.neurons), theirs) < 1e-6


def test_rk4_is_brians_wherever_the_current_is_constant_and_near_it_elsewhere():
    """Theirs looks up a current within a step, so that it hears of a change a sixth of a step earlier."""
    brian, recording = reference(), ours("rk4")
    sampled = int(brian["sampled"])
    constant = slice(0, 5)
    np.testing.assert_allclose(
        recording.voltages[sampled - 1 :: sampled, constant], brian["rk4_voltages"][:, constant], atol=1e-6
    )
    theirs = trains(brian["rk4_times"], brian["rk4_neurons"])
    assert largest_difference(trains(recording.times, recording.neurons), theirs) < 0.02


def test_with_rest_at_minus_70_millivolts_it_is_brians_neuron_5_millivolts_lower():
    brian, lower = reference(), HodgkinHuxley(HodgkinHuxleyConfig(resting_potential=-70.0, fires_at=-5.0))
    dt, sampled = float(brian["dt"]), int(brian["sampled"])
    each_step = torch.from_numpy(brian["currents"]).repeat_interleave(round(1 / dt), 0)
    how: dict[str, Any] = {"dt": dt, "method": "exponential_euler", "start": START - 5, "watch": torch.arange(10)}
    recording = lower.simulate(each_step, duration=float(brian["duration"]), **how)
    theirs = brian["exponential_euler_voltages"] - 5
    np.testing.assert_allclose(recording.voltages[sampled - 1 :: sampled], theirs, atol=1e-6)
    trains_of_theirs = trains(brian["exponential_euler_times"], brian["exponential_euler_neurons"])
    assert largest_difference(trains(recording.times, recording.neurons), trains_of_theirs) < 1e-6


# --- SciPy ------------------------------------------------------------------------------------------------------------


def slopes(_: float, state: np.ndarray, current: np.ndarray) -> np.ndarray:
    """The equations as textbooks print them."""
    v, n, m, h = state.reshape(4, -1)
    alpha_n, beta_n = 0.01 * (v + 55) / (1 - np.exp(-(v + 55) / 10)), 0.125 * np.exp(-(v + 65) / 80)
    alpha_m, beta_m = 0.1 * (v + 40) / (1 - np.exp(-(v + 40) / 10)), 4 * np.exp(-(v + 65) / 18)
    alpha_h, beta_h = 0.07 * np.exp(-(v + 65) / 20), 1 / (1 + np.exp(-(v + 35) / 10))
    flow = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.387)
    gates = [alpha_n * (1 - n) - beta_n * n, alpha_m * (1 - m) - beta_m * m, alpha_h * (1 - h) - beta_h * h]
    return np.concatenate([current - flow, *gates])


def crossing(neuron: int) -> Any:
    def rises(_: float, state: np.ndarray, __: np.ndarray) -> float:
        return state[neuron]

    rises.direction = 1  # type: ignore[attr-defined]  # solve_ivp looks for it there
    return rises


@cache
def by_scipy() -> list[np.ndarray]:
    """Spike times by an adaptive method of the eighth order, with errors below 1e-9, a millisecond of constant current
    at a time."""
    v = np.full(10, START)
    state = np.concatenate([v, *(np.full(10, gate) for gate in resting_gates())])
    found: list[list[float]] = [[] for _ in v]
    for begin, current in enumerate(reference()["currents"]):
        solved = solve_ivp(
            slopes,
            (begin, begin + 1),
            state,
            "DOP853",
            args=(current,),
            rtol=1e-9,
            atol=1e-9,
            events=[crossing(k) for k in range(10)],
        )
        state = solved.y[:, -1]
        for train, times in zip(found, solved.t_events, strict=True):
            train += times.tolist()
    return [np.array(train) for train in found]


def resting_gates() -> tuple[float, float, float]:
    """At −65 mV."""
    alpha_n, alpha_m, beta_h = 0.1 / np.expm1(1), 2.5 / np.expm1(2.5), 1 / (np.exp(3) + 1)
    return alpha_n / (alpha_n + 0.125), alpha_m / (alpha_m + 4), 0.07 / (0.07 + beta_h)


@pytest.mark.parametrize(("method", "tolerance"), [("staggered", 0.02), ("rk4", 0.001)])
def test_spikes_come_when_an_adaptive_solver_says(method: Method, tolerance: float):
    recording = ours(method)
    assert sum(map(len, by_scipy())) > 30
    assert largest_difference(trains(recording.times, recording.neurons), by_scipy()) < tolerance


def test_exponential_euler_is_late_by_the_error_of_its_step():
    """Brian2's step is of the first order: half a millisecond after a hundred, and the reason for the staggered one."""
    recording = ours("exponential_euler")
    difference = largest_difference(trains(recording.times, recording.neurons), by_scipy())
    assert 0.02 < difference < 2


def test_the_set_with_rest_at_minus_70_millivolts_follows_an_adaptive_solver():
    """As books print it: E_Na = 45, E_K = −82, E_L = −59.387 mV, and rates from −70 mV."""

    def lower_slopes(_: float, state: np.ndarray, current: np.ndarray) -> list[float]:
        v, n, m, h = state
        alpha_n, beta_n = 0.01 * (v + 60) / (1 - np.exp(-(v + 60) / 10)), 0.125 * np.exp(-(v + 70) / 80)
        alpha_m, beta_m = 0.1 * (v + 45) / (1 - np.exp(-(v + 45) / 10)), 4 * np.exp(-(v + 70) / 18)
        alpha_h, beta_h = 0.07 * np.exp(-(v + 70) / 20), 1 / (1 + np.exp(-(v + 40) / 10))
        flow = 120 * m**3 * h * (v - 45) + 36 * n**4 * (v + 82) + 0.3 * (v + 59.387)
        gates = [alpha_n * (1 - n) - beta_n * n, alpha_m * (1 - m) - beta_m * m, alpha_h * (1 - h) - beta_h * h]
        return [current[0] - flow, *gates]

    model = HodgkinHuxley(HodgkinHuxleyConfig(resting_potential=-70.0))
    assert model.rest == pytest.approx(-70, abs=0.01)
    begin, how = [-70.0, *resting_gates()], {"rtol": 1e-9, "atol": 1e-9, "args": (np.array([10.0]),)}
    solved = solve_ivp(lower_slopes, (0, 60), begin, "DOP853", events=crossing(0), **how)
    recording = model.simulate(torch.tensor([10.0]).double(), duration=60, method="rk4", start=-70.0)
    assert len(recording.times) >= 4
    np.testing.assert_allclose(recording.times, solved.t_events[0], atol=1e-3)
