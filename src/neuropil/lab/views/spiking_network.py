"""A balanced network that runs, while the strengths of its connections, its delay and its drive are moved by hand."""

from collections import deque
from dataclasses import replace
from functools import lru_cache
from typing import Any

from neuropil.config import Config, option
from neuropil.inspection import spike_statistics as statistics
from neuropil.inspection.spike_statistics import SpikeTrains
from neuropil.lab.sessions import Sessions
from neuropil.models.balanced_network import SIZES, BalancedNetworkConfig, balanced_network, stationary_rate
from neuropil.models.spiking.network import Probe, SpikingNetwork, SpikingNetworkRecording, SpikingSimulator

GROUPS = {"excitatory": 80, "inhibitory": 20}
"""Neurons of each group that the raster shows."""
DT, BIN, VOLTAGE_EVERY = 0.1, 1.0, 5
MEASURED, WINDOW = 500, 300.0
"""Neurons, and ms up to now, that statistics are of."""
NETWORK_SIZES = (1250, 2500, 5000)


class AdvanceRequest(Config):
    session: int = option(0, "which simulation: a number that the page makes up", low=0, high=2**53)
    duration: float = option(25.0, "how long it goes on (ms)", low=1, high=300)
    g: float = option(5.0, "relative strength of inhibition g", low=0, high=15)
    jump: float = option(0.5, "weight J of an excitatory synapse (mV)", low=0.005, high=3)
    external: float = option(2.0, "external rate ν_ext in units of the threshold rate ν_thr", low=0, high=6)
    delay: float = option(1.5, "synaptic delay (ms), in steps of 0.1 ms", low=0, high=10)
    neurons: int = option(2500, "neurons, 80 % excitatory", low=200, high=NETWORK_SIZES[-1])

    @property
    def network(self) -> BalancedNetworkConfig:
        delay = round(self.delay, 1)
        config = BalancedNetworkConfig(g=self.g, external=self.external, neurons=self.neurons, delay=delay)
        return config.override(strength=self.jump * config.fan_in[0])


class RunningNetwork:
    """A simulation, and the spikes of some of its neurons in the last pieces of its time."""

    def __init__(self, config: BalancedNetworkConfig):
        self.config, self.simulator = config, SpikingSimulator(described(config), dt=DT, threads=1)
        self.pieces: deque[SpikeTrains] = deque()

    def advance(self, config: BalancedNetworkConfig, duration: float) -> SpikingNetworkRecording:
        if config != self.config:
            self.simulator.change(described(config))
            self.config = config
            self.pieces.clear()  # statistics are of one network
        recording = self.simulator.run(duration)
        whole = statistics.trains_of(recording, *GROUPS)
        some = statistics.some_neurons(whole.times, whole.neurons, whole.num_neurons, MEASURED)
        self.pieces.append(SpikeTrains(*some, min(MEASURED, whole.num_neurons), whole.duration))
        while sum(piece.duration for piece in self.pieces) - self.pieces[0].duration >= WINDOW:
            self.pieces.popleft()
        return recording


RUNNING: Sessions[RunningNetwork] = Sessions(limit=8)


def open_view() -> dict[str, Any]:
    """Without a picture: the first simulation after an installation is compiled, which takes longer than a page may."""
    regimes = [{"name": name, "g": config.g, "external": config.external} for name, config in SIZES.items()]
    return {**AdvanceRequest().to_dict(), "sizes": NETWORK_SIZES, "regimes": regimes, "rows": sum(GROUPS.values())}


def described(config: BalancedNetworkConfig) -> SpikingNetwork:
    return replace(balanced_network(config), probes=[Probe("excitatory")])


def advance(request: AdvanceRequest) -> dict[str, Any]:
    """Go on with the network as it is asked for now; another number of neurons begins a new one."""
    name, config = str(request.session), request.network
    running = RUNNING.get(name, lambda: RunningNetwork(config))
    if running.config.neurons != config.neurons:
        running = RUNNING.put(name, RunningNetwork(config))
    recording = running.advance(config, request.duration)
    window = statistics.joined(running.pieces)
    found, measured = statistics.firing(window), window.num_neurons
    return {
        "start": recording.start,
        "end": recording.start + recording.duration,
        "raster": raster(recording),
        "rates": {group: population_rate(recording, group) for group in GROUPS},
        "bin": BIN,
        "voltage": recording.voltages["excitatory"][VOLTAGE_EVERY - 1 :: VOLTAGE_EVERY, 0].numpy().round(3).tolist(),
        "voltage_step": VOLTAGE_EVERY * DT,
        "found": {**found, "oscillation_hz": statistics.oscillation(window)},
        "window": window.duration,
        "regime": statistics.regime(found, measured),
        "independent": statistics.independent_synchrony(measured),
        "theory": theory(config),
        "synapses": running.simulator.num_synapses,
    }


def raster(recording: SpikingNetworkRecording) -> dict[str, Any]:
    """Spikes of some neurons, the inhibitory ones above the others."""
    times, rows, first = [], [], 0
    for group, most in GROUPS.items():
        spikes = recording.spikes[group]
        own, neurons = statistics.some_neurons(spikes.times, spikes.neurons, recording.sizes[group], most)
        times += own.numpy().round(1).tolist()
        rows += (neurons + first).tolist()
        first += most
    return {"times": times, "rows": rows, "excitatory": GROUPS["excitatory"]}


def population_rate(recording: SpikingNetworkRecording, group: str) -> list[float]:
    return statistics.population_rate(statistics.trains_of(recording, group), BIN).numpy().round(2).tolist()


@lru_cache
def theory(config: BalancedNetworkConfig) -> float:
    return stationary_rate(config)


ACTIONS = {"open": open_view, "advance": advance}
