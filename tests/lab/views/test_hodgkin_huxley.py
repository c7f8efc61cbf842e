from typing import Any

import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig


def simulated(**values: Any) -> Any:
    return ask(find_view("hodgkin_huxley"), "simulate", None, values)


def test_a_step_of_current_gives_what_the_library_gives():
    answer = simulated(amplitude=12.0, start=0.0, length=60.0, sodium=110.0, rest="-70")
    model = HodgkinHuxley(HodgkinHuxleyConfig(sodium=110.0, resting_potential=-70.0))
    expected = model.simulate(torch.tensor([12.0]), duration=60.0, dt=0.025, watch=torch.tensor([0]))
    assert answer["spikes"] == pytest.approx(expected.times.tolist(), abs=1e-3)
    assert answer["rate"] == pytest.approx(float(expected.rates()[0]))
    # every second step, the first after 0.05 ms
    np.testing.assert_allclose(answer["voltage"], expected.voltages[1::2, 0], atol=1e-4)
    np.testing.assert_allclose(answer["h"], expected.h[1::2, 0], atol=1e-4)
    np.testing.assert_allclose(answer["sodium"], model.ionic_currents(expected)["sodium"][1::2, 0], atol=1e-4)
    assert answer["resting_voltage"] == pytest.approx(model.rest)


def test_a_second_pulse_within_the_refractory_period_is_not_answered():
    brief = {"amplitude": 20.0, "length": 1.0}
    found = [len(simulated(**brief, again=again)["spikes"]) for again in (0.0, 6.0, 20.0)]
    assert found == [1, 1, 2]


def test_steps_are_short_enough_for_a_warm_membrane():
    assert len(simulated(temperature=30.0, amplitude=30.0, length=1.0)["voltage"]) == 1200


def test_a_membrane_needs_a_leak():
    with pytest.raises(InputError) as refused:
        simulated(leak=0.0)
    assert str(refused.value) == "leak must be at least 0.01, but got 0.0."
