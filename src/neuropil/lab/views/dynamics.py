"""Populations that follow a differential equation while their input and feedback are moved by hand."""

import math
from typing import Any, Literal

import numpy as np

from neuropil.config import Config, option
from neuropil.lab.sessions import Sessions
from neuropil.models.dynamics.network import Input, PopulationNetwork, PopulationSimulator, Simulation
from neuropil.models.population import Array, Population

DIMENSIONS = {"integrator": 1, "oscillator": 2}
DT, EVERY, ROWS = 1.0, 2, 60
PULL, PROBE = 5.0, 20.0
"""How fast the oscillator comes to its circle (1/s), and the time constant of what is decoded (ms)."""


class FollowRequest(Config):
    session: int = option(0, "which simulation: a number that the page makes up", low=0, high=2**53)
    duration: float = option(40.0, "how long it goes on (ms)", low=2, high=500)
    equation: Literal["integrator", "oscillator"] = option("integrator", "what the population does")
    input: float = option(0.0, "input u, a change of the value per second", low=-10, high=10)
    feedback: float = option(1.0, "strength of the feedback", low=0, high=1.5)
    frequency: float = option(1.0, "frequency of the oscillator (Hz)", low=-5, high=5)
    tau: float = option(100.0, "time constant of the feedback's synapse (ms)", low=5, high=300)
    neurons: int = option(200, "neurons", low=10, high=1000)


class RunningPopulation:
    """A population in its network: the same neurons and the same state, whatever the network becomes."""

    def __init__(self, request: FollowRequest):
        self.kind, self.input = (request.equation, request.neurons), request.input
        dimensions = DIMENSIONS[request.equation]
        self.population = Population(request.neurons, dimensions, radius=1.0 if dimensions == 1 else 1.3)
        self.rule, self.simulator = self.rule_of(request), self.simulator_of(request)
        self.state = self.simulator.begin()

    def advance(self, request: FollowRequest) -> Simulation:
        self.input = request.input
        if self.rule != self.rule_of(request):
            self.rule, self.simulator = self.rule_of(request), self.simulator_of(request)
        return self.simulator.advance(self.state, request.duration)

    @staticmethod
    def rule_of(request: FollowRequest) -> tuple[float, ...]:
        """What decoders depend on."""
        return request.feedback, request.frequency, request.tau

    def simulator_of(self, request: FollowRequest) -> PopulationSimulator:
        """dx/dt = (k − 1) x/τ + f(x) + u, with a feedback of the strength k."""
        network, population, tau = PopulationNetwork(), self.population, request.tau
        network.connect(population, population, transform=request.feedback, tau=tau)
        if request.equation == "oscillator":
            network.connect(population, population, function=turning(request.frequency), change=True, tau=tau)
        network.connect(Input(lambda t: self.input), population[0], change=True, tau=tau)
        network.probe(population, tau=PROBE)
        network.probe_spikes(population)
        return PopulationSimulator(network, DT)


RUNNING: Sessions[RunningPopulation] = Sessions(limit=16)


def turning(frequency: float) -> Any:
    """Around a circle of radius 1 that attracts."""
    turn = 2 * math.pi * frequency

    def change(x: Array) -> list[float]:
        pull = PULL * (1 - x[0] ** 2 - x[1] ** 2)
        return [pull * x[0] - turn * x[1], pull * x[1] + turn * x[0]]

    return change


def open_view() -> dict[str, Any]:
    """Without a picture: the first simulation after an installation is compiled, which takes longer than a page may."""
    return {**FollowRequest().to_dict(), "rows": ROWS}


def follow(request: FollowRequest) -> dict[str, Any]:
    """Go on with the feedback and input that are asked for now; another equation or number of neurons begins anew."""
    name = str(request.session)
    running = RUNNING.get(name, lambda: RunningPopulation(request))
    if running.kind != (request.equation, request.neurons):
        running = RUNNING.put(name, RunningPopulation(request))
    start = running.state.step * DT
    simulation = running.advance(request)
    probe = running.simulator.network.connections[-1]
    spikes = simulation.spikes[running.population]
    drawn, shown = spikes.neurons < ROWS, slice(EVERY - 1, None, EVERY)
    return {
        "start": start,
        "end": float(simulation.times[-1]),
        "times": simulation.times[shown].tolist(),
        "values": simulation[probe][shown].T.round(4).tolist(),
        "last": simulation[probe][-1].tolist(),
        "spike_times": spikes.times[drawn].round(1).tolist(),
        "spike_rows": spikes.neurons[drawn].tolist(),
        "rate": 1000 * len(spikes.times) / (len(simulation.times) * DT * request.neurons),
        "length": float(np.linalg.norm(simulation[probe][-1])),
    }


ACTIONS = {"open": open_view, "follow": follow}
