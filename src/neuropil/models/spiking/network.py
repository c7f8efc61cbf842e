"""Spiking network: groups of leaky integrate-and-fire neurons, their synapses, and inputs that drive them.

    τ_m dv_i/dt = v_rest + v_in,i(t) + Σ_τ s_i − v_i      v_i > θ: a spike; v_i = v_reset for the refractory period
    τ ds_i/dt = −s_i,   s_i ← s_i + w_ij/τ                a spike of neuron j arrives at a synapse with time constant τ
    v_i ← v_i + w_ij                                      or at a delta synapse, unless neuron i is refractory

Both equations are solved, not approximated, over a step of `dt` ms in which the input v_in is held:

    v(t + dt) = v_∞ + (v(t) − v_∞) e^{−dt/τ_m} + Σ_τ s(t) (e^{−dt/τ} − e^{−dt/τ_m}) τ/(τ − τ_m)      v_∞ = v_rest + v_in

Spikes are on the grid: a neuron above its threshold when step k ends has fired at (k + 1) dt, and after the delay of a
connection, which is a whole number of steps, the spike arrives. Times are in ms and rates in Hz; weights and inputs
have the unit of the voltage, mV or none (a weight at a synapse with a time constant is a voltage times ms: the area
under what a spike adds to s).

Spike-timing-dependent plasticity (STDP) changes w by every pair of a spike that arrives at a synapse and a spike of its
target:

    Δw = A₊ ((high − w)/(high − low))^{μ₊} e^{−Δ/τ₊}     for Δ = t_post − t_arrival > 0
    Δw = −A₋ ((w − low)/(high − low))^{μ₋} e^{Δ/τ₋}      for Δ < 0,                      low ≤ w ≤ high

μ = 0 is the additive rule, and μ = 1 the multiplicative one (Gütig et al. 2003). A spike arrives at the synapse after
the axonal part of the delay, and a spike of the target comes there after the dendritic part d: Δ becomes
t_post − t_arrival + 2 d, with t_arrival at the soma.

    network = SpikingNetwork(
        [NeuronGroup("excitatory", 400), NeuronGroup("inhibitory", 100)],
        [Projection("excitatory", "inhibitory", weight=0.05, probability=0.1, delay=1.5, tau=5.0)],
        inputs=[PoissonInput("excitatory", rate=1000.0, weight=0.1)],
    )
    times, neurons = simulate(network, duration=500.0).spikes["excitatory"]

The same as a file, for `neuropil simulate network.toml`:

    [groups.excitatory]
    size = 400

    [groups.inhibitory]
    size = 100

    [[connections]]
    from = "excitatory"
    to = "inhibitory"
    weight = 0.05
    probability = 0.1
    delay = 1.5
    tau = 5.0

    [[poisson]]
    to = "excitatory"
    rate = 1000.0
    weight = 0.1

All keys of such a file:
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor

from neuropil.data.networks.keys import list_keys
from neuropil.errors import InputError
from neuropil.models.spiking import arrays, kernel
from neuropil.models.spiking.description import KEYS
from neuropil.models.spiking.description import STDP as STDP
from neuropil.models.spiking.description import CurrentInput as CurrentInput
from neuropil.models.spiking.description import NeuronGroup as NeuronGroup
from neuropil.models.spiking.description import PoissonInput as PoissonInput
from neuropil.models.spiking.description import Probe as Probe
from neuropil.models.spiking.description import Projection as Projection
from neuropil.models.spiking.description import SpikeSource as SpikeSource
from neuropil.models.spiking.description import SpikingNetwork as SpikingNetwork
from neuropil.models.spiking.same_wiring import require_same_wiring
from neuropil.models.spiking.wiring import Synapses as Synapses
from neuropil.parts.threads.team import members_of_team
from neuropil.randomness import mix

__doc__ = f"{__doc__}\n{list_keys(KEYS.sections)}"

FEW_NEURONS = 4_000
"""Fewer are simulated by one thread: barriers would last longer than the work that is shared."""
PROGRESS_INTERVAL = 0.05
"""Seconds."""


Indices: TypeAlias = Int32[np.ndarray, " spike"]
Progress: TypeAlias = Callable[[float], None]


class GroupSpikes(NamedTuple):
    """By time, and then by neuron; `neurons` are counted within their group."""

    times: Float[Tensor, " spike"]
    neurons: Int[Tensor, " spike"]


@dataclass(frozen=True)
class SpikingNetworkRecording:
    """`start` and `duration` (ms) of what was recorded; all else by the names of the groups."""

    start: float
    duration: float
    dt: float
    sizes: Mapping[str, int]
    spikes: Mapping[str, GroupSpikes]
    voltages: Mapping[str, Float[Tensor, "step watched"]]
    """Of the neurons that a probe watches, at the end of every step, where those that fired are at reset already."""
    synapses: Mapping[int, Synapses]
    """Of the connections that are plastic, by their places in the network, as they were at the end."""

    @property
    def times(self) -> Float[Tensor, " step"]:
        """ms, of the voltages."""
        return self.start + self.dt * torch.arange(1, round(self.duration / self.dt) + 1, dtype=torch.double)

    def rate(self, group: str) -> float:
        """Hz, the mean over neurons and time."""
        return 1000 * len(self.spikes[group].times) / (self.sizes[group] * self.duration)


def simulate(
    network: SpikingNetwork,
    duration: float,
    dt: float = 0.1,
    seed: int = 0,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SpikingNetworkRecording:
    """A new network for `duration` ms. What comes out follows from the seed, whatever the number of threads."""
    return SpikingSimulator(network, dt=dt, seed=seed, threads=threads).run(duration, progress=progress)


class SpikingSimulator:
    """A network with its random connections drawn, which goes on where it stopped whenever `run` is called."""

    def __init__(self, network: SpikingNetwork, *, dt: float = 0.1, seed: int = 0, threads: int | None = None):
        arrays.require_dt(network, dt)
        self.network, self.dt, self.step = network, dt, 0
        usual = torch.get_num_threads() if network.num_neurons >= FEW_NEURONS else 1
        self.members = usual if threads is None else threads
        seeds = [mix(seed, "synapses", place) for place in range(len(network.connections))]
        synapses = [arrays.draw_synapses(network, *each) for each in zip(network.connections, seeds, strict=True)]
        self._ports, self._places = arrays.pack_ports(network, dt)
        self._wires = arrays.pack_wires(network, synapses, self._places, dt, self.members)
        self._plastic = arrays.pack_plastic(network, synapses, dt, self.members)
        self._synapses = arrays.in_place(synapses, self._wires, self._plastic)
        own_streams = arrays.num_source_streams(network)
        self._drives = arrays.pack_drives(network, self._places, dt, own_streams)
        self._signals = [arrays.changing_input(group, network) for group in network.groups]
        given = [arrays.given_spikes(group, dt) for group in network.groups]
        self._groups = arrays.pack_groups(network, self._signals, given, dt)
        num_streams = own_streams + arrays.num_drive_streams(network)
        self._neurons = arrays.pack_neurons(network, self._signals, given, num_streams, dt, seed, self.members)

    @staticmethod
    def require(network: SpikingNetwork, dt: float, duration: float) -> None:
        """Refuse steps too long for the network, and durations too short for a step, before any work is done."""
        arrays.require_dt(network, dt)
        if not dt <= duration * (1 + 1e-9) < math.inf:
            got = f"{duration:g} ms in steps of {dt:g} ms"
            raise InputError("duration must be a time of at least one step", got=got)

    @property
    def time(self) -> float:
        """ms since the first step."""
        return self.step * self.dt

    @property
    def num_synapses(self) -> int:
        return sum(map(len, self._synapses))

    def synapses(self, connection: int) -> Synapses:
        """Sources, targets and weights, as they are now, of the connection at this place in the network."""
        return self._synapses[connection].listed()

    def change(self, network: SpikingNetwork) -> None:
        """Go on with other weights, where all synapses of a connection have the same, other delays, and other Poisson
        and constant inputs; all else must be as it was. Voltages and spikes on their way stay as they are. No spike
        arrives twice where a delay becomes longer; where it becomes shorter, spikes that would be there by now are
        lost."""
        require_same_wiring(self.network, network)
        arrays.require_dt(network, self.dt)
        wired = zip(network.connections, self._synapses, strict=True)
        self._synapses = [
            replace(made, scale=float(each.weight))
            if each.stdp is None and isinstance(each.weight, int | float)
            else made
            for each, made in wired
        ]
        wires, self.network = self._wires, network
        self._wires = wires._replace(
            delay=arrays.delays(network, self.dt),
            since=np.maximum(wires.since, self.step - wires.delay),
            scale=arrays.scales(network, self._synapses),
        )
        self._drives = arrays.pack_drives(network, self._places, self.dt, arrays.num_source_streams(network))
        targets = np.concatenate([arrays.constant_targets(group, network) for group in network.groups])
        neurons = self._neurons._replace(target=targets)
        self._neurons = arrays.with_slots(neurons, arrays.num_slots(network, self.dt), self.step)

    def run(self, duration: float, *, progress: Progress | None = None) -> SpikingNetworkRecording:
        """Another `duration` ms; `progress` is called with the share that is done, some times a second."""
        self.require(self.network, self.dt, duration)
        num_steps = round(duration / self.dt)
        self._require_signals(num_steps)
        watch = self._new_watch(num_steps)
        steps, neurons = in_order(self._run_team(num_steps, watch, progress))
        start, self.step = self.time, self.step + num_steps
        groups, connections = self.network.groups, self.network.connections
        sizes = {group.name: group.size for group in groups}
        spikes = {group.name: self._spikes(place, steps, neurons) for place, group in enumerate(groups)}
        plastic = {place: self.synapses(place) for place, each in enumerate(connections) if each.stdp is not None}
        duration = num_steps * self.dt
        return SpikingNetworkRecording(start, duration, self.dt, sizes, spikes, self._voltages(watch), plastic)

    def _run_team(
        self, num_steps: int, watch: kernel.Watch, progress: Progress | None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Every member is a thread, none of them the caller's, which listens to the keyboard and reports progress."""
        control = kernel.Control(np.full(1, self.step), np.zeros(1, np.int64), np.zeros(2, np.int64))
        parts = (self._groups, self._neurons, self._ports, self._wires, self._plastic, self._drives, watch, control)
        with ThreadPoolExecutor(self.members) as pool:
            futures = [
                pool.submit(kernel.run, self.step, num_steps, *parts, member)
                for member in members_of_team(self.members)
            ]
            try:
                while wait(futures, timeout=None if progress is None else PROGRESS_INTERVAL).not_done:
                    if progress is not None:
                        progress((int(control.progress[0]) - self.step) / num_steps)
            except BaseException:
                control.stop[0] = 1
                raise
        return [future.result() for future in futures]

    def _require_signals(self, num_steps: int) -> None:
        for group, signal in zip(self.network.groups, self._signals, strict=True):
            if signal.size and len(signal) < self.step + num_steps:
                rule = f"the changing current to {group.name!r} must last for {self.step + num_steps:,} steps"
                raise InputError(rule, got=f"{len(signal):,}")

    def _new_watch(self, num_steps: int) -> kernel.Watch:
        wanted = [(self.network.place(probe.group), each) for probe in self.network.probes for each in probe.neurons]
        neurons = np.array([self._groups.first[place] + neuron for place, neuron in wanted], np.int64)
        ends = [group.size * np.arange(1, self.members + 1) // self.members for group in self.network.groups]
        owners = np.array([np.searchsorted(ends[place], neuron, side="right") for place, neuron in wanted], np.int64)
        places = np.argsort(owners, kind="stable")
        member_first = np.searchsorted(owners[places], np.arange(self.members + 1))
        return kernel.Watch(member_first, neurons[places], places, np.empty((len(wanted), num_steps)))

    def _voltages(self, watch: kernel.Watch) -> dict[str, Float[Tensor, "step watched"]]:
        """Of all probes of a group together, in their order."""
        names = [probe.group for probe in self.network.probes for _ in probe.neurons]
        places = {name: [place for place, other in enumerate(names) if other == name] for name in names}
        return {name: torch.from_numpy(watch.voltages).T[:, own] for name, own in places.items()}

    def _spikes(self, place: int, steps: Indices, neurons: Indices) -> GroupSpikes:
        times, own = kernel.of_group(steps, neurons, self._groups.first[place], self._groups.size[place], self.dt)
        return GroupSpikes(torch.from_numpy(times), torch.from_numpy(own))


def in_order(found: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[Indices, Indices]:
    """The spikes of all members by step and then by neuron."""
    if len(found) == 1:
        return found[0][0], found[0][1]
    steps, neurons = (np.concatenate([part[side] for part in found]) for side in (0, 1))
    # some runs that are sorted already: merging them is quick
    order = np.argsort((steps.astype(np.int64) << 32) + neurons, kind="stable")
    return steps[order], neurons[order]
