"""Brunel's network: its theory against the paper's, and its simulation against the theory."""

import math

import pytest
import torch
from scipy import integrate, special

from neuropil.models.balanced_network import (
    NEURON,
    SIZES,
    BalancedNetworkConfig,
    balanced_network,
    input_moments,
    noisy_rate,
    stationary_rate,
)
from neuropil.models.lif import rate
from neuropil.models.spiking.network import simulate


@pytest.mark.parametrize(("regime", "hz"), [("SI, fast", 55.8), ("AI", 38.0), ("SI, slow", 6.5)])
def test_the_theory_gives_the_rates_of_the_papers_table(regime: str, hz: float):
    assert stationary_rate(SIZES[regime]) == pytest.approx(hz, abs=0.06)


@pytest.mark.parametrize(("mean", "deviation"), [(15.0, 3.0), (19.0, 1.0), (25.0, 5.0), (0.0, 8.0)])
def test_the_integral_is_that_of_scipy(mean: float, deviation: float):
    low, high = (NEURON.reset - mean) / deviation, (NEURON.threshold - mean) / deviation
    integral, _ = integrate.quad(lambda u: math.exp(u * u) * special.erfc(-u), low, high)
    assert noisy_rate(mean, deviation) == pytest.approx(1 / (2.0 + 20.0 * math.sqrt(math.pi) * integral), rel=1e-6)


def test_without_noise_the_rate_is_that_of_a_constant_input():
    constant = rate(torch.tensor([30.0]), NEURON).item() / 1000
    assert noisy_rate(30.0, 0.05) == pytest.approx(constant, rel=1e-3)
    assert noisy_rate(0.0, 0.0) == 0.0


def test_the_paper_s_network_has_the_paper_s_numbers():
    config = SIZES["AI"]
    assert (config.num_excitatory, config.num_inhibitory, config.fan_in, config.jump) == (
        10_000,
        2_500,
        (1_000, 250),
        0.1,
    )
    assert config.external_rate == pytest.approx(2 * 1000 * 10.0)  # ν_thr = 10 Hz
    network = balanced_network(config)
    assert [(each.source, each.target, each.weight, each.fan_in, each.delay) for each in network.connections] == [
        ("excitatory", "excitatory", 0.1, 1_000, 1.5),
        ("excitatory", "inhibitory", 0.1, 1_000, 1.5),
        ("inhibitory", "excitatory", -0.5, 250, 1.5),
        ("inhibitory", "inhibitory", -0.5, 250, 1.5),
    ]


def test_a_neuron_hears_what_the_formula_says():
    mean, deviation = input_moments(0.0, BalancedNetworkConfig(external=1.0))
    assert mean == pytest.approx(NEURON.threshold)  # which is what ν_thr means
    assert deviation == pytest.approx(math.sqrt(0.1 * 20.0))


@pytest.mark.slow
@pytest.mark.parametrize("regime", ["AI", "SI, fast", "SI, slow"])
def test_the_simulated_rate_is_the_published_one(regime: str):
    published = {"AI": 37.7, "SI, fast": 60.7, "SI, slow": 5.5}[regime]
    recording = simulate(balanced_network(SIZES[regime]), 1000.0)
    assert recording.rate("excitatory") == pytest.approx(published, rel=0.1)
