"""How much fits into a Hopfield network, beside what theory says."""

import math

import pytest
import torch

from neuropil.models.hopfield.capacity import (
    CRITICAL_LOAD,
    CRITICAL_OVERLAP,
    CapacityPoint,
    capacity,
    capacity_curve,
    count_settled_states,
    noisy,
    overlap,
    overlap_in_theory,
    random_patterns,
)
from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig


def mean_field(load: float) -> float:
    """m, by small steps towards a solution of the equations of Amit, Gutfreund and Sompolinsky at zero temperature:

    m = erf(m / √(2αr)),   r = 1 / (1 − C)²,   C = √(2 / παr) e^{−m² / 2αr}
    """
    m, r = 1.0, 1.0
    for _ in range(20_000):
        c = math.sqrt(2 / (math.pi * load * r)) * math.exp(-(m**2) / (2 * load * r))
        m, r = m + 0.1 * (math.erf(m / math.sqrt(2 * load * r)) - m), r + 0.1 * (1 / (1 - c) ** 2 - r)
    return m


def test_theory_is_the_solution_of_its_mean_field_equations():
    for load in (0.05, 0.1, 0.137):
        assert overlap_in_theory(load) == pytest.approx(mean_field(load), abs=1e-6)
    assert mean_field(CRITICAL_LOAD - 1e-3) > CRITICAL_OVERLAP
    assert mean_field(CRITICAL_LOAD + 1e-3) < 0.01
    assert overlap_in_theory(CRITICAL_LOAD + 1e-3) is None
    assert overlap_in_theory(CRITICAL_LOAD) == pytest.approx(CRITICAL_OVERLAP, abs=2e-3)


def test_overlaps_below_the_critical_load_are_those_of_theory():
    for point in capacity_curve(500, [0.06, 0.1, 0.12], networks=10):
        assert point.mean_overlap == pytest.approx(overlap_in_theory(point.load), abs=0.01)


def test_capacity_falls_at_the_theoretical_load():
    curve = capacity_curve(500, [0.1, 0.12, 0.125, 0.13, 0.135, 0.14, 0.145, 0.15, 0.2], networks=10)
    assert capacity(curve) == pytest.approx(CRITICAL_LOAD, rel=0.1)
    assert curve[0].retrieved > 0.99
    assert curve[-1].retrieved < 0.5


@pytest.mark.slow
def test_capacity_of_two_thousand_units_is_within_five_percent_of_theory():
    curve = capacity_curve(2000, [0.12, 0.125, 0.13, 0.135, 0.14, 0.145], networks=5)
    assert capacity(curve) == pytest.approx(CRITICAL_LOAD, rel=0.05)


def test_a_capacity_lies_between_points_of_its_curve_or_beyond_it():
    curve = [CapacityPoint(100, load, m, 1.0) for load, m in ((0.1, 0.987), (0.12, 0.977), (0.14, 0.957), (0.16, 0.3))]
    assert capacity(curve) == pytest.approx(0.13)
    assert capacity(curve[:2]) is None


def test_noise_flips_as_many_signs_as_it_says():
    generator = torch.Generator().manual_seed(0)
    patterns = random_patterns(100, 1000, generator)
    assert set(patterns.unique().tolist()) == {-1.0, 1.0}
    assert overlap(noisy(patterns, 0.2, generator), patterns).mean().item() == pytest.approx(0.6, abs=0.01)


def test_random_starts_end_at_patterns_at_their_negatives_and_at_spurious_states():
    generator = torch.Generator().manual_seed(0)
    patterns = random_patterns(3, 200, generator)
    network = HopfieldNetwork(HopfieldNetworkConfig(units=200)).fit(patterns)
    few = count_settled_states(network, patterns, starts=500, generator=generator)
    assert sum(few[:4]) == 500
    assert few.patterns > 100
    assert few.negatives > 100
    # Three patterns have the mixtures ±ξ¹ ± ξ² ± ξ³, eight of them, and no other minimum (Amit et al. 1985).
    assert few.mixtures > 10
    assert few.others == 0
    assert few.distinct_spurious <= 8
    crowd = random_patterns(25, 200, generator)
    many = count_settled_states(network.fit(crowd), crowd, starts=500, generator=generator)
    assert many.others > many.patterns + many.negatives
    assert many.distinct_spurious > 100
