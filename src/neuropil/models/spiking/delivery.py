"""How spikes of a network reach their targets, compiled: what `neuropil.models.spiking.kernel` does at the end of each
step.

A sum at a target is made by one member of the team, in the order of connections and of the neurons that fired.
"""

from neuropil.models.spiking.plasticity import fade, learn_at_arrivals, mark_fired, remember_fired
from neuropil.parts.compilation import compiled_in_place, compiled_inside
from neuropil.parts.threads.barrier import own_bounds, range_start

DENSE, SPARSE, SAME = range(3)
"""Connections with a weight for every pair, for some pairs, and with one weight for all."""


@compiled_in_place
def deliver(connection, step, groups, neurons, ports, wires, plastic, tally, team):
    """The spikes that come out of this connection now, at the neurons that this member owns."""
    source, port, rule = wires.source[connection], wires.port[connection], wires.plastic[connection]
    if rule >= 0:
        fade(rule, connection, groups, wires, plastic, team)
        mark_fired(rule, connection, step, groups, neurons, wires, plastic, team)
    size, then = groups.size[wires.target[connection]], step - wires.delay[connection]
    slot = then % len(neurons.recent)
    arriving = ports.arriving[ports.first[port] : ports.first[port] + size]
    rows = wires.rows[wires.row_first[connection] + team.member :]
    targets = wires.targets[wires.target_first[connection] :]
    low, high = own_bounds(size, team)
    own, same = slice(low, high), wires.kind[connection] == SAME
    counted = rule < 0 and same and many_arrive(connection, slot, groups, neurons, wires, team)
    due = then >= wires.since[connection]
    for member in range(team.members if due else 0):
        begin = groups.first[source] + range_start(groups.size[source], member, team)
        fired = neurons.recent[slot, begin : begin + neurons.counts[slot, source, member]]
        if rule >= 0:
            learn_at_arrivals(rule, fired, arriving, rows, targets, wires.scale[connection], plastic, team)
        elif len(fired) > 0:
            weights = wires.weights[wires.weight_first[connection] :]
            if counted:
                count(tally, fired, rows, targets, team.members)
            elif same:
                send_same(arriving, fired, rows, targets, wires.scale[connection], team.members)
            elif wires.kind[connection] == SPARSE:
                send_sparse(arriving, fired, rows, targets, weights, wires.scale[connection], team.members)
            else:
                send_dense(arriving[own], fired, rows, weights, wires.scale[connection], team.members)
    if counted:
        send_counted(arriving[own], tally[own], wires.scale[connection])
    if rule >= 0:
        remember_fired(rule, connection, step, groups, neurons, wires, plastic, team)


@compiled_in_place
def many_arrive(connection, slot, groups, neurons, wires, team):
    """A spike at every fourth target or more, so that it is worth while to count them first."""
    source = wires.source[connection]
    rows = wires.rows[wires.row_first[connection] :]
    num_synapses = rows[groups.size[source] * team.members] - rows[0]
    pairs = groups.size[source] * groups.size[wires.target[connection]]
    return 4 * neurons.counts[slot, source].sum() * num_synapses > pairs


@compiled_inside
def count(tally, fired, rows, targets, members):
    """Whole numbers take less room in the nearest cache than sums."""
    for index in range(len(fired)):
        row = fired[index] * members
        own = targets[rows[row] : rows[row + 1]]
        for k in range(len(own)):
            tally[own[k]] += 1


@compiled_inside
def send_counted(arriving, tally, scale):
    for k in range(len(arriving)):
        # Σ_i w/τ
        arriving[k] += scale * tally[k]
        tally[k] = 0


@compiled_inside
def send_same(arriving, fired, rows, targets, scale, members):
    for index in range(len(fired)):
        row = fired[index] * members
        own = targets[rows[row] : rows[row + 1]]
        for k in range(len(own)):
            arriving[own[k]] += scale


@compiled_inside
def send_sparse(arriving, fired, rows, targets, weights, scale, members):
    for index in range(len(fired)):
        row = fired[index] * members
        own, own_weights = targets[rows[row] : rows[row + 1]], weights[rows[row] : rows[row + 1]]
        # Σ_i w_ij/τ
        for k in range(len(own)):
            arriving[own[k]] += scale * own_weights[k]


@compiled_inside
def send_dense(arriving, fired, rows, weights, scale, members):
    """Four rows at a time, in the order in which they would come one by one; a scale of 1 costs no product."""
    four = len(fired) // 4 * 4
    for index in range(0, four, 4):
        a, b = weights[rows[fired[index] * members] :], weights[rows[fired[index + 1] * members] :]
        c, d = weights[rows[fired[index + 2] * members] :], weights[rows[fired[index + 3] * members] :]
        if scale == 1.0:
            for k in range(len(arriving)):
                arriving[k] = arriving[k] + a[k] + b[k] + c[k] + d[k]
        else:
            for k in range(len(arriving)):
                arriving[k] = arriving[k] + scale * a[k] + scale * b[k] + scale * c[k] + scale * d[k]
    for index in range(four, len(fired)):
        a = weights[rows[fired[index] * members] :]
        for k in range(len(arriving)):
            arriving[k] += scale * a[k]
