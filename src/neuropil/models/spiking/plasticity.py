"""Spike-timing-dependent plasticity inside the kernel of a spiking network: every pair of spikes by two traces.

    x ← x e^{−dt/τ₊},   x ← x + 1 when a spike arrives           one for each source neuron
    y ← y e^{−dt/τ₋},   y ← y + 1 when the target fires          one for each target neuron
    w ← max(w − A₋ y, low)                                       when a spike arrives
    w ← min(w + A₊ x, high)                                      when the target fires

x is the sum of e^{−Δ/τ₊} over all spikes that have arrived, so that one number stands for all pairs that a spike makes.
Spikes of the same step are no pair: weights change before traces do."""

from typing import NamedTuple

import numpy as np

from neuropil.parts.compilation import compiled_inside
from neuropil.parts.threads.barrier import own_bounds, range_start

TINY = 1e-200
"""Below it a decaying number becomes zero; the smallest ones would make the processor slow."""


class Plastic(NamedTuple):
    """One entry for each connection with STDP, and below one for each of its synapses."""

    potentiation: np.ndarray
    depression: np.ndarray
    decay_plus: np.ndarray
    decay_minus: np.ndarray
    low: np.ndarray
    high: np.ndarray
    before_first: np.ndarray
    after_first: np.ndarray
    column_first: np.ndarray
    synapse_first: np.ndarray
    weights: np.ndarray
    before: np.ndarray
    """[member, source neuron]: traces of the spikes that arrived; each member keeps its own copy."""
    after: np.ndarray
    """Traces of the spikes of the targets."""
    columns: np.ndarray
    """[target neuron]: where the synapses that end there begin."""
    synapses: np.ndarray
    sources: np.ndarray


@compiled_inside
def fade(rule, connection, groups, wires, plastic, team):
    num_sources, num_targets = groups.size[wires.source[connection]], groups.size[wires.target[connection]]
    before = plastic.before[team.member, plastic.before_first[rule] : plastic.before_first[rule] + num_sources]
    # x ← x e^{−dt/τ₊},   y ← y e^{−dt/τ₋}
    for i in range(len(before)):
        before[i] = before[i] * plastic.decay_plus[rule] if before[i] > TINY else 0.0
    first = plastic.after_first[rule]
    low, high = own_bounds(num_targets, team)
    after = plastic.after[first + low : first + high]
    for i in range(len(after)):
        after[i] = after[i] * plastic.decay_minus[rule] if after[i] > TINY else 0.0


@compiled_inside
def depress(rule, fired, arriving, rows, targets, scale, plastic, members):
    """A spike arrives: it has the effect that its synapse had until now, then w ← w − A₋ y."""
    all_weights, after = plastic.weights[plastic.synapse_first[rule] :], plastic.after[plastic.after_first[rule] :]
    for index in range(len(fired)):
        row = fired[index] * members
        own, weights = targets[rows[row] : rows[row + 1]], all_weights[rows[row] : rows[row + 1]]
        for k in range(len(own)):
            arriving[own[k]] += scale * weights[k]
            weights[k] = max(weights[k] - plastic.depression[rule] * after[own[k]], plastic.low[rule])


@compiled_inside
def potentiate(rule, connection, step, groups, neurons, wires, plastic, team):
    """The targets that fired in this step: w ← w + A₊ x for each synapse that ends there, then y ← y + 1."""
    target, slot = wires.target[connection], step % len(neurons.recent)
    columns, first = plastic.columns[plastic.column_first[rule] :], plastic.synapse_first[rule]
    weights = plastic.weights[first:]
    before = plastic.before[team.member, plastic.before_first[rule] :]
    begin = groups.first[target] + range_start(groups.size[target], team.member, team)
    for index in range(begin, begin + neurons.counts[slot, target, team.member]):
        neuron = neurons.recent[slot, index]
        for k in range(first + columns[neuron], first + columns[neuron + 1]):
            synapse = plastic.synapses[k]
            grown = weights[synapse] + plastic.potentiation[rule] * before[plastic.sources[k]]
            weights[synapse] = min(grown, plastic.high[rule])
        plastic.after[plastic.after_first[rule] + neuron] += 1.0


@compiled_inside
def remember_arrivals(rule, source, slot, groups, neurons, plastic, team):
    """x ← x + 1, after the targets have learned: spikes that come together are no pair."""
    for member in range(team.members):
        begin = groups.first[source] + range_start(groups.size[source], member, team)
        for index in range(begin, begin + neurons.counts[slot, source, member]):
            plastic.before[team.member, plastic.before_first[rule] + neurons.recent[slot, index]] += 1.0
