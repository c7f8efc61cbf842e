"""Spike for spike as Brian2: 1,000 neurons, 100,000 synapses, half a second in steps of 0.1 ms."""

import json

import numpy as np
import pytest

from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.network import CurrentInput, NeuronGroup, Projection, SpikingNetwork, simulate
from parity.references.spiking_network_brian import (
    DT,
    FILE,
    HOLD,
    RESET,
    REST,
    SIZE,
    STEPS,
    TAU_M,
    TAU_REF,
    THRESHOLD,
    Case,
    cases,
)

NEURON = LIFConfig(tau_m=TAU_M, tau_ref=TAU_REF, rest=REST, threshold=THRESHOLD, reset=RESET)


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    with np.load(FILE, allow_pickle=False) as file:
        return dict(file)


def network_of(case: Case) -> SpikingNetwork:
    connections = [
        Projection("all", "all", each.weights, pairs=(each.sources, each.targets), delay=each.delay, tau=each.tau)
        for each in (case.excitatory, case.inhibitory)
    ]
    return SpikingNetwork(
        [NeuronGroup("all", SIZE, NEURON, case.start)],
        connections,
        [CurrentInput("all", np.repeat(case.inputs, HOLD, axis=0))],
    )


@pytest.mark.parametrize("name", ["delta", "exponential", "mixed"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_spike_is_that_of_brian2(reference: dict[str, np.ndarray], name: str, threads: int):
    times, neurons = simulate(network_of(cases()[name]), STEPS * DT, DT, threads=threads).spikes["all"]
    assert len(times) > 2_000
    np.testing.assert_array_equal(
        np.round(times.numpy() / DT).astype(int) - 1, reference[f"{name}_steps"]
    )  # dated at the end of a step
    np.testing.assert_array_equal(neurons.numpy(), reference[f"{name}_neurons"])


def test_the_reference_says_what_made_it(reference: dict[str, np.ndarray]):
    assert set(json.loads(str(reference["versions"]))) == {"brian2", "numpy", "python"}
