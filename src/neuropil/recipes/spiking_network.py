"""Spiking network: the embedded one, or yours from a TOML file; its raster, firing statistics and plasticity.

The embedded network has excitatory and inhibitory neurons that are connected at random and driven from outside.
Inhibition follows excitation so closely that the neurons fire irregularly. Every group is compared with Poisson neurons
of the same rates.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from neuropil.config import Config, option
from neuropil.data.networks.files import EMBEDDED
from neuropil.inspection import spike_statistics as statistics
from neuropil.inspection.pictures.spiking import networks as network_pictures
from neuropil.inspection.pictures.spiking import spikes as spike_pictures
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.inspection.spike_statistics import SpikeTrains
from neuropil.models.spiking.description import SpikeSource, SpikingNetwork, load_network
from neuropil.models.spiking.network import SpikingNetworkRecording, SpikingSimulator
from neuropil.progress import Display
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, TRACES, Findings, Study, write_arrays

MOST_DRAWN = 400
"""Neurons of a group in the raster."""
MOST_MEMBRANES = 6
RASTER, MEMBRANE = 1000.0, 200.0
"""ms of the raster and of the voltages that are drawn, up to the end."""
STATISTICS = {"rate_hz": "rate (Hz)", "cv": "CV", "fano_factor": "Fano factor", "synchrony": "synchrony"}


class SpikingNetworkOptions(Config):
    network: Path | None = option(None, "TOML file of the network; an embedded one of 500 neurons without it")
    duration: float = option(1000.0, "simulated time (ms)")
    settle: float = option(200.0, "simulated time before the recording begins (ms)", low=0)
    dt: float = option(0.1, "time step (ms)")


Weights: TypeAlias = Mapping[int, np.ndarray]


def build(options: SpikingNetworkOptions, seed: int) -> Study:
    source = "the embedded network" if options.network is None else options.network.name
    network = load_network(options.network or EMBEDDED)
    SpikingSimulator.require(network, options.dt, options.duration)
    return Study("spiking network", partial(_compute, options, network, seed), {"source": source})


def _compute(
    options: SpikingNetworkOptions, network: SpikingNetwork, seed: int, folder: Path, display: Display
) -> Findings:
    simulator = SpikingSimulator(network, dt=options.dt, seed=seed)
    plastic = [place for place, each in enumerate(network.connections) if each.stdp is not None]
    initial = {place: simulator.synapses(place).weights.copy() for place in plastic}
    whole = options.settle + options.duration

    def show(share: float) -> None:
        if display.due():
            display.update(share, f"{share * whole:,.0f} ms of {whole:,.0f}")

    recording = statistics.record(simulator, options.settle, options.duration, show)
    _write(folder, recording)
    trains = {group.name: statistics.trains_of(recording, group.name) for group in network.groups}
    found = {}
    for name, train in trains.items():
        found[name] = statistics.firing(train)
        found[f"{name}, Poisson"] = statistics.firing(statistics.poisson_twin(train, seed))
    membranes = [_membrane_section(network, recording)] if recording.voltages else []
    sections = [_raster_section(network, recording), *membranes, _statistics_section(trains, found)]
    sections += [_plasticity_section(network, initial, recording)] if initial else []
    results = [Result(label, values) for label, values in found.items()]
    return Findings(results, [*sections, _network_section(network, simulator)])


def _write(folder: Path, recording: SpikingNetworkRecording) -> None:
    spikes = {f"{name}_times": train.times for name, train in recording.spikes.items()}
    spikes |= {f"{name}_neurons": train.neurons for name, train in recording.spikes.items()}
    voltages = {f"{name}_voltages": values for name, values in recording.voltages.items()}
    write_arrays(folder / SPIKES, **spikes)
    write_arrays(folder / TRACES, times=recording.times, **voltages)


def _raster_section(network: SpikingNetwork, recording: SpikingNetworkRecording) -> Section:
    end = recording.start + recording.duration
    shown, sizes = {}, {}
    for group in network.groups:
        shown[group.name] = statistics.some_neurons(*recording.spikes[group.name], group.size, MOST_DRAWN)
        sizes[group.name] = min(group.size, MOST_DRAWN)
    words = "Every tick is a spike; groups stand one above the other, and below is the mean firing rate of each."
    if any(sizes[group.name] < group.size for group in network.groups):
        words += f" Of large groups {MOST_DRAWN} neurons are shown."
    figure = spike_pictures.raster(shown, sizes, duration=end, start=max(recording.start, end - RASTER))
    return Section.illustrated("Raster", words, figure, "raster of the spikes of each group, with rates below")


def _membrane_section(network: SpikingNetwork, recording: SpikingNetworkRecording) -> Section:
    words = (
        "Membrane voltages of the probed neurons, towards the end. Inputs push them up and down; at the threshold "
        "(dashed) a spike, marked in orange, then reset. A neuron that is held near its threshold by inputs that "
        "cancel fires when fluctuations add up."
    )
    blocks: list[Block] = [Text(words)]
    last = recording.times > recording.start + recording.duration - MEMBRANE
    begin = float(recording.times[last][0]) - recording.dt
    for name, voltages in recording.voltages.items():
        neuron = network.neurons(name).neurons
        probed = [each for probe in network.probes if probe.group == name for each in probe.neurons][:MOST_MEMBRANES]
        times, neurons = recording.spikes[name]
        trains = [times[(neurons == each) & (times > begin)] - begin for each in probed]
        labels = [f"{name} {each}" for each in probed]
        shown = recording.times[last] - begin, voltages[last][:, : len(probed)]
        figure = spike_pictures.membranes(*shown, trains, labels, **neuron.levels)
        blocks.append(Picture.of(figure, alt=f"voltages of {len(probed)} neurons of {name}"))
    return Section("Membrane voltages", blocks)


def _statistics_section(trains: Mapping[str, SpikeTrains], found: Mapping[str, Mapping[str, float]]) -> Section:
    window = min(statistics.FANO_WINDOW, next(iter(trains.values())).duration / 2)
    spread = {
        "rate (Hz)": {name: statistics.rates(train) for name, train in trains.items()},
        "CV of intervals": {name: statistics.interval_cv(train) for name, train in trains.items()},
        f"Fano factor ({window:g} ms)": {name: statistics.fano_factor(train, window) for name, train in trains.items()},
    }
    words = (
        "Distribution over the neurons of each group. The coefficient of variation (CV) of the inter-spike intervals "
        "and the Fano factor of spike counts are 0 for a clock and 1 for a Poisson process (dashed). Synchrony is 1 if "
        "all fire together; independent neurons come to about one over the root of their number."
    )
    figure = network_pictures.firing_statistics(spread, dict.fromkeys(list(spread)[1:], 1.0))
    written = {name: {key: f"{value:.3g}" for key, value in values.items()} for name, values in found.items()}
    rows = [[name, *(values.get(key, "–") for key in STATISTICS)] for name, values in written.items()]
    table = Table(["group", *STATISTICS.values()], rows)
    return Section.illustrated("Firing statistics", words, figure, "histograms of rates, CVs and Fano factors", table)


def _plasticity_section(network: SpikingNetwork, initial: Weights, recording: SpikingNetworkRecording) -> Section:
    words = "Synapses grow where their spikes come before those of their targets, and shrink where after them: "
    final = {place: synapses.weights for place, synapses in recording.synapses.items()}
    weights = {network.connections[place].name: (before, final[place]) for place, before in initial.items()}
    words += "; ".join(
        f"of {name} {int((after > before).sum()):,} have grown and {int((after < before).sum()):,} shrunk"
        for name, (before, after) in weights.items()
    )
    words += "."
    means = {name: (float(before.mean()), float(after.mean())) for name, (before, after) in weights.items()}
    rows = [[name, *means[name], float(after.std())] for name, (_, after) in weights.items()]
    table = Table(["connection", "mean before", "mean after", "standard deviation after"], rows)
    figure = network_pictures.learned_weights(weights)
    return Section.illustrated("Synaptic plasticity", words, figure, "weights before and after", table)


def _network_section(network: SpikingNetwork, simulator: SpikingSimulator) -> Section:
    kinds = [
        f"Poisson source, {group.rate:g} Hz" if isinstance(group, SpikeSource) else group.neurons.summary
        for group in network.groups
    ]
    groups = [[group.name, f"{group.size:,}", kind] for group, kind in zip(network.groups, kinds, strict=True)]
    tables = [Table(["group", "neurons", "kind"], groups)]
    if network.connections:
        rows = []
        for place, each in enumerate(network.connections):
            weight = f"{each.weight:g}" if isinstance(each.weight, int | float) else "given"
            synapses, tau = len(simulator.synapses(place).targets), "delta" if each.tau is None else f"{each.tau:g} ms"
            rows.append([f"{each.source} → {each.target}", f"{synapses:,}", weight, f"{each.delay:g} ms", tau])
        tables.append(Table(["connection", "synapses", "weight", "delay", "time constant"], rows))
    return Section("The network", tables)


RECIPE = Recipe(SpikingNetworkOptions(), build, verb="simulate", about="models.spiking.network")
