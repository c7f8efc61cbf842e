"""Synapses of a spiking network, sorted by their source neurons and then by their targets.

Each row (or, with a fixed fan-in, each column) has random numbers of its own, by SplitMix64 from the seed."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int64, UInt32

from neuropil.models.spiking.delivery import DENSE, SAME, SPARSE
from neuropil.models.spiking.kernel import doubled
from neuropil.parts.compilation import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio: what SplitMix64 adds for each number."""


@dataclass(frozen=True)
class Synapses:
    """Synapses of one connection. `DENSE` ones need no targets, because every neuron is one, `SAME` ones no weights."""

    kind: int
    rows: Int64[np.ndarray, " source_and_one"]
    """Where the synapses of each source neuron begin."""
    targets: UInt32[np.ndarray, " synapse"] | UInt32[np.ndarray, " none"]
    weights: Float[np.ndarray, " synapse"] | Float[np.ndarray, " none"]
    scale: float = 1.0
    """What all weights are multiplied with: the weight itself, where they are the same."""

    def __len__(self) -> int:
        return int(self.rows[-1])

    @property
    def sources(self) -> Int64[np.ndarray, " synapse"]:
        return np.repeat(np.arange(len(self.rows) - 1), np.diff(self.rows))

    def listed(self) -> "Synapses":
        """The same with a target and a weight for each."""
        width = len(self) // max(len(self.rows) - 1, 1)
        targets = np.tile(np.arange(width, dtype=np.uint32), len(self.rows) - 1) if self.kind == DENSE else self.targets
        weights = np.full(len(self), self.scale) if self.kind == SAME else self.weights * self.scale
        return Synapses(SPARSE, self.rows, targets, weights)


Indices: TypeAlias = Int64[np.ndarray, " synapse"]
NO_TARGETS, NO_WEIGHTS = np.empty(0, np.uint32), np.empty(0, np.float32)


def dense(weights: Float[np.ndarray, "source target"], scale: float = 1.0) -> Synapses:
    rows = np.arange(len(weights) + 1) * weights.shape[1]
    return Synapses(DENSE, rows, NO_TARGETS, np.ascontiguousarray(weights).reshape(-1), scale)


def paired(sources: Indices, targets: Indices, weight: float | np.ndarray, num_sources: int) -> Synapses:
    order = np.lexsort((targets, sources))
    rows = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=num_sources))])
    sorted_targets = targets[order].astype(np.uint32)
    if isinstance(weight, np.ndarray):
        return Synapses(SPARSE, rows, sorted_targets, weight[order])
    return same(rows, sorted_targets, weight)


def same(
    rows: Int64[np.ndarray, " source_and_one"], targets: UInt32[np.ndarray, " synapse"], weight: float
) -> Synapses:
    """One weight for all."""
    return Synapses(SAME, rows, targets, NO_WEIGHTS, weight)


def shared_rows(synapses: Synapses, num_targets: int, members: int) -> Int64[np.ndarray, " place"]:
    """[source, member]: where the synapses to each member's share of the targets begin; the last entry ends them."""
    limits = np.array([num_targets * member // members for member in range(members)])
    return split_rows(synapses.rows, synapses.targets, limits, synapses.kind == DENSE)


def new_generators(number: int, seed: int) -> np.ndarray:
    """[2, number] of 32 bits each: states of xoroshiro64*, none of them all zero."""
    states = hashes(number, np.uint64(seed))
    return np.stack([states & np.uint64(0xFFFFFFFF), (states >> np.uint64(32)) | np.uint64(1)]).astype(np.uint32)


# --- compiled ---------------------------------------------------------------------------------------------------------


@compiled
def hashed(x):
    """What SplitMix64 makes of a state."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def hashes(number, seed):
    made, state = np.empty(number, np.uint64), hashed(seed)
    for index in range(number):
        state += GOLDEN
        made[index] = hashed(state)
    return made


@compiled
def random_rows(num_sources, num_targets, probability, others, seed):
    """Rows and targets of each pair with this probability; with `others`, none of a neuron with itself. The gap to the
    next target is geometric, so that time goes with the synapses and not with the pairs."""
    rows, targets, count = np.zeros(num_sources + 1, np.int64), np.empty(1024, np.uint32), 0
    streams = hashes(num_sources, seed)
    missed = math.log1p(-probability) if probability < 1 else -math.inf
    for source in range(num_sources):
        state, target = streams[source], -1
        while probability > 0:
            state += GOLDEN
            u = (np.float64(hashed(state) >> np.uint64(11)) + 0.5) * 2.0**-53
            # P(gap ≥ n) = (1 − p)ⁿ
            gap = math.log(u) / missed
            if gap >= num_targets - target - 1:
                break
            target += 1 + int(gap)
            if others and target == source:
                continue
            if count == len(targets):
                targets = doubled(targets)
            targets[count] = target
            count += 1
        rows[source + 1] = count
    return rows, targets[:count].copy()


@compiled
def random_columns(num_sources, num_targets, fan_in, others, seed):
    """Rows and targets of as many different sources for each target neuron."""
    chosen, last_target = np.empty((num_targets, fan_in), np.uint32), np.full(num_sources, -1)
    rows, streams = np.zeros(num_sources + 1, np.int64), hashes(num_targets, seed)
    for target in range(num_targets):
        state, count = streams[target], 0
        if others:
            last_target[target] = target
        while count < fan_in:
            state += GOLDEN
            # a whole number below n from 32 random bits: the upper half of their product
            source = np.int64(((hashed(state) >> np.uint64(32)) * np.uint64(num_sources)) >> np.uint64(32))
            if last_target[source] != target:
                last_target[source] = target
                chosen[target, count] = source
                rows[source + 1] += 1
                count += 1
    rows = np.cumsum(rows)
    place, targets = rows[:-1].copy(), np.empty(num_targets * fan_in, np.uint32)
    for target in range(num_targets):
        for index in range(fan_in):
            source = chosen[target, index]
            targets[place[source]] = target
            place[source] += 1
    return rows, targets


@compiled
def split_rows(rows, targets, limits, is_dense):
    members = len(limits)
    split = np.empty((len(rows) - 1) * members + 1, np.int64)
    split[-1] = rows[-1]
    for source in range(len(rows) - 1):
        for member in range(members):
            if is_dense:
                at = limits[member]
            else:
                at = np.searchsorted(targets[rows[source] : rows[source + 1]], limits[member])
            split[source * members + member] = rows[source] + at
    return split
