"""The sodium–potassium pump moves three ions out for two in, holds rest, and restores what spikes run down."""

import numpy as np
import pytest
import torch
from scipy import constants
from scipy.integrate import solve_ivp

from neuropil.errors import InputError
from neuropil.models.hodgkin_huxley.currents import pulse
from neuropil.models.hodgkin_huxley.neuron import (
    HodgkinHuxley,
    HodgkinHuxleyConfig,
    MembraneState,
    steady_state,
)
from neuropil.models.hodgkin_huxley.pump import PumpConfig, PumpedAxon, at_concentrations, ion_flows

SQUID = HodgkinHuxley(HodgkinHuxleyConfig())
THIN = PumpedAxon(SQUID, PumpConfig(diameter=1.0))


def doubles(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.double)


def test_three_sodium_ions_leave_for_two_potassium_ions_and_the_difference_is_a_current():
    state, sodium = MembraneState(-30.0, 0.4, 0.6, 0.3), torch.tensor(22.0, dtype=torch.double)
    blocked = THIN.ions._replace(strength=0.0)
    ways = [(ions, at_concentrations(THIN.membrane, ions, sodium, 130.0)) for ions in (THIN.ions, blocked)]
    flows = np.array([[float(flow) for flow in ion_flows(-30.0, state, sodium, own, ions)] for ions, own in ways])
    leaks = [float(own.leak * (-30.0 - own.leak_reversal)) for _, own in ways]
    pumped = THIN.pump_current(sodium).item()
    np.testing.assert_allclose(flows[0] - flows[1], [3 * pumped, -2 * pumped])
    assert leaks[0] - leaks[1] == pytest.approx(pumped)


def test_no_charge_is_lost():
    """What the membrane holds came in as current, sodium, potassium and chloride, but for the error of a step."""
    current, duration = 10.0, 60.0

    def lost(dt: float) -> float:
        recording = THIN.simulate(doubles(current), duration=duration, dt=dt, every=dt)
        assert len(recording.times) > 3
        v = np.concatenate([[SQUID.rest], recording.voltages[:, 0]])
        chloride = THIN.ions.chloride_leak * (np.trapezoid(v, dx=dt) - THIN.ions.chloride_reversal * duration)
        ions = recording.sodium[-1, 0] - THIN.sodium + recording.potassium[-1, 0] - THIN.potassium
        charge = THIN.membrane.capacitance * (v[-1] - v[0])
        return charge - (current * duration + ions.item() / THIN.ions.filling - chloride)

    assert abs(lost(0.01)) < 2
    assert abs(lost(0.0025)) < 0.5 * abs(lost(0.01))


@pytest.mark.parametrize("rest", [-65.0, -70.0])
def test_rest_is_a_fixed_point_and_there_the_membrane_is_the_one_without_a_pump(rest: float):
    model = HodgkinHuxley(HodgkinHuxleyConfig(resting_potential=rest))
    axon = PumpedAxon(model, PumpConfig(diameter=1.0))
    own = at_concentrations(axon.membrane, axon.ions, *doubles(axon.sodium, axon.potassium))
    np.testing.assert_allclose([float(each) for each in own], axon.membrane, rtol=1e-9)
    recording = axon.simulate(doubles(0.0), duration=1_000, dt=0.05)
    expected = {"voltages": model.rest, "sodium": axon.sodium, "potassium": axon.potassium}
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(recording, name), value, atol=1e-6)


def test_concentrations_are_those_of_the_nernst_equation():
    thermal = 1000 * constants.R * (273.15 + 6.3) / constants.physical_constants["Faraday constant"][0]
    assert THIN.sodium == pytest.approx(145 * np.exp(-50 / thermal))
    recording = THIN.simulate(doubles(10.0), duration=50)
    potentials = THIN.reversals(recording)
    np.testing.assert_allclose(potentials["E_Na"], thermal * np.log(145 / recording.sodium.numpy()))
    outside = 140 * np.exp(-77 / thermal)
    np.testing.assert_allclose(potentials["E_K"], thermal * np.log(outside / recording.potassium.numpy()))


def test_firing_raises_sodium_and_the_pump_takes_it_out_again():
    drive = pulse(doubles(10.0), start=0, stop=200, duration=6_000, dt=0.05)
    kept, lost = (THIN.simulate(drive, duration=6_000, dt=0.05, blocked=blocked) for blocked in (False, True))
    raised = kept.sodium.max() - THIN.sodium
    assert raised > 2
    assert kept.sodium[-1, 0] - THIN.sodium < 0.1 * raised
    assert kept.voltages[-1].item() == pytest.approx(SQUID.rest, abs=0.5)
    assert (lost.sodium.diff(dim=0) > 0).all()
    potentials = THIN.reversals(lost)
    assert potentials["E_Na"][-1] < 35
    assert potentials["E_K"][-1] > -75
    assert lost.voltages[-1] > SQUID.rest + 2


def test_an_axon_with_a_pump_follows_scipys_solution():
    """Written out once more, with the numbers that the currents at rest give."""
    ions, faraday = THIN.ions, constants.physical_constants["Faraday constant"][0]
    thermal, filling = 1000 * constants.R * 279.45 / faraday, 4e-3 / (faraday * 1e-4)
    current = 12.0

    def slopes(_: float, state: np.ndarray) -> list[float]:
        v, n, m, h, sodium, potassium = state
        e_na, e_k = thermal * np.log(145 / sodium), thermal * np.log(ions.potassium_outside / potassium)
        pump = ions.strength / (1 + np.exp((25 - sodium) / 3))
        i_na = (120 * m**3 * h + ions.sodium_leak) * (v - e_na)
        i_k, i_cl = 36 * n**4 * (v - e_k), ions.chloride_leak * (v - SQUID.rest)
        alpha_n, beta_n = 0.01 * (v + 55) / (1 - np.exp(-(v + 55) / 10)), 0.125 * np.exp(-(v + 65) / 80)
        alpha_m, beta_m = 0.1 * (v + 40) / (1 - np.exp(-(v + 40) / 10)), 4 * np.exp(-(v + 65) / 18)
        alpha_h, beta_h = 0.07 * np.exp(-(v + 65) / 20), 1 / (1 + np.exp(-(v + 35) / 10))
        gates = [alpha_n * (1 - n) - beta_n * n, alpha_m * (1 - m) - beta_m * m, alpha_h * (1 - h) - beta_h * h]
        return [current - i_na - i_k - i_cl - pump, *gates, -filling * (i_na + 3 * pump), -filling * (i_k - 2 * pump)]

    def rises(_: float, state: np.ndarray) -> float:
        return state[0]

    rises.direction = 1  # type: ignore[attr-defined]  # solve_ivp looks for it there
    start = [SQUID.rest, *(gate.item() for gate in steady_state(doubles(SQUID.rest))[1:]), THIN.sodium, THIN.potassium]
    solved = solve_ivp(slopes, (0, 150), start, "DOP853", rtol=1e-9, atol=1e-9, events=rises)
    recording = THIN.simulate(doubles(current), duration=150)
    spikes = solved.t_events[0]
    assert len(spikes) > 5
    np.testing.assert_allclose(recording.times, spikes, atol=0.05)
    assert recording.sodium[-1, 0].item() == pytest.approx(solved.y[4, -1], abs=2e-3)
    assert recording.potassium[-1, 0].item() == pytest.approx(solved.y[5, -1], abs=2e-3)
    assert solved.y[4, -1] > THIN.sodium + 2


def test_a_membrane_whose_leak_no_pump_can_balance_is_refused():
    with pytest.raises(InputError) as error:
        PumpedAxon(HodgkinHuxley(HodgkinHuxleyConfig(leak_reversal=-90.0)), PumpConfig())
    assert str(error.value).startswith("a pump must balance the sodium and the potassium that leak at rest")


def test_a_current_that_changes_must_have_a_value_for_each_step():
    with pytest.raises(InputError) as error:
        THIN.simulate(torch.zeros(99, 1), duration=1.0)
    assert str(error.value) == "a current that changes must have a value for each of the 100 steps, but got 99."
