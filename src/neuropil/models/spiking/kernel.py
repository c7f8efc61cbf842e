"""A spiking network over time, compiled: all steps in one call, with no Python between them.

    1. every neuron takes what has arrived from the others and from outside, goes on by one step, and fires if it is
    above its threshold 2. all meet 3. every spike that arrives now is added up at its targets, and plastic synapses
    learn

Neurons of all groups lie in one row, and so do the synapses of all connections, sorted by the neuron that they come
from and then by the one that they go to. Spikes wait for as long as the delay of a connection lasts, not sums of what
they do, so that a long delay costs nothing and a step writes to no more memory than the network has neurons.

Each member of the team owns a share of every group, and nobody else writes to these neurons or to the synapses that end
there. A sum is made by one member, in the order of connections and of the neurons that fired, and every neuron draws
from random numbers of its own: the number of threads changes no bit."""

from typing import NamedTuple

import numpy as np

from neuropil.models.lif import leak
from neuropil.models.spiking.delivery import deliver
from neuropil.models.spiking.plasticity import TINY, bring_up_to_date
from neuropil.parts.compilation import compiled, compiled_in_place, compiled_inside
from neuropil.parts.lanes.places_between import places_between
from neuropil.parts.threads.barrier import atomic_load, barrier, own_bounds

LIF, POISSON, GIVEN = range(3)
FIRST_SPIKES = 2**20
"""Room for the spikes of a member, to begin with: memory that is never written to costs nothing."""
BLOCK = 1024
"""Neurons that go on together: all that is known of them stays in the fastest cache meanwhile."""


class Groups(NamedTuple):
    """One entry for each group."""

    first: np.ndarray
    """Number of its first neuron in the row of all."""
    size: np.ndarray
    kind: np.ndarray
    decay: np.ndarray
    threshold: np.ndarray
    reset: np.ndarray
    refractory_steps: np.ndarray
    signal_first: np.ndarray
    """Where its input that changes with time begins in `Neurons.signal`."""
    signal_width: np.ndarray
    """1 if all neurons have the same, otherwise its size; 0 without any."""
    stream: np.ndarray
    """Its first generator of random numbers, if it is a Poisson source."""
    chance: np.ndarray
    """Of a spike within a step, times 2³²."""
    given_first: np.ndarray
    """Where its given spikes begin, one entry more than groups."""


class Neurons(NamedTuple):
    """One entry for each neuron, unless said otherwise."""

    v: np.ndarray
    target: np.ndarray
    """Voltage that it goes to without spikes: v_rest and its constant input."""
    release: np.ndarray
    """First step after its last refractory one."""
    push: np.ndarray
    """What its synapses add to the voltage within a step; zero between steps."""
    signal: np.ndarray
    given_steps: np.ndarray
    given_neurons: np.ndarray
    random: np.ndarray
    """[2, stream]: state of one generator for each neuron of a Poisson source and each neuron under Poisson input."""
    recent: np.ndarray
    """[slot, neuron]: neurons that fired lately, counted within their group; each member writes to its own range."""
    counts: np.ndarray
    """[slot, group, member]: how many."""


class Ports(NamedTuple):
    """Where spikes arrive: one port for each group and kind of synapse."""

    group: np.ndarray
    first: np.ndarray
    """Its place in `arriving` and `current`."""
    decay: np.ndarray
    """e^{−dt/τ}; 0 for delta synapses."""
    gain: np.ndarray
    """Volts that a current of 1 adds within a step."""
    arriving: np.ndarray
    current: np.ndarray


class Wires(NamedTuple):
    """One entry for each connection, and below one for each synapse."""

    kind: np.ndarray
    source: np.ndarray
    target: np.ndarray
    port: np.ndarray
    delay: np.ndarray
    since: np.ndarray
    """The first step whose spikes it carries: 0, unless its delay was changed on the way."""
    scale: np.ndarray
    """What its weights are multiplied with, 1/τ among it."""
    plastic: np.ndarray
    """Its number among the plastic ones, or −1."""
    row_first: np.ndarray
    """Its place in `rows`."""
    target_first: np.ndarray
    weight_first: np.ndarray
    rows: np.ndarray
    """[source neuron, member]: where the synapses of this neuron to this member's share begin; a last row ends them."""
    targets: np.ndarray
    weights: np.ndarray
    """In single precision, which is read twice as fast; those that are plastic are elsewhere."""


class Drives(NamedTuple):
    """One entry for each Poisson input."""

    port: np.ndarray
    stream: np.ndarray
    kick: np.ndarray
    table_first: np.ndarray
    """One entry more than inputs."""
    table: np.ndarray
    """P(at most k spikes in a step) · 2³² for k = 0, 1 …, four or a multiple of four."""


class Watch(NamedTuple):
    """Neurons whose voltages are wanted, sorted by the member that owns them."""

    member_first: np.ndarray
    neurons: np.ndarray
    places: np.ndarray
    voltages: np.ndarray
    """[neuron, step]"""


class Control(NamedTuple):
    progress: np.ndarray
    stop: np.ndarray
    """Set by the caller to end early."""
    verdict: np.ndarray
    """What the first member has read there, for even and odd steps."""


@compiled
def run(first_step, num_steps, groups, neurons, ports, wires, plastic, drives, watch, control, team):
    """Steps and numbers of the spikes of this member's neurons."""
    spike_steps, spike_neurons, count = np.empty(FIRST_SPIKES, np.int32), np.empty(FIRST_SPIKES, np.int32), 0
    drawn, events = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    tally = np.zeros(groups.size.max(), np.uint32)
    num_slots = len(neurons.recent)
    for step in range(first_step, first_step + num_steps):
        slot = step % num_slots
        for group in range(len(groups.first)):
            low, high = own_bounds(groups.size[group], team)
            first = groups.first[group]
            fired, num_fired = neurons.recent[slot, first + low : first + high], 0
            for begin in range(low, high, BLOCK):
                end, rest = min(begin + BLOCK, high), fired[num_fired:]
                num_fired += advance(rest, group, begin, end, step, groups, neurons, ports, drives, drawn, events)
            neurons.counts[slot, group, team.member] = num_fired
            while count + num_fired > len(spike_steps):
                spike_steps, spike_neurons = doubled(spike_steps), doubled(spike_neurons)
            for index in range(num_fired):
                spike_steps[count], spike_neurons[count] = step, first + fired[index]
                count += 1
        for index in range(watch.member_first[team.member], watch.member_first[team.member + 1]):
            watch.voltages[watch.places[index], step - first_step] = neurons.v[watch.neurons[index]]
        if team.member == 0:
            control.progress[0] = step + 1
            control.verdict[step % 2] = atomic_load(control.stop)
        barrier(team)
        for connection in range(len(wires.kind)):
            deliver(connection, step, groups, neurons, ports, wires, plastic, tally, team)
        if control.verdict[step % 2] != 0:
            break
    for connection in range(len(wires.kind)):
        if wires.plastic[connection] >= 0:
            bring_up_to_date(wires.plastic[connection], connection, groups, wires, plastic, team)
    return spike_steps[:count], spike_neurons[:count]


@compiled
def doubled(array):
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


# --- neurons ----------------------------------------------------------------------------------------------------------


@compiled_in_place
def advance(fired, group, low, high, step, groups, neurons, ports, drives, drawn, events):
    """One step of a block of neurons, `low` to `high` of a group; how many fired, and in `fired` which."""
    if groups.kind[group] == POISSON:
        return fire_at_random(fired, low, high, group, groups, neurons, drawn)
    if groups.kind[group] == GIVEN:
        return fire_as_given(fired, low, high, step, group, groups, neurons)
    first = groups.first[group]
    own = slice(first + low, first + high)
    v, release, push = neurons.v[own], neurons.release[own], neurons.push[own]
    for port in range(len(ports.group)):
        if ports.group[port] == group:
            place = slice(ports.first[port] + low, ports.first[port] + high)
            arriving = ports.arriving[place]
            for drive in range(len(drives.port)):
                if drives.port[drive] == port:
                    rain(arriving, drive, low, high, neurons, drives, drawn, events)
            if ports.decay[port] == 0:
                take_kicks(v, arriving, release, step)
            else:
                take_current(push, ports.current[place], arriving, ports.decay[port], ports.gain[port])
    width = groups.signal_width[group]
    if width > 0:
        at = groups.signal_first[group] + step * width
        signal = neurons.signal[at + low : at + high] if width > 1 else neurons.signal[at : at + 1]
        take_signal(push, signal, groups.decay[group])
    threshold, reset = groups.threshold[group], groups.reset[group]
    integrate(v, neurons.target[own], push, release, step, groups.decay[group], reset)
    return fire(fired, v, release, low, step, threshold, reset, groups.refractory_steps[group])


@compiled_inside
def rain(arriving, drive, low, high, neurons, drives, drawn, events):
    """Poisson spikes from outside, for each neuron its own."""
    stream = slice(drives.stream[drive] + low, drives.stream[drive] + high)
    draw(neurons.random[0, stream], neurons.random[1, stream], drawn)
    count_events(events[: high - low], drawn, drives.table[drives.table_first[drive] : drives.table_first[drive + 1]])
    for i in range(len(arriving)):
        arriving[i] += drives.kick[drive] * events[i]


@compiled_inside
def take_kicks(v, arriving, release, step):
    for i in range(len(v)):
        # v ← v + Σ w, unless it was refractory when they came, at the end of the last step
        v[i] += arriving[i] if step > release[i] else 0.0
        arriving[i] = 0.0


@compiled_inside
def take_current(push, current, arriving, decay, gain):
    for i in range(len(push)):
        # s ← s + Σ w/τ,   then s e^{−dt/τ}
        s = current[i] + arriving[i]
        arriving[i] = 0.0
        push[i] += gain * s
        s *= decay
        current[i] = s if abs(s) > TINY else 0.0


@compiled_inside
def take_signal(push, signal, decay):
    """An input that changes moves the voltage that a neuron goes to: the same for all, or one for each."""
    for i in range(len(push)):
        push[i] += signal[i if len(signal) > 1 else 0] * (1.0 - decay)


@compiled_inside
def integrate(v, target, push, release, step, decay, reset):
    for i in range(len(v)):
        # v ← v_∞ + (v − v_∞) e^{−dt/τ_m} + Σ_τ gain_τ s_τ
        after = leak(v[i], target[i], decay) + push[i]
        push[i] = 0.0
        v[i] = after if step >= release[i] else reset


@compiled_inside
def fire(fired, v, release, low, step, threshold, reset, refractory_steps):
    count = places_between(v, threshold, np.inf, fired)
    for index in range(count):
        i = fired[index]
        v[i], release[i], fired[index] = reset, step + 1 + refractory_steps, low + i
    return count


@compiled_inside
def fire_at_random(fired, low, high, group, groups, neurons, drawn):
    stream, count = slice(groups.stream[group] + low, groups.stream[group] + high), 0
    draw(neurons.random[0, stream], neurons.random[1, stream], drawn)
    for i in range(high - low):
        if drawn[i] < groups.chance[group]:
            fired[count] = low + i
            count += 1
    return count


@compiled_inside
def fire_as_given(fired, low, high, step, group, groups, neurons):
    first, last, count = groups.given_first[group], groups.given_first[group + 1], 0
    at = first + np.searchsorted(neurons.given_steps[first:last], step)
    while at < last and neurons.given_steps[at] == step:
        if low <= neurons.given_neurons[at] < high:
            fired[count] = neurons.given_neurons[at]
            count += 1
        at += 1
    return count


# --- chance -----------------------------------------------------------------------------------------------------------


@compiled_inside
def count_events(events, drawn, table):
    """The smallest k with u < P(at most k): inverting the distribution, for all neurons at once."""
    events[:] = 0
    for k in range(0, len(table), 4):
        a, b, c, d = table[k], table[k + 1], table[k + 2], table[k + 3]
        for i in range(len(events)):
            u = drawn[i]
            events[i] += np.uint32(u >= a) + np.uint32(u >= b) + np.uint32(u >= c) + np.uint32(u >= d)


@compiled_inside
def draw(a, b, drawn):
    """32 random bits for each generator: xoroshiro64* of Blackman and Vigna."""
    for i in range(len(a)):
        x = a[i]
        y = b[i] ^ x
        drawn[i] = x * np.uint32(0x9E3779BB)
        a[i] = ((x << np.uint32(26)) | (x >> np.uint32(6))) ^ y ^ (y << np.uint32(9))
        b[i] = (y << np.uint32(13)) | (y >> np.uint32(19))


# --- what is made of the spikes ---------------------------------------------------------------------------------------


@compiled
def of_group(steps, neurons, first, size, dt):
    """Times (ms) and numbers, counted within a group, of the spikes of its neurons."""
    count = 0
    for index in range(len(neurons)):
        count += first <= neurons[index] < first + size
    times, own, place = np.empty(count), np.empty(count, np.int64), 0
    for index in range(len(neurons)):
        if first <= neurons[index] < first + size:
            times[place], own[place] = dt * (steps[index] + 1), neurons[index] - first
            place += 1
    return times, own
