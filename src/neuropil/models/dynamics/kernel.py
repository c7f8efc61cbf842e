"""The step of a network of populations, compiled: encode, fire, decode, smooth, learn. A whole simulation is one call
of `run`.

J = α ⟨e, x⟩ / r + β          over all neurons at once, without a branch, and so is the leak
spikes                        only the few neurons that are released or cross the threshold are looked at one by one
y = Σ d_i over the spikes     the rows of those that fired
s ← y + (s − y) e^{−dt/τ}     one number for each that a connection carries, not for each of its synapses
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from neuropil.models.lif import leak
from neuropil.parts.compilation import compiled, compiled_in_place, compiled_inside
from neuropil.parts.lanes.places_between import places_between

FIRST_SPIKES, ROUNDING = 65536, 2.0**-54
NOT_REFRACTORY = -math.inf
MANY_COLUMNS = 8
"""As many decoded numbers are added a row at a time, fewer one number at a time, in a register."""


class Program(NamedTuple):
    """A network as flat arrays. `…_starts` have one more entry than populations; a column is one decoded number."""

    neuron_starts: np.ndarray
    input_starts: np.ndarray
    encoder_starts: np.ndarray
    encoders: np.ndarray
    """Of each population [dimension neuron], scaled by gain and radius."""
    biases: np.ndarray
    full_weights: bool
    """Whether the inputs of single neurons follow after those of populations."""
    spiking: np.ndarray
    tau_m: np.ndarray
    tau_ref: np.ndarray
    decay: np.ndarray
    """e^{−dt/τ_m}"""
    num_terms: np.ndarray
    """Terms of the series that are needed within a step: `num_terms`."""
    lag_decay: np.ndarray
    watched: np.ndarray
    column_starts: np.ndarray
    decoder_starts: np.ndarray
    decoders: np.ndarray
    """Of each population [neuron column]."""
    column_decay: np.ndarray
    column_start: np.ndarray
    column_target: np.ndarray
    recorded: np.ndarray
    learned_population: np.ndarray
    learned_column: np.ndarray
    learned_size: np.ndarray
    error_start: np.ndarray
    learning_rate: np.ndarray
    trace_decay: np.ndarray


class Activity(NamedTuple):
    """All that a step changes, in place: one number for each neuron unless said otherwise."""

    v: np.ndarray
    wait: np.ndarray
    """ms of the refractory period that are left, or `NOT_REFRACTORY`."""
    rates: np.ndarray
    """Of populations that do not spike."""
    traces: np.ndarray
    """[rule, neuron]"""
    columns: np.ndarray
    """What every column carries."""
    decoders: np.ndarray


def num_terms(ratio: float) -> int:
    """How far to follow the series of eˣ for −ratio ≤ x ≤ 0, and of artanh(x)/x for 0 ≤ x ≤ tanh(ratio/2), until what
    is left out is below the rounding of double precision; ratio = dt/τ_m is at most 1."""
    exponential = next(n for n in itertools.count(1) if ratio ** (n + 1) / math.factorial(n + 1) < ROUNDING)
    square = math.tanh(ratio / 2) ** 2
    return next(n for n in itertools.count(exponential) if square ** (n + 1) / (1 - square) / (2 * n + 3) < ROUNDING)


def at_rest(program: Program, voltages: np.ndarray) -> Activity:
    num_neurons, num_rules = len(program.biases), len(program.learning_rate)
    return Activity(
        v=voltages.copy(),
        wait=np.full(num_neurons, NOT_REFRACTORY),
        rates=np.zeros(num_neurons),
        traces=np.zeros((num_rules, num_neurons)),
        columns=program.column_start.copy(),
        decoders=program.decoders.copy(),
    )


class Scratch(NamedTuple):
    """What a step needs room for and no later one reads."""

    inputs: np.ndarray
    currents: np.ndarray
    arriving: np.ndarray
    fired: np.ndarray
    """Neurons of one population."""
    since: np.ndarray
    powers: np.ndarray


@compiled
def run(program, drive, now, first_time, dt):
    """The recorded columns in every step and the spikes of the watched populations, from `first_time` (ms) on."""
    num_neurons, num_values = len(program.biases), drive.shape[1]
    scratch = Scratch(
        np.empty(num_values + num_neurons if program.full_weights else num_values),
        np.empty(num_neurons),
        np.empty(len(program.column_decay)),
        np.empty(num_neurons, np.int64),
        np.empty(num_neurons),
        np.empty(num_neurons),
    )
    recorded = np.empty((len(drive), len(program.recorded)))
    room = max(FIRST_SPIKES, num_neurons)
    times, neurons, step, num_spikes = np.empty(room), np.empty(room, np.int64), 0, 0
    while step < len(drive):
        step, num_spikes = take_steps(
            step, program, drive, now, scratch, recorded, times, neurons, num_spikes, first_time, dt
        )
        if step < len(drive):
            times, neurons = twice(times), twice(neurons)
    return recorded, times[:num_spikes], neurons[:num_spikes]


@compiled_in_place
def take_steps(step, program, drive, now, scratch, recorded, times, neurons, num_spikes, first_time, dt):
    """Steps until the end, or until the spikes of another one might not fit. Gives the next step and the number of
    spikes."""
    while step < len(drive) and num_spikes + len(program.biases) <= len(times):
        gather(drive[step], now.columns, program.column_target, scratch.inputs)
        for place in range(len(program.recorded)):
            recorded[step, place] = now.columns[program.recorded[place]]
        for p in range(len(program.spiking)):
            count = advance(p, program, now, scratch, drive.shape[1], dt)
            if program.watched[p]:
                for place in range(count):
                    times[num_spikes + place] = first_time + (step + 1) * dt - scratch.since[place]
                    neurons[num_spikes + place] = program.neuron_starts[p] + scratch.fired[place]
                num_spikes += count
        for column in range(len(now.columns)):
            now.columns[column] = leak(now.columns[column], scratch.arriving[column], program.column_decay[column])
        step += 1
    return step, num_spikes


@compiled_in_place
def advance(p, program, now, scratch, num_values, dt):
    """One step of a population. Gives how many of its neurons fired."""
    low, high = program.neuron_starts[p], program.neuron_starts[p + 1]
    begin, end = program.decoder_starts[p], program.decoder_starts[p + 1]
    first_column, inputs = program.column_starts[p], scratch.inputs
    currents, columns = scratch.currents[low:high], scratch.arriving[first_column : program.column_starts[p + 1]]
    direct = inputs[num_values + low : num_values + high] if program.full_weights else inputs[:0]
    value, rates = inputs[program.input_starts[p] : program.input_starts[p + 1]], now.rates[low:high]
    encode(value, program.encoders[program.encoder_starts[p] :], program.biases[low:high], direct, currents)
    count = 0
    if program.spiking[p]:
        count = spike(p, now.v[low:high], currents, now.wait[low:high], program, scratch, dt)
        decode_spikes(scratch.fired, count, now.decoders[begin:end], 1000.0 / dt, columns)
    else:
        answer(rates, currents, program.tau_m[p], program.tau_ref[p], program.lag_decay[p])
        decode_rates(rates, now.decoders[begin:end], columns)
    for rule in range(len(program.learning_rate)):
        if program.learned_population[rule] == p:
            trace = now.traces[rule, low:high]
            follow(trace, rates, scratch.fired, count, 1000.0 / dt, program.trace_decay[rule])
            first = program.error_start[rule]
            error = inputs[first : first + program.learned_size[rule]]
            learned = now.decoders[begin + program.learned_column[rule] - first_column : end]
            # κ dt / N, with dt in seconds
            learn(learned, len(columns), trace, error, program.learning_rate[rule] * dt / 1000.0 / (high - low))
    return count


@compiled
def twice(values):
    longer = np.empty(2 * len(values), values.dtype)
    for place in range(len(values)):
        longer[place] = values[place]
    return longer


@compiled_inside
def gather(driven, state, targets, inputs):
    """All that arrives: from inputs in this step, from populations what they said until the end of the step before."""
    for place in range(len(driven)):
        inputs[place] = driven[place]
    for place in range(len(driven), len(inputs)):
        inputs[place] = 0.0
    for column in range(len(state)):
        if targets[column] >= 0:
            inputs[targets[column]] += state[column]


@compiled
def smoothed(values, before, decay):
    """What comes through a synapse in each step, [step, output], and what it carries in the end: what enters is felt in
    the next step, as everywhere."""
    carried, now = np.empty_like(values), before.copy()
    for step in range(len(values)):
        for output in range(len(now)):
            carried[step, output] = now[output]
            now[output] = leak(now[output], values[step, output], decay)
    return carried, now


@compiled_inside
def encode(value, encoders, biases, direct, currents):
    # J_i = α_i ⟨e_i, x⟩ / r + β_i, and what comes past the encoders
    first = value[0]
    for i in range(len(currents)):
        currents[i] = biases[i] + encoders[i] * first
    for i in range(len(direct)):
        currents[i] += direct[i]
    for dimension in range(1, len(value)):
        x, row = value[dimension], encoders[dimension * len(currents) : (dimension + 1) * len(currents)]
        for i in range(len(currents)):
            currents[i] += row[i] * x


@compiled_in_place
def spike(p, v, currents, wait, program, scratch, dt):
    """Voltages after a step, never below 0. Gives how many neurons fired, in `fired` with the time `since` (ms)."""
    fired, since, powers, tau_m = scratch.fired, scratch.since, scratch.powers, program.tau_m[p]
    released = places_between(wait, NOT_REFRACTORY, dt, fired)
    for place in range(released):
        since[place] = wait[fired[place]]
    for place in range(released):
        since[place] = (since[place] - dt) / tau_m
    for i in range(len(v)):
        later, left = leak(v[i], currents[i], program.decay[p]), wait[i] - dt
        v[i] = later if (later > 0.0) & (left < 0.0) else 0.0
        wait[i] = left if left > 0.0 else NOT_REFRACTORY
    # those whose refractory period ended were free for the end of the step only
    exponentials(since[:released], powers, program.num_terms[p])
    for place in range(released):
        i = fired[place]
        v[i] = max(leak(0.0, currents[i], powers[place]), 0.0)
    count = places_between(v, 1.0, np.inf, fired)
    for place in range(count):
        since[place], powers[place] = v[fired[place]], currents[fired[place]]
    for place in range(count):
        # from 1 to v in the time τ_m ln((J − 1)/(J − v)),   ln r = 2 artanh((r − 1)/(r + 1))
        since[place] = (since[place] - 1.0) / (2.0 * powers[place] - 1.0 - since[place])
    inverse_tangents(since[:count], powers, program.num_terms[p])
    for place in range(count):
        i = fired[place]
        since[place] *= 2.0 * tau_m * powers[place]
        v[i], wait[i] = 0.0, program.tau_ref[p] - since[place]
    return count


@compiled_inside
def exponentials(x, values, num_terms):
    """eˣ = 1 + x/1 (1 + x/2 (1 + …)), for all at once and two terms in a pass, which calls of exp would not be."""
    odd = num_terms % 2
    for place in range(len(x)):
        values[place] = 1.0 + x[place] * (odd / num_terms)
    for term in range(num_terms - odd, 0, -2):
        share, next_share = 1.0 / term, 1.0 / (term - 1)
        for place in range(len(x)):
            value = 1.0 + values[place] * (x[place] * share)
            values[place] = 1.0 + value * (x[place] * next_share)


@compiled_inside
def inverse_tangents(x, values, num_terms):
    """artanh(x)/x = 1 + x²/3 + x⁴/5 + …, for all at once; two terms in a pass."""
    even = 1 - num_terms % 2
    for place in range(len(x)):
        values[place] = even / (2 * num_terms + 1)
    for term in range(num_terms - even, 0, -2):
        share, next_share = 1.0 / (2 * term + 1), 1.0 / (2 * term - 1)
        for place in range(len(x)):
            square = x[place] * x[place]
            values[place] = next_share + (share + values[place] * square) * square


@compiled_inside
def decode_spikes(fired, count, decoders, height, columns):
    width = len(columns)
    for column in range(width):
        columns[column] = 0.0
    if width < MANY_COLUMNS:
        for column in range(width):
            total = 0.0
            for place in range(count):
                total += decoders[fired[place] * width + column]
            columns[column] = total
    else:
        for place in range(count):
            row = fired[place] * width
            for column in range(width):
                columns[column] += decoders[row + column]
    for column in range(width):
        columns[column] *= height


@compiled_inside
def answer(activity, currents, tau_m, tau_ref, lag_decay):
    for i in range(len(currents)):
        # rate(J) = 1 / (τ_ref + τ_m ln(1 + 1/(J − 1)))
        rate = 1000.0 / (tau_ref + tau_m * math.log1p(1.0 / (currents[i] - 1.0))) if currents[i] > 1.0 else 0.0
        activity[i] = leak(activity[i], rate, lag_decay)


@compiled_inside
def decode_rates(activity, decoders, columns):
    width = len(columns)
    for column in range(width):
        columns[column] = 0.0
    for i in range(len(activity)):
        if activity[i] != 0.0:
            for column in range(width):
                columns[column] += activity[i] * decoders[i * width + column]


@compiled_inside
def follow(trace, activity, fired, count, height, decay):
    """Smooth the activities: rates, or spikes of this height."""
    for i in range(len(trace)):
        trace[i] = leak(trace[i], activity[i], decay)
    for place in range(count):
        trace[fired[place]] += (1.0 - decay) * height


@compiled_inside
def learn(decoders, width, trace, error, rate):
    for output in range(len(error)):
        for i in range(len(trace)):
            # ΔD = −(κ dt / N) a ⊗ e
            decoders[i * width + output] -= rate * error[output] * trace[i]
