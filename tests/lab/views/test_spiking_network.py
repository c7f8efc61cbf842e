from typing import Any

import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection import spike_statistics as statistics
from neuropil.lab.view import ask, find_view
from neuropil.models.balanced_network import BalancedNetworkConfig, balanced_network, stationary_rate
from neuropil.models.spiking.network import SpikingSimulator

CONFIG = BalancedNetworkConfig(neurons=400, g=6.0, external=1.5, strength=0.8 * 32, delay=1.2)
SLIDERS = {"neurons": 400, "g": 6.0, "external": 1.5, "jump": 0.8, "delay": 1.2}


def advanced(session: int, **values: Any) -> Any:
    return ask(find_view("spiking_network"), "advance", None, {"session": session, **SLIDERS, **values})


def test_pieces_are_those_of_one_simulation_that_was_changed_on_the_way():
    answers = [advanced(1, duration=120.0), advanced(1, duration=130.0), advanced(1, g=3.0, duration=100.0)]
    simulator = SpikingSimulator(balanced_network(CONFIG), threads=1)
    first = simulator.run(250.0)
    simulator.change(balanced_network(CONFIG.override(g=3.0)))
    second = simulator.run(100.0)
    assert [answer["start"] for answer in answers] == pytest.approx([0.0, 120.0, 250.0])
    whole = statistics.trains_of(first, "excitatory", "inhibitory")
    assert answers[1]["found"] == pytest.approx(
        {**statistics.firing(whole), "oscillation_hz": statistics.oscillation(whole)}
    )
    assert answers[2]["found"]["rate_hz"] == pytest.approx(float(statistics.rates(_all(second)).mean()))
    rate = statistics.population_rate(statistics.trains_of(second, "inhibitory"))
    np.testing.assert_allclose(answers[2]["rates"]["inhibitory"], rate, atol=0.01)
    assert answers[2]["theory"] == stationary_rate(CONFIG.override(g=3.0))


def _all(recording: Any) -> statistics.SpikeTrains:
    return statistics.trains_of(recording, "excitatory", "inhibitory")


def test_the_raster_has_some_neurons_of_each_group():
    answer = advanced(2, duration=50.0)
    found = SpikingSimulator(balanced_network(CONFIG), threads=1).run(50.0).spikes["inhibitory"]
    rows = torch.tensor(answer["raster"]["rows"])
    assert set(rows.tolist()) <= set(range(100))
    # 20 of 80 inhibitory neurons, every fourth, in the upper rows
    expected = torch.bincount(found.neurons[found.neurons % 4 == 0] // 4, minlength=20)
    assert torch.equal(torch.bincount(rows[rows >= 80] - 80, minlength=20), expected)


def test_another_number_of_neurons_begins_anew():
    advanced(3, duration=20.0)
    assert advanced(3, neurons=500, jump=0.5, duration=20.0)["start"] == 0.0


def test_what_is_asked_for_is_bounded():
    with pytest.raises(InputError) as refused:
        advanced(4, duration=1e6)
    assert str(refused.value) == "duration must be at most 300, but got 1000000.0."
