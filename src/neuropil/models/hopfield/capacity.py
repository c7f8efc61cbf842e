"""What fits into a Hopfield network: overlaps, capacity against load, and spurious states.

    m = x · ξ / N                                     overlap of a state x with a pattern ξ
    α = M / N                                         load: random patterns for each unit
    m = erf(y),   α = ½ (erf(y) / y − 2 e^{−y²} / √π)²   what theory has for Hebb's rule and many units

Up to the largest α of these, α_c = 0.138, there is a fixed point close to every pattern, with an overlap that falls to
m_c = 0.967, and above it there is none: a network that is started at a pattern runs away from it, to m ≈ 0.35 (Amit,
Gutfreund and Sompolinsky 1985). As in their simulations networks are started at their patterns and settle
asynchronously. With a finite number of units some patterns are lost before α_c and some are kept beyond, so that the
capacity is read where the mean overlap falls below m_c.

Besides its patterns a network settles at their negatives, which without a bias have the same energy, and at spurious
states: mixtures of an odd number of patterns, and states that are like none of them."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.models.hopfield.rules import Patterns, RuleName
from neuropil.randomness import seeded

CRITICAL_LOAD, CRITICAL_OVERLAP, CRITICAL_Y = 0.1379, 0.967, 1.5133
"""α_c, m_c, and y there."""
FURTHEST_Y = 6.0
"""Where no overlap can be told from 1."""
ALIKE = 0.9
"""Overlap from which on a state counts as a pattern or as a mixture: at high loads a few signs of both are wrong."""


def overlap(x: Float[Tensor, "*batch unit"], pattern: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch"]:
    return (x * pattern).mean(-1)


def random_patterns(count: int, units: int, generator: torch.Generator | None = None) -> Patterns:
    return 2 * torch.randint(0, 2, (count, units), generator=generator).float() - 1


def noisy(patterns: Patterns, probability: float, generator: torch.Generator | None = None) -> Patterns:
    """Each sign is flipped with this probability."""
    return torch.where(torch.rand(patterns.shape, generator=generator) < probability, -patterns, patterns)


def partial(patterns: Patterns, known: Bool[Tensor, " unit"]) -> Patterns:
    """0 where a unit is not known."""
    return torch.where(known, patterns, 0.0)


# --- capacity ---------------------------------------------------------------------------------------------------------


class CapacityPoint(NamedTuple):
    units: int
    load: float
    mean_overlap: float
    retrieved: float
    """Share of the patterns that are still there, if not to the last sign."""


def load_in_theory(y: float) -> float:
    # α = ½ (erf(y) / y − 2 e^{−y²} / √π)²
    return 0.5 * (math.erf(y) / y - 2 * math.exp(-y * y) / math.sqrt(math.pi)) ** 2


def overlap_in_theory(load: float) -> float | None:
    """m of many units with Hebb's rule; None above the critical load."""
    if load > load_in_theory(CRITICAL_Y):
        return None
    low, high = CRITICAL_Y, FURTHEST_Y
    for _ in range(60):  # α falls with y
        middle = (low + high) / 2
        low, high = (middle, high) if load_in_theory(middle) > load else (low, middle)
    return math.erf(low)


def retrieval_overlaps(
    units: int, num_patterns: int, *, rule: RuleName = "hebb", generator: torch.Generator | None = None
) -> Float[Tensor, " pattern"]:
    """Of random patterns with the states in which a network settles that is started at them."""
    patterns = random_patterns(num_patterns, units, generator)
    network = HopfieldNetwork(HopfieldNetworkConfig(units=units, rule=rule)).fit(patterns)
    return overlap(network.recall(patterns, generator=generator).states, patterns)


def capacity_curve(
    units: int, loads: Sequence[float], *, rule: RuleName = "hebb", networks: int = 1, seed: int = 0
) -> list[CapacityPoint]:
    """Retrieval against load, over so many networks at each point."""
    found: list[CapacityPoint] = []
    for load in loads:
        count = max(1, round(load * units))
        keys = [("capacity", units, count, network) for network in range(networks)]
        each = [retrieval_overlaps(units, count, rule=rule, generator=seeded(seed, *key)) for key in keys]
        overlaps = torch.cat(each).double()
        retrieved = (overlaps > ALIKE).double().mean().item()
        found.append(CapacityPoint(units, count / units, overlaps.mean().item(), retrieved))
    return found


def capacity(curve: Sequence[CapacityPoint]) -> float | None:
    """The load at which the mean overlap falls below m_c for the first time; None if it does not."""
    for before, after in pairwise(curve):
        if before.mean_overlap >= CRITICAL_OVERLAP > after.mean_overlap:
            share = (before.mean_overlap - CRITICAL_OVERLAP) / (before.mean_overlap - after.mean_overlap)
            return before.load + share * (after.load - before.load)
    return None


# --- spurious states --------------------------------------------------------------------------------------------------


class SettledStates(NamedTuple):
    """Of so many random starts, how many settled at what, and in how many different spurious states."""

    patterns: int
    negatives: int
    mixtures: int
    others: int
    distinct_spurious: int


def count_settled_states(
    network: HopfieldNetwork, patterns: Patterns, *, starts: int = 1000, generator: torch.Generator | None = None
) -> SettledStates:
    begin = random_patterns(starts, patterns.shape[1], generator)
    states = network.recall(begin, generator=generator).states.cpu()
    overlaps = states @ patterns.mT / patterns.shape[1]
    kept, reversed_ = (overlaps > ALIKE).any(1), (overlaps < -ALIKE).any(1)
    mixed = overlap(states, mixtures_of_three(overlaps, patterns)) > ALIKE
    spurious = ~(kept | reversed_)
    counts = [int(group.sum()) for group in (kept, reversed_ & ~kept, spurious & mixed, spurious & ~mixed)]
    return SettledStates(*counts, distinct_spurious=len(states[spurious].unique(dim=0)))


def mixtures_of_three(overlaps: Float[Tensor, "state pattern"], patterns: Patterns) -> Float[Tensor, "state unit"]:
    """sgn(±ξ¹ ± ξ² ± ξ³) of the three patterns that each state is most like."""
    nearest = overlaps.abs().topk(min(3, len(patterns)), dim=1).indices
    signs = torch.sign(overlaps.gather(1, nearest))
    return torch.einsum("sk,sku->su", signs, patterns[nearest]).sign()
