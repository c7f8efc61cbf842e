"""A network that is changed while it runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.network import (
    STDP,
    CurrentInput,
    NeuronGroup,
    PoissonInput,
    Probe,
    Projection,
    SpikeSource,
    SpikingNetwork,
    SpikingNetworkRecording,
    SpikingSimulator,
)

MATRIX = np.full((30, 10), 0.02)
COUNTER = LIFConfig(tau_m=1e12, threshold=1e300, tau_ref=0.0)
"""Forgets nothing and never fires: its voltage counts what has arrived."""


def network(weight: float = 0.1, delay: float = 1.5, rate: float = 900.0, current: float = 0.9) -> SpikingNetwork:
    return SpikingNetwork(
        [NeuronGroup("a", 30, start=(0.0, 1.0)), NeuronGroup("b", 10), SpikeSource("noise", 5, rate=40.0)],
        [
            Projection("a", "a", weight, probability=0.2, delay=delay),
            Projection("a", "b", MATRIX, delay=0.3),
            Projection("b", "a", -2 * weight, fan_in=3, delay=1.0, tau=4.0),
            Projection("noise", "a", 0.25, stdp=STDP(high=0.5)),
        ],
        [PoissonInput("a", rate, 0.1), PoissonInput("b", 500.0, 2 * weight, tau=4.0), CurrentInput("b", current)],
        [Probe("b", (0, 3))],
    )


def same(one: SpikingNetworkRecording, other: SpikingNetworkRecording) -> bool:
    spikes = [torch.equal(one.spikes[name].times, other.spikes[name].times) for name in one.spikes]
    return all(spikes) and torch.equal(one.voltages["b"], other.voltages["b"])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_change_to_the_same_changes_nothing(threads: int):
    whole, parts = (SpikingSimulator(network(), threads=threads) for _ in range(2))
    for simulator in (whole, parts):
        simulator.run(20.0)
    parts.change(network())
    assert same(whole.run(30.0), parts.run(30.0))


@pytest.mark.parametrize(
    "changes", [{"weight": 0.3}, {"delay": 4.0}, {"delay": 0.0}, {"rate": 400.0}, {"current": 2.0}]
)
def test_a_change_before_the_first_step_is_the_changed_network(changes: dict[str, float]):
    changed, new = SpikingSimulator(network()), SpikingSimulator(network(**changes))
    changed.change(network(**changes))
    assert same(changed.run(40.0), new.run(40.0))
    assert not same(SpikingSimulator(network()).run(40.0), new.run(40.0))
    np.testing.assert_array_equal(changed.synapses(0).weights, new.synapses(0).weights)


@pytest.mark.parametrize(
    ("first", "second", "changed", "arrivals"),
    [
        (2.0, 5.0, 2.0, [6.0]),  # on its way: it takes the longer time
        (2.0, 5.0, 4.0, [3.0]),  # there already: not again
        (5.0, 2.0, 2.0, [3.0]),
        (5.0, 2.0, 7.0, [6.0]),
        (5.0, 2.0, 4.0, []),  # it would be there by now
    ],
)
def test_spikes_on_their_way_when_a_delay_changes(first: float, second: float, changed: float, arrivals: list[float]):
    def counted(delay: float) -> SpikingNetwork:
        near, far = Projection("click", "cell", 1.0, delay=delay), Projection("click", "other", 1.0, delay=8.0)
        return SpikingNetwork([click, cell, replace(cell, name="other")], [near, far], probes=[Probe("cell")])

    click = SpikeSource("click", 1, spikes=(np.array([1.0]), np.zeros(1, int)))
    cell = NeuronGroup("cell", 1, COUNTER)
    simulator = SpikingSimulator(counted(first))
    before = simulator.run(changed)
    simulator.change(counted(second))
    after = simulator.run(10.0)
    voltages = torch.cat([before.voltages["cell"], after.voltages["cell"]])[:, 0].round()
    times = torch.cat([before.times, after.times])
    felt = times[torch.diff(voltages, prepend=torch.zeros(1)) > 0]
    # what arrives when a step ends is in the voltage at the end of the next
    assert (felt - simulator.dt).tolist() == pytest.approx(arrivals)


def other(change: dict[str, Any]) -> SpikingNetwork:
    return replace(network(), **change)


def with_connection(place: int, **changes: Any) -> dict[str, Any]:
    connections = list(network().connections)
    connections[place] = replace(connections[place], **changes)
    return {"connections": connections}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"probes": ()}, "a network that runs must keep its probes, but got 0 instead of 1: begin a new simulation."),
        (
            {"groups": [NeuronGroup("a", 31), *network().groups[1:]], "connections": network().connections[2:]},
            "a network that runs must keep its groups, but got another size of the group 'a': begin a new simulation.",
        ),
        (
            with_connection(0, probability=0.3),
            "a network that runs must keep its connections, but got another probability of the connection a → a: begin "
            "a new simulation.",
        ),
        (
            with_connection(1, weight=MATRIX + 0.01),
            "a network that runs must keep its connections, but got another weight of the connection a → b: begin a "
            "new simulation.",
        ),
        (
            with_connection(3, weight=0.1),
            "a network that runs must keep its connections, but got another weight of the connection noise → a: begin "
            "a new simulation.",
        ),
        (
            {"inputs": [CurrentInput("a", 1.0), *network().inputs[1:]]},
            "a network that runs must keep its inputs, but got the current to 'a' instead of the Poisson input to 'a': "
            "begin a new simulation.",
        ),
    ],
)
def test_other_neurons_synapses_and_plastic_weights_are_refused(changes: dict[str, Any], sentence: str):
    simulator = SpikingSimulator(network())
    with pytest.raises(InputError) as refused:
        simulator.change(other(changes))
    assert str(refused.value) == sentence
    assert same(simulator.run(20.0), SpikingSimulator(network()).run(20.0))
