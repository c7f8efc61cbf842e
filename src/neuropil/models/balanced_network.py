"""Balanced network: excitation and inhibition that cancel, so that a neuron fires when chance lets it (Brunel 2000,
model A).

    τ dv_i/dt = −v_i + τ Σ_j J_ij Σ_k δ(t − t_j^k − D)   θ = 20 mV, v_reset = 10 mV, τ = 20 ms, τ_ref = 2 ms, D = 1.5 ms

Every neuron hears C_E = 1000 of 10,000 excitatory neurons with J = 0.1 mV, C_I = 250 of 2,500 inhibitory ones with −g
J, and from outside C_E Poisson processes of rate ν_ext with J. Two numbers decide what it does: g, how much stronger
inhibition is, and ν_ext in units of

    ν_thr = θ / (C_E J τ)                                      the rate from outside that just reaches the threshold

If all fire on their own, what a neuron hears is noise with a mean and a standard deviation that follow from the rate ν
that all share,

    μ = C_E J τ (ν_ext + ν (1 − g γ)),   σ² = C_E J² τ (ν_ext + ν (1 + g² γ))          γ = C_I / C_E
    1/ν = τ_ref + τ √π ∫ e^{u²} (1 + erf u) du                 from (v_reset − μ)/σ to (θ − μ)/σ

and ν is where both agree. Smaller networks here have stronger synapses, with the same C_E J.
"""

import math
from functools import cache

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.network import STDP, NeuronGroup, PoissonInput, Projection, SpikingNetwork

NEURON = LIFConfig(tau_m=20.0, tau_ref=2.0, rest=0.0, threshold=20.0, reset=10.0)
NODES, HALVINGS = 200, 60


class BalancedNetworkConfig(Config):
    g: float = option(5.0, "relative strength of inhibitory synapses", low=0)
    external: float = option(2.0, "external rate ν_ext in units of the threshold rate ν_thr", low=0)
    neurons: int = option(12_500, "neurons, 80 % excitatory", low=50)
    strength: float = option(100.0, "strength C_E J of all excitatory synapses of a neuron together (mV)", above=0)
    connectivity: float = option(0.1, "connection probability ε", low=0, high=1)
    delay: float = option(1.5, "synaptic delay D (ms)", low=0)

    @property
    def num_inhibitory(self) -> int:
        return self.neurons // 5

    @property
    def num_excitatory(self) -> int:
        return self.neurons - self.num_inhibitory

    @property
    def fan_in(self) -> tuple[int, int]:
        """C_E and C_I."""
        sizes = self.num_excitatory, self.num_inhibitory
        excitatory, inhibitory = (max(1, round(self.connectivity * size)) for size in sizes)
        return excitatory, inhibitory

    @property
    def jump(self) -> float:
        """J in mV."""
        return self.strength / self.fan_in[0]

    @property
    def external_rate(self) -> float:
        """C_E ν_ext in Hz: all that a neuron hears from outside."""
        # ν_ext = (ν_ext/ν_thr) θ / (C_E J τ)
        return 1000 * self.external * NEURON.threshold / (self.jump * NEURON.tau_m)


def balanced_network(config: BalancedNetworkConfig, stdp: STDP | None = None) -> SpikingNetwork:
    """With a rule, synapses between excitatory neurons are plastic."""
    sizes = {"excitatory": config.num_excitatory, "inhibitory": config.num_inhibitory}
    weights = {"excitatory": config.jump, "inhibitory": -config.g * config.jump}
    fan_in = dict(zip(sizes, config.fan_in, strict=True))
    groups = [NeuronGroup(name, size, NEURON) for name, size in sizes.items()]
    connections = [
        Projection(
            source,
            target,
            weight,
            fan_in=fan_in[source],
            delay=config.delay,
            stdp=stdp if source == target == "excitatory" else None,
        )
        for source, weight in weights.items()
        for target in sizes
    ]
    inputs = [PoissonInput(name, config.external_rate, config.jump) for name in sizes]
    return SpikingNetwork(groups, connections, inputs)


def stationary_rate(config: BalancedNetworkConfig) -> float:
    """Hz: the rate ν of all if each fires on its own, by halving an interval."""
    low, high = 0.0, 1 / NEURON.tau_ref
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if noisy_rate(*input_moments(middle, config)) > middle else (low, middle)
    return 1000 * (low + high) / 2


def input_moments(rate: float, config: BalancedNetworkConfig) -> tuple[float, float]:
    """μ and σ in mV, for a rate per ms."""
    gamma, outside = config.fan_in[1] / config.fan_in[0], config.external_rate / config.fan_in[0] / 1000
    mean = config.strength * NEURON.tau_m * (outside + rate * (1 - config.g * gamma))
    variance = config.strength * config.jump * NEURON.tau_m * (outside + rate * (1 + config.g**2 * gamma))
    return mean, math.sqrt(variance)


def noisy_rate(mean: float, deviation: float) -> float:
    """Spikes per ms of a neuron that hears white noise."""
    if deviation == 0:
        return 0.0
    low, high = (NEURON.reset - mean) / deviation, (NEURON.threshold - mean) / deviation
    nodes, weights = quadrature()
    u = (high - low) / 2 * nodes + (high + low) / 2
    # e^{u²} (1 + erf u) = erfcx(−u), which does not overflow where u is negative
    integral = (high - low) / 2 * float(torch.special.erfcx(-u) @ weights)
    return 1 / (NEURON.tau_ref + NEURON.tau_m * math.sqrt(math.pi) * integral)


@cache
def quadrature() -> tuple[Float64[Tensor, " point"], Float64[Tensor, " point"]]:
    """Where to look at a function from −1 to 1, and what each look counts for its integral (Gauss and Legendre)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return torch.from_numpy(nodes), torch.from_numpy(weights)


SIZES = {
    "SR": BalancedNetworkConfig(g=3.0, external=2.0),
    "SI, fast": BalancedNetworkConfig(g=6.0, external=4.0),
    "AI": BalancedNetworkConfig(g=5.0, external=2.0),
    "SI, slow": BalancedNetworkConfig(g=4.5, external=0.9),
}
"""The regimes of the paper's figure 8: synchronous or asynchronous, with regular or irregular firing."""
