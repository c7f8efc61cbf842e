"""From the description of a spiking network to the arrays that its kernel runs on."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.spiking import kernel, plasticity, wiring
from neuropil.models.spiking.description import STDP, CurrentInput, NeuronGroup, Projection, SpikeSource, SpikingNetwork
from neuropil.models.spiking.wiring import Synapses
from neuropil.randomness import mix

PortKey: TypeAlias = tuple[str, float | None]
"""The group at which spikes arrive, and the time constant of the synapse."""
MOST_EVENTS = 500
"""Poisson spikes from outside that a neuron may expect in one step."""
LINE = 8
"""Double-precision numbers in a line of the processor's cache."""


def require_dt(network: SpikingNetwork, dt: float) -> None:
    """Steps that see every time constant, and delays that are whole numbers of them."""
    limits: dict[str, float] = {}
    for group in network.groups:
        if isinstance(group, NeuronGroup):
            limits[f"tau_m of {group.name!r}"] = group.neurons.tau_m
        elif group.rate:
            limits[f"one spike a step of {group.name!r}"] = 1000 / group.rate
    for each in (*network.connections, *network.poisson):
        if each.tau is not None:
            limits[f"the tau of {each.name}"] = each.tau
    for each in network.poisson:
        if each.rate:
            limits[f"{MOST_EVENTS} spikes a step to {each.target!r}"] = 1000 * MOST_EVENTS / each.rate
    rule = min(limits, key=lambda name: limits[name])
    if not 0 < dt <= limits[rule]:
        fix = f"at most {limits[rule]:g}, for {rule}"
        raise InputError("dt must be a time above 0 ms and not too long", got=f"{dt:g}", fix=fix)
    for connection in network.connections:
        times = {"delay": connection.delay}
        if connection.stdp is not None:
            times["dendritic delay"] = connection.stdp.dendritic_delay
        for name, time in times.items():
            if abs(time / dt - round(time / dt)) > 1e-6:
                got = f"{time:g} ms in steps of {dt:g} ms"
                raise InputError(f"the {name} of {connection.name} must be a whole number of steps", got=got)


def array(numbers: np.ndarray | Tensor) -> np.ndarray:
    return numbers.detach().cpu().numpy() if isinstance(numbers, Tensor) else numbers


def draw_synapses(network: SpikingNetwork, connection: Projection, seed: int) -> Synapses:
    """What learns is held in double precision, or small changes would be lost."""
    source, target = network.find(connection.source), network.find(connection.target)
    sizes, weight = (source.size, target.size), connection.weight
    dtype = np.float32 if connection.stdp is None else np.float64
    weight = float(weight) if isinstance(weight, int | float) else array(weight).astype(dtype)
    if connection.pairs is not None:
        sources, targets = (array(neurons).astype(np.int64) for neurons in connection.pairs)
        synapses = wiring.paired(sources, targets, weight, source.size)
    elif isinstance(weight, np.ndarray):
        synapses = wiring.dense(weight)
    elif connection.fan_in is not None:
        rows, targets = wiring.random_columns(*sizes, connection.fan_in, source is target, np.uint64(seed))
        synapses = wiring.same(rows, targets, weight)
    elif connection.probability is not None or connection.stdp is not None:
        probability = 1.0 if connection.probability is None else float(connection.probability)
        rows, targets = wiring.random_rows(*sizes, probability, source is target, np.uint64(seed))
        synapses = wiring.same(rows, targets, weight)
    else:
        ones = np.ones(sizes, dtype)
        if source is target:
            np.fill_diagonal(ones, 0.0)
        synapses = wiring.dense(ones, weight)
    return synapses if connection.stdp is None else synapses.listed()


def pack_ports(network: SpikingNetwork, dt: float) -> tuple[kernel.Ports, dict[PortKey, int]]:
    """One port for each group and time constant that spikes arrive with, in the order in which they are first named."""
    keys = dict.fromkeys((each.target, each.tau) for each in (*network.connections, *network.poisson))
    places = {key: index for index, key in enumerate(keys)}
    first = starts(network.find(name).size for name, _ in places)
    ports = kernel.Ports(
        integers(network.place(name) for name, _ in places),
        first[:-1],
        floats(0.0 if tau is None else math.exp(-dt / tau) for _, tau in places),
        floats(0.0 if tau is None else gain(dt, tau, network.neurons(name).neurons.tau_m) for name, tau in places),
        np.zeros(first[-1]),
        np.zeros(first[-1]),
    )
    return ports, places


def gain(dt: float, tau: float, tau_m: float) -> float:
    """What a current of 1 at a step's beginning adds to the voltage until its end."""
    # (e^{−dt/τ} − e^{−dt/τ_m}) τ/(τ − τ_m) = (dt/τ_m) e^{−dt/τ_m} (eˣ − 1)/x,  x = dt (1/τ_m − 1/τ); for τ = τ_m too
    x = dt * (1 / tau_m - 1 / tau)
    return dt / tau_m * math.exp(-dt / tau_m) * (math.expm1(x) / x if x else 1.0)


def pack_wires(
    network: SpikingNetwork, synapses: Sequence[Synapses], ports: Mapping[PortKey, int], dt: float, members: int
) -> kernel.Wires:
    wired = list(zip(network.connections, synapses, strict=True))
    rows = [wiring.shared_rows(made, network.find(each.target).size, members) for each, made in wired]
    targets = [made.targets for made in synapses]
    weights = [made.weights if each.stdp is None else wiring.NO_WEIGHTS for each, made in wired]
    row_first, target_first, weight_first = (starts(map(len, parts)) for parts in (rows, targets, weights))
    plastic = itertools.count()
    return kernel.Wires(
        integers(made.kind for made in synapses),
        integers(network.place(each.source) for each in network.connections),
        integers(network.place(each.target) for each in network.connections),
        integers(ports[each.target, each.tau] for each in network.connections),
        delays(network, dt),
        np.zeros(len(wired), np.int64),
        scales(network, synapses),
        integers(-1 if each.stdp is None else next(plastic) for each in network.connections),
        row_first[:-1],
        target_first[:-1],
        weight_first[:-1],
        joined(rows, np.int64),
        joined(targets, np.uint32),
        joined(weights, np.float32),
    )


def in_place(synapses: Sequence[Synapses], wires: kernel.Wires, plastic: plasticity.Plastic) -> list[Synapses]:
    """The same synapses, as views of what the kernel works on, so that nothing is held twice."""
    views = []
    for place, made in enumerate(synapses):
        rule, first = int(wires.plastic[place]), int(wires.target_first[place])
        own = wires.weights[int(wires.weight_first[place]) :]
        if rule >= 0:
            own = plastic.weights[int(plastic.synapse_first[rule]) :]
        targets = wires.targets[first : first + len(made.targets)]
        views.append(replace(made, targets=targets, weights=own[: len(made.weights)]))
    return views


def pack_plastic(network: SpikingNetwork, synapses: Sequence[Synapses], dt: float, members: int) -> plasticity.Plastic:
    wired = zip(network.connections, synapses, strict=True)
    chosen = [(each, rule, made) for each, made in wired if (rule := each.stdp) is not None]
    rules = [rule for _, rule, _ in chosen]
    before = starts(network.find(each.source).size for each, _, _ in chosen)
    after = starts(network.find(each.target).size for each, _, _ in chosen)
    records = aligned_rows(int(after[-1]), plasticity.RECORD)
    records[:, : plasticity.NEWEST + 1] = plasticity.NEVER
    return plasticity.Plastic(
        floats(rule.potentiation for rule in rules),
        floats(rule.depression for rule in rules),
        floats(decay(dt, rule.tau_plus) for rule in rules),
        floats(decay(dt, rule.tau_minus) for rule in rules),
        floats(rule.low for rule in rules),
        floats(rule.high for rule in rules),
        floats(1 / (rule.high - rule.low) if rule.high > rule.low else 0.0 for rule in rules),
        floats(rule.mu_plus for rule in rules),
        floats(rule.mu_minus for rule in rules),
        integers(round(2 * rule.dendritic_delay / dt) for rule in rules),
        integers(reference_period(rule, dt) for rule in rules),
        np.zeros((members, len(rules)), np.int64),
        np.ones((members, len(rules), 2)),
        before[:-1],
        after[:-1],
        starts(len(made) for _, _, made in chosen)[:-1],
        joined([made.weights for _, _, made in chosen], np.float64),
        np.zeros((members, before[-1])),
        np.zeros((members, before[-1])),
        records,
        np.zeros((after[-1], plasticity.MOST_WAITING)),
        np.zeros(after[-1], np.int64),
    )


def decay(dt: float, tau: float) -> float:
    """e^{−dt/τ}, but below 1, so that no two steps have the same date."""
    return min(math.exp(-dt / tau), 1 - 2.0**-52)


def reference_period(rule: STDP, dt: float) -> int:
    return max(1, int(min(plasticity.TIME_CONSTANTS * min(rule.tau_plus, rule.tau_minus) / dt, 1e9)))


def aligned_rows(number: int, width: int) -> Float64[np.ndarray, "row width"]:
    """Zeros, where no row of eight lies in two lines of the cache."""
    room = np.zeros(number * width + LINE)
    begin = -(room.ctypes.data // room.itemsize) % LINE
    return room[begin : begin + number * width].reshape(number, width)


def pack_drives(network: SpikingNetwork, ports: Mapping[PortKey, int], dt: float, first_stream: int) -> kernel.Drives:
    drives = network.poisson
    tables = [poisson_table(each.rate * dt / 1000) for each in drives]
    streams = starts(network.find(each.target).size for each in drives)
    return kernel.Drives(
        integers(ports[each.target, each.tau] for each in drives),
        first_stream + streams[:-1],
        floats(each.weight / (each.tau or 1.0) for each in drives),
        starts(map(len, tables)),
        joined(tables, np.uint32),
    )


def poisson_table(mean: float) -> np.ndarray:
    """P(at most k) · 2³² for k = 0, 1 … as long as it is below 2³²."""
    k = np.arange(math.ceil(mean + 10 * math.sqrt(mean) + 20))
    logarithms = np.cumsum(np.log(np.maximum(k, 1)))
    # P(k) = e^{−λ} λᵏ / k!
    chances = np.exp(k * math.log(mean) - mean - logarithms) if mean else (k == 0).astype(float)
    table = np.round(np.cumsum(chances) * 2.0**32)
    table = table[table < 2.0**32].astype(np.uint32)
    # the last of 2³² values is all that lies beyond the table
    return np.pad(table, (0, -len(table) % 4), constant_values=2**32 - 1)


def pack_groups(
    network: SpikingNetwork, signals: Sequence[np.ndarray], given: Sequence[np.ndarray], dt: float
) -> kernel.Groups:
    groups = network.groups
    neurons = [group.neurons if isinstance(group, NeuronGroup) else None for group in groups]
    random = [isinstance(group, SpikeSource) and group.spikes is None for group in groups]
    return kernel.Groups(
        starts(group.size for group in groups)[:-1],
        integers(group.size for group in groups),
        integers(kind_of(group) for group in groups),
        floats(math.exp(-dt / each.tau_m) if each else 0.0 for each in neurons),
        floats(each.threshold if each else 0.0 for each in neurons),
        floats(each.reset if each else 0.0 for each in neurons),
        integers(round(each.tau_ref / dt) if each else 0 for each in neurons),
        starts(signal.size for signal in signals)[:-1],
        integers(signal.shape[1] if signal.size else 0 for signal in signals),
        starts(group.size if is_random else 0 for group, is_random in zip(groups, random, strict=True))[:-1],
        np.array([round(getattr(group, "rate", 0.0) * dt / 1000 * 2**32) for group in groups], np.uint64),
        starts(map(len, given)),
    )


def kind_of(group: NeuronGroup | SpikeSource) -> int:
    if isinstance(group, NeuronGroup):
        return kernel.LIF
    return kernel.POISSON if group.spikes is None else kernel.GIVEN


def pack_neurons(
    network: SpikingNetwork,
    signals: Sequence[np.ndarray],
    given: Sequence[np.ndarray],
    num_streams: int,
    dt: float,
    seed: int,
    members: int,
) -> kernel.Neurons:
    number = network.num_neurons
    slots = num_slots(network, dt)
    return kernel.Neurons(
        np.concatenate([first_voltages(group, seed) for group in network.groups]),
        np.concatenate([constant_targets(group, network) for group in network.groups]),
        np.full(number, -1),
        np.zeros(number),
        joined([signal.reshape(-1) for signal in signals], np.float64),
        joined([spikes[:, 0] for spikes in given], np.int64),
        joined([spikes[:, 1] for spikes in given], np.int64),
        wiring.new_generators(num_streams, mix(seed, "streams")),
        np.zeros((slots, number), np.int32),
        np.zeros((slots, len(network.groups), members), np.int64),
    )


def delays(network: SpikingNetwork, dt: float) -> Int64[np.ndarray, " connection"]:
    """Steps."""
    return integers(round(each.delay / dt) for each in network.connections)


def scales(network: SpikingNetwork, synapses: Sequence[Synapses]) -> Float64[np.ndarray, " connection"]:
    return floats(made.scale / (each.tau or 1.0) for each, made in zip(network.connections, synapses, strict=True))


def with_slots(neurons: kernel.Neurons, number: int, step: int) -> kernel.Neurons:
    """The same neurons, with the spikes of as many of the last steps before this one."""
    before = len(neurons.recent)
    kept = np.arange(max(0, step - min(number, before)), step)
    recent, counts = (np.zeros((number, *each.shape[1:]), each.dtype) for each in (neurons.recent, neurons.counts))
    recent[kept % number], counts[kept % number] = neurons.recent[kept % before], neurons.counts[kept % before]
    return neurons._replace(recent=recent, counts=counts)


def num_slots(network: SpikingNetwork, dt: float) -> int:
    """Steps whose spikes are kept."""
    back = (2 * each.stdp.dendritic_delay for each in network.connections if each.stdp is not None)
    return max(int(delays(network, dt).max(initial=0)), round(max(back, default=0.0) / dt)) + 2


def num_source_streams(network: SpikingNetwork) -> int:
    return sum(group.size for group in network.groups if isinstance(group, SpikeSource) and group.spikes is None)


def num_drive_streams(network: SpikingNetwork) -> int:
    return sum(network.find(each.target).size for each in network.poisson)


def first_voltages(group: NeuronGroup | SpikeSource, seed: int) -> Float64[np.ndarray, " neuron"]:
    if isinstance(group, SpikeSource):
        return np.zeros(group.size)
    if isinstance(group.start, tuple):
        return np.random.default_rng(mix(seed, "voltages", group.name)).uniform(*group.start, group.size)
    if isinstance(group.start, np.ndarray | Tensor):
        return array(group.start).astype(np.float64)
    return np.full(group.size, float(group.neurons.rest if group.start is None else group.start))


def constant_targets(group: NeuronGroup | SpikeSource, network: SpikingNetwork) -> Float64[np.ndarray, " neuron"]:
    """v_rest and all inputs that do not change."""
    total = np.full(group.size, float(group.neurons.rest) if isinstance(group, NeuronGroup) else 0.0)
    for amount in currents(group, network):
        if isinstance(amount, int | float) or amount.ndim == 1:
            total += amount
    return total


def changing_input(group: NeuronGroup | SpikeSource, network: SpikingNetwork) -> Float64[np.ndarray, "step neuron"]:
    """The sum of all inputs that change, for as many steps as the shortest has; nothing without any."""
    changing = [
        amount for amount in currents(group, network) if not isinstance(amount, int | float) and amount.ndim == 2
    ]
    steps = min(map(len, changing), default=0)
    return sum((amount[:steps] for amount in changing), start=np.zeros((steps, 1)))


def currents(group: NeuronGroup | SpikeSource, network: SpikingNetwork) -> list[float | np.ndarray]:
    found = [each.amount for each in network.inputs if isinstance(each, CurrentInput) and each.target == group.name]
    return [float(amount) if isinstance(amount, int | float) else array(amount).astype(np.float64) for amount in found]


def given_spikes(group: NeuronGroup | SpikeSource, dt: float) -> Int64[np.ndarray, "spike 2"]:
    """Steps and cells, sorted; a cell fires once in a step, and a spike within a step is dated at its end."""
    if not isinstance(group, SpikeSource) or group.spikes is None:
        return np.empty((0, 2), np.int64)
    times, cells = (array(numbers) for numbers in group.spikes)
    steps = np.ceil(times.astype(np.float64) / dt - 1e-6).astype(np.int64) - 1
    return np.unique(np.stack([np.maximum(steps, 0), cells.astype(np.int64)], 1), axis=0)


def starts(lengths: Iterable[int]) -> Int64[np.ndarray, " part_and_one"]:
    """Where each of some parts begins that lie one behind the other, and where the last ends."""
    return np.array([0, *itertools.accumulate(map(int, lengths))], np.int64)


def joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype, copy=False)


def integers(values: Iterable[int]) -> Int64[np.ndarray, " each"]:
    return np.array(list(values), np.int64)


def floats(values: Iterable[float]) -> Float64[np.ndarray, " each"]:
    return np.array(list(values), np.float64)
