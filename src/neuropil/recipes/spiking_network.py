"""A network of spiking neurons, the embedded one or yours from a TOML file: who fires when, how regularly, and how much together.

The embedded network has excitatory and inhibitory neurons that are connected at random and driven from outside. Inhibition follows
excitation so closely that the neurons fire at irregular times. Every group is compared with neurons that fire as often, but at random.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from neuropil.config import Config, option
from neuropil.data.networks.files import NetworkFile, parse_network, read_network
from neuropil.inspection.pictures.spiking import networks as network_pictures
from neuropil.inspection.pictures.spiking import spikes as spike_pictures
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.inspection.spike_statistics import (
    FANO_WINDOW,
    SpikeTrains,
    at_random,
    fano_factor,
    firing,
    interval_cv,
    rates,
    record,
    trains_of,
)
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
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.recordings import SPIKES, TRACES, write_arrays
from neuropil.tasks.study import Findings, Study
from neuropil.training.progress import Display

EMBEDDED = """\
# Four of five neurons excite, one inhibits; voltages are in units of the threshold, times in ms, rates in Hz.

[groups.excitatory]
size = 400
tau_m = 20.0
tau_ref = 2.0
start = [0.0, 1.0]

[groups.inhibitory]
size = 100
tau_m = 10.0
tau_ref = 1.0
start = [0.0, 1.0]

[[connections]]
from = "excitatory"
to = "excitatory"
weight = 0.5             # with a time constant, a voltage times ms: a spike adds weight / tau to the current
probability = 0.2
delay = 1.5
tau = 5.0

[[connections]]
from = "excitatory"
to = "inhibitory"
weight = 0.75
probability = 0.2
delay = 1.0
tau = 5.0

[[connections]]
from = "inhibitory"
to = "excitatory"
weight = -8.0
probability = 0.2
delay = 1.0
tau = 10.0

[[connections]]
from = "inhibitory"
to = "inhibitory"
weight = -4.0
probability = 0.2
delay = 1.0
tau = 10.0

[[poisson]]              # spikes from outside, for each neuron its own, at synapses without a time constant
to = "excitatory"
rate = 1000.0
weight = 0.12

[[poisson]]
to = "inhibitory"
rate = 1000.0
weight = 0.12

[[probes]]
group = "excitatory"
neurons = [0, 1, 2]

[[probes]]
group = "inhibitory"
neurons = [0]
"""

MOST_DRAWN = 400
"""Neurons of a group in the raster."""
MOST_MEMBRANES = 6
RASTER, MEMBRANE = 1000.0, 200.0
"""ms of the raster and of the voltages that are drawn, up to the end."""


class SpikingNetworkOptions(Config):
    network: Path | None = option(
        None, "TOML file that describes the network; without it, an embedded one of 500 neurons"
    )
    duration: float = option(1000.0, "how long to simulate (ms)")
    settle: float = option(200.0, "how long before that, unrecorded, until it has settled (ms)", low=0)
    dt: float = option(0.1, "step (ms)")


def build(options: SpikingNetworkOptions, seed: int) -> Study:
    described = (
        parse_network(EMBEDDED, "the embedded network") if options.network is None else read_network(options.network)
    )
    network = network_of(described)
    SpikingSimulator.require(network, options.dt, options.duration)
    source = "the embedded network" if options.network is None else options.network.name
    return Study(
        "spiking network", lambda folder, display: _compute(options, network, seed, folder, display), {"source": source}
    )


def network_of(file: NetworkFile) -> SpikingNetwork:
    return SpikingNetwork(
        [_group(name, table) for name, table in file.groups.items()],
        [_connection(table) for table in file.connections],
        [
            *(PoissonInput(table["to"], table["rate"], table["weight"], table.get("tau")) for table in file.poisson),
            *(CurrentInput(table["to"], float(table["amount"])) for table in file.currents),
        ],
        [Probe(table["group"], tuple(table.get("neurons", (0,)))) for table in file.probes],
    )


def _group(name: str, table: Mapping[str, Any]) -> NeuronGroup | SpikeSource:
    if "rate" in table:
        return SpikeSource(name, table["size"], table["rate"])
    start = table.get("start")
    neurons = LIFConfig(**{key: value for key, value in table.items() if key not in ("size", "start")})
    return NeuronGroup(name, table["size"], neurons, (start[0], start[1]) if isinstance(start, list) else start)


def _connection(table: Mapping[str, Any]) -> Projection:
    plain = {key: table[key] for key in ("weight", "probability", "fan_in", "delay", "tau") if key in table}
    return Projection(table["from"], table["to"], **plain, stdp=STDP(**table["stdp"]) if "stdp" in table else None)


def _compute(
    options: SpikingNetworkOptions, network: SpikingNetwork, seed: int, folder: Path, display: Display
) -> Findings:
    simulator = SpikingSimulator(network, dt=options.dt, seed=seed)
    first = {
        place: simulator.synapses(place).weights.copy()
        for place, each in enumerate(network.connections)
        if each.stdp is not None
    }
    whole = options.settle + options.duration

    def tell(share: float) -> None:
        if display.due():
            display.update(share, f"{share * whole:,.0f} ms of {whole:,.0f}")

    recording = record(simulator, options.settle, options.duration, tell)
    _write(folder, recording)
    trains = {group.name: trains_of(recording, group.name) for group in network.groups}
    found = {name: (firing(train), firing(at_random(train, seed))) for name, train in trains.items()}
    sections = [
        _raster_section(network, recording),
        *_membrane_sections(network, recording),
        _statistics_section(network, trains, found),
    ]
    if first:
        sections.append(_learning_section(network, first, recording))
    return Findings(_results(found), [*sections, _network_section(network, simulator)])


def _results(found: Mapping[str, tuple[dict[str, float], dict[str, float]]]) -> list[Result]:
    """Every group, and the same at random."""
    return [
        result
        for name, (own, random) in found.items()
        for result in (Result(name, own), Result(f"{name}, if it were random", random))
    ]


def _write(folder: Path, recording: SpikingNetworkRecording) -> None:
    spikes = {
        f"{name}_{part}": values for name, train in recording.spikes.items() for part, values in train._asdict().items()
    }
    write_arrays(folder / SPIKES, **spikes)
    write_arrays(
        folder / TRACES,
        times=recording.times,
        **{f"{name}_voltages": values for name, values in recording.voltages.items()},
    )


def _raster_section(network: SpikingNetwork, recording: SpikingNetworkRecording) -> Section:
    start = max(recording.start, recording.start + recording.duration - RASTER)
    shown, sizes = {}, {}
    for group in network.groups:
        kept = torch.tensor(network_pictures.evenly(group.size, MOST_DRAWN))
        times, neurons = recording.spikes[group.name]
        place = torch.full((group.size,), -1).index_put((kept,), torch.arange(len(kept)))[neurons]
        shown[group.name], sizes[group.name] = (times[place >= 0], place[place >= 0]), len(kept)
    words = "Every spike is a tick at its time, groups stand one above the other, and below is the mean rate of each."
    if any(sizes[group.name] < group.size for group in network.groups):
        words += f" Of large groups {MOST_DRAWN} neurons are shown."
    end = recording.start + recording.duration
    figure = spike_pictures.raster(shown, sizes, duration=end, start=start)
    return Section(
        "Who fires when", [Text(words), Picture.of(figure, alt="raster of the spikes of each group, with rates below")]
    )


def _membrane_sections(network: SpikingNetwork, recording: SpikingNetworkRecording) -> list[Section]:
    if not recording.voltages:
        return []
    blocks: list[Block] = [
        Text(
            "Voltages of the neurons that are watched, towards the end. What arrives pushes them up and down; at the threshold (dashed) a "
            "spike, marked in orange, then reset. A neuron that is held near its threshold by inputs that cancel fires when chance adds up."
        )
    ]
    last = recording.times > recording.start + recording.duration - MEMBRANE
    for name, voltages in recording.voltages.items():
        group = network.neurons(name)
        watched = [neuron for probe in network.probes if probe.group == name for neuron in probe.neurons][
            :MOST_MEMBRANES
        ]
        times, neurons = recording.spikes[name]
        begin = float(recording.times[last][0]) - recording.dt
        trains = [times[(neurons == neuron) & (times > begin)] - begin for neuron in watched]
        figure = spike_pictures.membranes(
            recording.times[last] - begin,
            voltages[last][:, : len(watched)],
            trains,
            [f"{name} {neuron}" for neuron in watched],
            threshold=group.neurons.threshold,
            reset=group.neurons.reset,
            unit=group.neurons.unit,
        )
        blocks.append(Picture.of(figure, alt=f"voltages of {len(watched)} neurons of {name}"))
    return [Section("Membranes", blocks)]


def _statistics_section(
    network: SpikingNetwork,
    trains: Mapping[str, SpikeTrains],
    found: Mapping[str, tuple[dict[str, float], dict[str, float]]],
) -> Section:
    window = min(FANO_WINDOW, next(iter(trains.values())).duration / 2)
    spread = {
        "rate (Hz)": {name: rates(train) for name, train in trains.items()},
        "CV of intervals": {name: interval_cv(train) for name, train in trains.items()},
        f"Fano factor ({window:g} ms)": {name: fano_factor(train, window) for name, train in trains.items()},
    }
    words = (
        "How each statistic is spread over the neurons of a group. The coefficient of variation (CV) of the intervals between spikes and "
        "the Fano factor of counts are 0 for a clock and 1 for spikes at random (dashed). Synchrony is 1 if all fire together; neurons "
        "that do not know of each other come to about one over the root of their number."
    )
    figure = network_pictures.firing_statistics(spread, dict.fromkeys(list(spread)[1:], 1.0))
    keys = ("rate_hz", "cv", "fano_factor", "synchrony")
    rows = [
        [label, *(f"{values[key]:.3g}" if key in values else "–" for key in keys)]
        for name, (own, random) in found.items()
        for label, values in ((name, own), (f"{name}, if it were random", random))
    ]
    return Section(
        "How regularly, and how much together",
        [
            Text(words),
            Picture.of(figure, alt="histograms of rates, CVs and Fano factors"),
            Table(["group", "rate (Hz)", "CV", "Fano factor", "synchrony"], rows),
        ],
    )


def _learning_section(network: SpikingNetwork, first: Mapping[int, Any], recording: SpikingNetworkRecording) -> Section:
    words = "Plastic synapses have grown where their spikes came before those of their targets, and shrunk where they came after."
    weights = {
        network.connections[place].name: (before, recording.synapses[place].weights) for place, before in first.items()
    }
    figure = network_pictures.learned_weights(weights)
    rows = [
        [name, float(before.mean()), float(after.mean()), float(after.std())]
        for name, (before, after) in weights.items()
    ]
    table = Table(["connection", "mean before", "mean after", "spread after"], rows)
    return Section("What was learned", [Text(words), Picture.of(figure, alt="weights before and after"), table])


def _network_section(network: SpikingNetwork, simulator: SpikingSimulator) -> Section:
    groups = [[group.name, f"{group.size:,}", _kind(group)] for group in network.groups]
    rows: Sequence[Sequence[str]] = [
        [
            f"{each.source} → {each.target}",
            f"{len(simulator.synapses(place).targets):,}",
            f"{each.weight:g}" if isinstance(each.weight, int | float) else "given",
            f"{each.delay:g} ms",
            "delta" if each.tau is None else f"{each.tau:g} ms",
        ]
        for place, each in enumerate(network.connections)
    ]
    tables = [Table(["group", "neurons", "kind"], groups)]
    if rows:
        tables.append(Table(["connection", "synapses", "weight", "delay", "time constant"], rows))
    return Section("The network", tables)


def _kind(group: NeuronGroup | SpikeSource) -> str:
    if isinstance(group, SpikeSource):
        return f"fires at random with {group.rate:g} Hz"
    neuron = group.neurons
    return (
        f"τ_m {neuron.tau_m:g} ms, τ_ref {neuron.tau_ref:g} ms, threshold {neuron.threshold:g}, reset {neuron.reset:g}"
    )


RECIPE = Recipe(SpikingNetworkOptions(), build, verb="simulate")
