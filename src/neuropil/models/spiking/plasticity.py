"""Spike-timing-dependent plasticity inside the kernel of a spiking network: every pair of spikes by two traces.

    x ← x e^{−dt/τ₊},   x ← x + 1 when a spike arrives                          one for each source neuron
    y ← y e^{−dt/τ₋},   y ← y + 1 when the target fires                         one for each target neuron
    w ← max(w − A₋ ((w − low)/(high − low))^{μ₋} y, low)                         when a spike arrives
    w ← min(w + A₊ ((high − w)/(high − low))^{μ₊} x, high)                       when the target fires

x is the sum of e^{−Δ/τ₊} over all spikes that have arrived, so that one number stands for all pairs that a spike makes.
Spikes of the same step are no pair: weights change before traces do.

A weight is brought up to date when a spike arrives at its synapse, which is when it is read: the spikes that its target
has fired since the one before are looked up then, in their order. So a step touches the synapses of the neurons that
fired, which lie side by side, and not those that end at them, which lie far apart, and a synapse is a target and a
weight and nothing else. Traces are held as they would be without decay since a moment of reference,

    x = X e^{−(t − t₀)/τ₊}                               so that decay is one factor for all

and the same factor dates a spike of the target."""

from typing import NamedTuple

import numpy as np

from neuropil.parts.compilation import compiled_inside
from neuropil.parts.threads.barrier import own_bounds, range_start

TINY = 1e-200
"""Below it a decaying number becomes zero; the smallest ones would make the processor slow."""
TIME_CONSTANTS = 400
"""After so many the moment of reference moves: e^400 is far from the largest number."""
RECORD, NEWEST, TRACE, NOW = 8, 3, 4, 5
"""What is known of a target is in a row of as many numbers as the processor fetches at once: the dates of its last
spikes, the newest first, one more of them than `NEWEST`; its trace; the date of the spike of this step, or 0."""
MOST_WAITING = 64
"""Spikes of a target before the weights of all synapses are brought up to date."""


NEVER = np.inf
"""The date of a spike that does not wait, and of an arrival before all spikes that do."""


class Plastic(NamedTuple):
    """One entry for each connection with STDP, and below one for each of its synapses or neurons."""

    potentiation: np.ndarray
    depression: np.ndarray
    decay_plus: np.ndarray
    decay_minus: np.ndarray
    low: np.ndarray
    high: np.ndarray
    per_span: np.ndarray
    """1/(high − low)"""
    mu_plus: np.ndarray
    mu_minus: np.ndarray
    lag: np.ndarray
    """Steps between a spike of a target and its effect on the synapse, counted from when spikes arrive."""
    period: np.ndarray
    """Steps between two moments of reference."""
    since: np.ndarray
    """[member, rule]: steps since the moment of reference."""
    factors: np.ndarray
    """[member, rule, 2]: e^{−(t − t₀)/τ₊} and e^{−(t − t₀)/τ₋}."""
    before_first: np.ndarray
    after_first: np.ndarray
    synapse_first: np.ndarray
    weights: np.ndarray
    before: np.ndarray
    """[member, source neuron]: X; each member keeps its own copy."""
    arrived: np.ndarray
    """[member, source neuron]: the date of the last spike that arrived; spikes of a target after it are waiting."""
    records: np.ndarray
    """[target neuron, RECORD]"""
    waiting: np.ndarray
    """[target neuron, place]: dates of spikes since all weights were up to date."""
    num_waiting: np.ndarray


@compiled_inside
def fade(rule, connection, groups, wires, plastic, team):
    """x ← x e^{−dt/τ₊},   y ← y e^{−dt/τ₋}"""
    factors = plastic.factors[team.member, rule]
    factors[0] *= plastic.decay_plus[rule]
    factors[1] *= plastic.decay_minus[rule]
    plastic.since[team.member, rule] += 1
    if plastic.since[team.member, rule] >= plastic.period[rule]:
        bring_up_to_date(rule, connection, groups, wires, plastic, team)
        refer_to_now(rule, connection, groups, wires, plastic, team)


@compiled_inside
def refer_to_now(rule, connection, groups, wires, plastic, team):
    num_sources = groups.size[wires.source[connection]]
    factors, first = plastic.factors[team.member, rule], plastic.before_first[rule]
    before = plastic.before[team.member, first : first + num_sources]
    for i in range(len(before)):
        x = before[i] * factors[0]
        before[i] = x if x > TINY else 0.0
    low, high = own_bounds(groups.size[wires.target[connection]], team)
    for j in range(plastic.after_first[rule] + low, plastic.after_first[rule] + high):
        y = plastic.records[j, TRACE] * factors[1]
        plastic.records[j, TRACE] = y if y > TINY else 0.0
    factors[0] = factors[1] = 1.0
    plastic.since[team.member, rule] = 0


@compiled_inside
def grown(weight, amount, high, per_span, mu):
    """w ← min(w + A₊ ((high − w)/(high − low))^{μ₊} x, high)"""
    if mu == 1.0:
        amount *= (high - weight) * per_span
    elif mu != 0.0:
        amount *= max((high - weight) * per_span, 0.0) ** mu
    return min(weight + amount, high)


@compiled_inside
def shrunk(weight, amount, low, per_span, mu):
    """w ← max(w − A₋ ((w − low)/(high − low))^{μ₋} y, low)"""
    if mu == 1.0:
        amount *= (weight - low) * per_span
    elif mu != 0.0:
        amount *= max((weight - low) * per_span, 0.0) ** mu
    return max(weight - amount, low)


@compiled_inside
def mark_fired(rule, connection, step, groups, neurons, wires, plastic, team):
    """At the targets that this member owns and whose spike reaches the synapse in this step; room is made for it before
    any spike arrives that takes it at once."""
    target, slot = wires.target[connection], (step - plastic.lag[rule]) % len(neurons.recent)
    begin = groups.first[target] + range_start(groups.size[target], team.member, team)
    for index in range(begin, begin + neurons.counts[slot, target, team.member]):
        neuron = plastic.after_first[rule] + neurons.recent[slot, index]
        if plastic.num_waiting[neuron] == MOST_WAITING:
            bring_up_to_date(rule, connection, groups, wires, plastic, team)
        plastic.records[neuron, NOW] = plastic.factors[team.member, rule, 0]


@compiled_inside
def learn_at_arrivals(rule, fired, arriving, rows, targets, scale, plastic, team):
    """A spike arrives: it has the effect that its synapse had until now, then w shrinks by what the target fired
    before, and grows if it fires now. The spike itself is remembered for later ones."""
    first, arrived = plastic.before_first[rule], plastic.arrived[team.member]
    before, weights = plastic.before[team.member], plastic.weights[plastic.synapse_first[rule] :]
    records = plastic.records[plastic.after_first[rule] :]
    low, high, per_span = plastic.low[rule], plastic.high[rule], plastic.per_span[rule]
    mu_plus, mu_minus = plastic.mu_plus[rule], plastic.mu_minus[rule]
    now_plus, now_minus = plastic.factors[team.member, rule]
    shrinking = plastic.depression[rule] * now_minus
    for index in range(len(fired)):
        row, source = fired[index] * team.members, first + fired[index]
        growing, since = plastic.potentiation[rule] * before[source], arrived[source]
        own, own_weights = targets[rows[row] : rows[row + 1]], weights[rows[row] : rows[row + 1]]
        for k in range(len(own)):
            weight = own_weights[k]
            if records[own[k], 0] < since:
                if records[own[k], NEWEST] < since:
                    weight = take_waiting(weight, rule, own[k], NEWEST, growing, since, plastic)
                for place in range(NEWEST - 1, -1, -1):
                    date = records[own[k], place]
                    weight = grown(weight, growing * date if date < since else 0.0, high, per_span, mu_plus)
            arriving[own[k]] += scale * weight
            weight = shrunk(weight, shrinking * records[own[k], TRACE], low, per_span, mu_minus)
            own_weights[k] = grown(weight, growing * records[own[k], NOW], high, per_span, mu_plus)
        before[source] += 1.0 / now_plus
        arrived[source] = now_plus


@compiled_inside
def take_waiting(weight, rule, target, newest, growing, since, plastic):
    """A weight after the spikes of its target that came after `since`, but for so many of the newest."""
    target += plastic.after_first[rule]
    end = plastic.num_waiting[target] - newest
    begin = end
    while begin > 0 and plastic.waiting[target, begin - 1] < since:
        begin -= 1
    for place in range(begin, end):
        amount = growing * plastic.waiting[target, place]
        weight = grown(weight, amount, plastic.high[rule], plastic.per_span[rule], plastic.mu_plus[rule])
    return weight


@compiled_inside
def remember_fired(rule, connection, step, groups, neurons, wires, plastic, team):
    """The spikes of the targets wait for the synapses that end there, and y ← y + 1."""
    target, slot = wires.target[connection], (step - plastic.lag[rule]) % len(neurons.recent)
    begin = groups.first[target] + range_start(groups.size[target], team.member, team)
    end, first = begin + neurons.counts[slot, target, team.member], plastic.after_first[rule]
    now_plus, now_minus = plastic.factors[team.member, rule]
    for index in range(begin, end):
        neuron = first + neurons.recent[slot, index]
        plastic.waiting[neuron, plastic.num_waiting[neuron]] = now_plus
        plastic.num_waiting[neuron] += 1
        for place in range(NEWEST, 0, -1):
            plastic.records[neuron, place] = plastic.records[neuron, place - 1]
        plastic.records[neuron, 0] = now_plus
        plastic.records[neuron, TRACE] += 1.0 / now_minus
        plastic.records[neuron, NOW] = 0.0


@compiled_inside
def bring_up_to_date(rule, connection, groups, wires, plastic, team):
    """All weights of this member take the spikes that wait for them."""
    num_sources, num_targets = groups.size[wires.source[connection]], groups.size[wires.target[connection]]
    rows = wires.rows[wires.row_first[connection] :]
    targets, weights = wires.targets[wires.target_first[connection] :], plastic.weights[plastic.synapse_first[rule] :]
    first = plastic.before_first[rule]
    for source in range(num_sources):
        growing = plastic.potentiation[rule] * plastic.before[team.member, first + source]
        since = plastic.arrived[team.member, first + source]
        for k in range(rows[source * team.members + team.member], rows[source * team.members + team.member + 1]):
            if plastic.records[plastic.after_first[rule] + targets[k], 0] < since:
                weights[k] = take_waiting(weights[k], rule, targets[k], 0, growing, since, plastic)
        plastic.arrived[team.member, first + source] = NEVER
    low, high = own_bounds(num_targets, team)
    for neuron in range(plastic.after_first[rule] + low, plastic.after_first[rule] + high):
        plastic.num_waiting[neuron] = 0
        plastic.records[neuron, : NEWEST + 1] = NEVER
