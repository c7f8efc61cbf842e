"""The step of a network of populations, compiled: encode, fire, decode, smooth, learn. A whole simulation is one call
of `run`.

J = α ⟨e, x⟩ / r + β          over all neurons at once, without a branch, and so is the leak
spikes                        only the few neurons that are refractory or cross the threshold are looked at one by one
y = Σ d_i over the spikes     the rows of those that fired
s ← y + (s − y) e^{−dt/τ}     one number for each that a connection carries, not for each of its synapses
"""

import math
from typing import NamedTuple

import numpy as np

from neuropil.models.lif import leak
from neuropil.parts.compilation import compiled

FIRST_SPIKES = 65536


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
    """ms of the refractory period that are left."""
    held: np.ndarray
    """The neurons of each population that are refractory, from where it begins."""
    num_held: np.ndarray
    """How many, of each population."""
    rates: np.ndarray
    """Of populations that do not spike."""
    traces: np.ndarray
    """[rule, neuron]"""
    columns: np.ndarray
    """What every column carries."""
    decoders: np.ndarray


def at_rest(program: Program, voltages: np.ndarray) -> Activity:
    num_neurons, num_rules = len(program.biases), len(program.learning_rate)
    return Activity(
        v=voltages.copy(),
        wait=np.zeros(num_neurons),
        held=np.zeros(num_neurons, np.int64),
        num_held=np.zeros(len(program.spiking), np.int64),
        rates=np.zeros(num_neurons),
        traces=np.zeros((num_rules, num_neurons)),
        columns=program.column_start.copy(),
        decoders=program.decoders.copy(),
    )


@compiled
def run(program, drive, now, first_time, dt):
    """The recorded columns in every step and the spikes of the watched populations, from `first_time` (ms) on."""
    starts, column_starts, input_starts = program.neuron_starts, program.column_starts, program.input_starts
    num_neurons, num_columns, num_rules = len(program.biases), len(program.column_decay), len(program.learning_rate)
    decoders, v, wait, held, num_held = now.decoders, now.v, now.wait, now.held, now.num_held
    activity, traces, state = now.rates, now.traces, now.columns
    currents, arriving = np.empty(num_neurons), np.empty(num_columns)
    fired, since = np.empty(num_neurons, np.int64), np.empty(num_neurons)
    num_values = drive.shape[1]
    inputs = np.empty(num_values + num_neurons if program.full_weights else num_values)
    recorded = np.empty((len(drive), len(program.recorded)))
    times, neurons, num_spikes = np.empty(FIRST_SPIKES), np.empty(FIRST_SPIKES, np.int64), 0
    for step in range(len(drive)):
        gather(drive[step], state, program.column_target, inputs)
        for place in range(len(program.recorded)):
            recorded[step, place] = state[program.recorded[place]]
        for p in range(len(program.spiking)):
            low, high, begin, end = starts[p], starts[p + 1], program.decoder_starts[p], program.decoder_starts[p + 1]
            own, columns = currents[low:high], arriving[column_starts[p] : column_starts[p + 1]]
            direct = inputs[num_values + low : num_values + high] if program.full_weights else inputs[:0]
            value = inputs[input_starts[p] : input_starts[p + 1]]
            encode(value, program.encoders[program.encoder_starts[p] :], program.biases[low:high], direct, own)
            count = 0
            if program.spiking[p]:
                tau_m, tau_ref, refractory = program.tau_m[p], program.tau_ref[p], (wait[low:high], held[low:high])
                count, num_held[p] = spike(v[low:high], own, refractory, num_held[p], dt, tau_m, tau_ref, fired, since)
                decode_spikes(fired, count, decoders[begin:end], 1000.0 / dt, columns)
            else:
                answer(activity[low:high], own, program.tau_m[p], program.tau_ref[p], program.lag_decay[p])
                decode_rates(activity[low:high], decoders[begin:end], columns)
            if program.watched[p] and count > 0:
                while num_spikes + count > len(times):
                    times, neurons = twice(times), twice(neurons)
                for place in range(count):
                    times[num_spikes + place] = first_time + (step + 1) * dt - since[place]
                    neurons[num_spikes + place] = low + fired[place]
                num_spikes += count
            for rule in range(num_rules):
                if program.learned_population[rule] == p:
                    trace = traces[rule, low:high]
                    follow(trace, activity[low:high], fired, count, 1000.0 / dt, program.trace_decay[rule])
                    first = program.error_start[rule]
                    error = inputs[first : first + program.learned_size[rule]]
                    learned = decoders[begin + program.learned_column[rule] - column_starts[p] : end]
                    # κ dt / N, with dt in seconds
                    learn(learned, len(columns), trace, error, program.learning_rate[rule] * dt / 1000.0 / (high - low))
        for column in range(num_columns):
            state[column] = leak(state[column], arriving[column], program.column_decay[column])
    return recorded, times[:num_spikes], neurons[:num_spikes]


@compiled
def twice(values):
    longer = np.empty(2 * len(values), values.dtype)
    for place in range(len(values)):
        longer[place] = values[place]
    return longer


@compiled
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


@compiled
def spike(v, currents, refractory, num_held, dt, tau_m, tau_ref, fired, since):
    """Voltages after a step, never below 0. Gives how many neurons fired, in `fired` with the time `since` (ms), and
    how many are refractory, in `held` for another `wait` ms. Both lists are short, and all else is without a branch."""
    wait, held = refractory
    decay = math.exp(-dt / tau_m)
    for i in range(len(v)):
        later = leak(v[i], currents[i], decay)
        v[i] = later if later > 0.0 else 0.0
    still = 0
    for place in range(num_held):
        i = held[place]
        wait[i] -= dt
        if wait[i] >= 0.0:
            v[i] = 0.0
            held[still] = i
            still += 1
        else:  # it was free for the end of the step only
            v[i] = max(leak(0.0, currents[i], math.exp(wait[i] / tau_m)), 0.0)
    count = 0
    for i in range(len(v)):
        fired[count] = i
        count += v[i] > 1.0
    for place in range(count):
        i = fired[place]
        # from 1 to v in the time τ_m ln((J − 1)/(J − v))
        since[place] = tau_m * math.log((currents[i] - 1.0) / (currents[i] - v[i]))
        v[i], wait[i], held[still + place] = 0.0, tau_ref - since[place], i
    return count, still + count


@compiled
def decode_spikes(fired, count, decoders, height, columns):
    width = len(columns)
    for column in range(width):
        columns[column] = 0.0
    for place in range(count):
        row = fired[place] * width
        for column in range(width):
            columns[column] += decoders[row + column]
    for column in range(width):
        columns[column] *= height


@compiled
def answer(activity, currents, tau_m, tau_ref, lag_decay):
    for i in range(len(currents)):
        # rate(J) = 1 / (τ_ref + τ_m ln(1 + 1/(J − 1)))
        rate = 1000.0 / (tau_ref + tau_m * math.log1p(1.0 / (currents[i] - 1.0))) if currents[i] > 1.0 else 0.0
        activity[i] = leak(activity[i], rate, lag_decay)


@compiled
def decode_rates(activity, decoders, columns):
    width = len(columns)
    for column in range(width):
        columns[column] = 0.0
    for i in range(len(activity)):
        if activity[i] != 0.0:
            for column in range(width):
                columns[column] += activity[i] * decoders[i * width + column]


@compiled
def follow(trace, activity, fired, count, height, decay):
    """Smooth the activities: rates, or spikes of this height."""
    for i in range(len(trace)):
        trace[i] = leak(trace[i], activity[i], decay)
    for place in range(count):
        trace[fired[place]] += (1.0 - decay) * height


@compiled
def learn(decoders, width, trace, error, rate):
    for output in range(len(error)):
        for i in range(len(trace)):
            # ΔD = −(κ dt / N) a ⊗ e
            decoders[i * width + output] -= rate * error[output] * trace[i]
