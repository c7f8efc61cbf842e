"""Spiking classifier: layers of leaky integrate-and-fire neurons, trained by surrogate gradients.

    v_k = v_∞ + (v_{k−1} − v_∞) λ         v_∞ = v_rest + I,  λ = e^{−dt/τ_m};  but v_k = v_reset in a refractory step
    s_k = 1 if v_k > θ, else 0
    v_k ← v_reset where s_k = 1           and in the next round(τ_ref/dt) steps, which are refractory
    v_k ← v_k + W s'_k + b elsewhere      s' are the spikes of the layer below: one through the weight w raises v by w
    I = W x + b                           in the first layer, without s', for inputs as constant currents; 0 elsewhere
    logits = b + (1/K) Σ_k u_k            u_k = λ u_{k−1} + W s'_k: leaky readout neurons that never spike

The neuron is that of `models/lif.py` on the grid, and the network one of `models/spiking/network.py` with delta
synapses; b comes from a cell that fires at every step. `models/spiking/layer.py` has the surrogate gradient of
threshold and reset. No state outlives a call: every input meets neurons at rest. Times are in ms.
"""

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple, Self, TypeAlias

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.lif import LIF, LIFConfig, constants
from neuropil.models.spiking.layer import LayerActivity, SpikingLayerConfig, above, fire, fire_sum, in_steps
from neuropil.models.spiking.poisson_spikes import poisson_spikes
from neuropil.models.spiking.spike_linear import SpikeLinear
from neuropil.parts.activations import SURROGATE_SLOPE
from neuropil.parts.parameters import ParameterRow, linear_row
from neuropil.parts.standardize import Standardize, range_end
from neuropil.randomness import seeded
from neuropil.ranges import Range

CodingName = Literal["current", "poisson", "latency"]
ReadoutName = Literal["membrane", "spikes"]


class SpikingClassifierConfig(Config):
    hidden_sizes: tuple[int, ...] = option((128, 128), "spiking neurons of each hidden layer", low=1)
    neuron: LIFConfig = LIFConfig()
    dt: float = option(2.0, "time step (ms)")
    steps: int = option(25, "time steps of each input", low=1)
    slope: float = option(SURROGATE_SLOPE, "slope α of the surrogate gradient (arctan)", low=0.01)
    coding: CodingName = option("current", "input coding: constant current, Poisson spikes, or spike latency")
    readout: ReadoutName = option("membrane", "readout: mean membrane voltage without spikes, or spike count")
    dropout: float = option(0.1, "dropout probability of hidden neurons", low=0, high=0.95, tune=Range(0, 0.5))
    shape: tuple[int, ...] = from_data((1, 8, 8), "axes of one input: features, or channels, height, width")
    classes: int = from_data(10, "number of classes")

    def validate(self) -> None:
        if not self.hidden_sizes:
            rule = "a spiking classifier must have a hidden layer, for it is there that neurons spike"
            raise InputError(rule, got="none")
        LIF(self.neuron, "grid").require_dt(self.dt)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of the input and of the hidden layers."""
        return (math.prod(self.shape), *self.hidden_sizes)


class ClassifierActivity(NamedTuple):
    entering: Float[Tensor, "*time batch input"]
    """Currents, or spikes."""
    hidden: tuple[LayerActivity, ...]
    output: LayerActivity
    """It spikes only where spikes are what is read."""
    logits: Float[Tensor, "time batch class"]
    """The answers if reading ended after each step."""


class SpikingClassifier(nn.Module):
    def __init__(self, config: SpikingClassifierConfig):
        super().__init__()
        self.config = config
        self.firing = SpikingLayerConfig(constants(config.neuron, config.dt), config.steps, config.slope)
        self.encode = CODINGS[config.coding](config.shape, config.steps)
        gains = [self.encode.gain, *[SPIKE_GAIN] * (len(config.hidden_sizes) - 1)]
        kinds = [nn.Linear if config.coding == "current" else SpikeLinear, *[SpikeLinear] * (len(gains) - 1)]
        layers = zip(kinds, pairwise(config.sizes), gains, strict=True)
        self.hidden = nn.ModuleList(dense(kind, n, m, gain) for kind, (n, m), gain in layers)
        last, gain = (nn.Linear, 1.0) if config.readout == "membrane" else (SpikeLinear, SPIKE_GAIN)
        self.output = dense(last, config.sizes[-1], config.classes, gain)

    cannot_compile = "its neurons spike step by step in a kernel of their own, which torch.compile leaves as it is"

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch class"]:
        s = self.encode(x)  # batch input, a current; or time batch input, spikes
        if self.config.readout == "spikes":
            for linear in self.hidden:
                s = self.silence(fire(linear(s), self.firing))  # time batch unit
            return fire_sum(self.output(s), self.firing, torch.ones(self.config.steps))
        for linear in self.hidden[:-1]:
            s = self.silence(fire(linear(s), self.firing))  # time batch unit
        s = fire_sum(self.hidden[-1](s), self.firing, self.shares())  # batch unit
        return self.output(self.silence(s))

    def silence(self, s: Float[Tensor, "*time batch unit"]) -> Float[Tensor, "*time batch unit"]:
        """A neuron that is dropped out is silent at every step."""
        if not (self.training and self.config.dropout):
            return s
        return s * F.dropout(s.new_ones(s.shape[-2:]), self.config.dropout)

    def shares(self) -> Float[Tensor, " step"]:
        """What leaks can be added up before it is weighted, as all of it is linear: (1/K) Σ_k u_k = W Σ_j a_j s_j."""
        decay, steps = self.firing.neuron.decay, self.config.steps
        # a_j = (1/K) Σ_{k≥j} λ^{k−j}
        return (1 - decay ** torch.arange(steps, 0, -1, dtype=torch.double)) / (1 - decay) / steps

    @torch.no_grad()
    def activity(self, x: Num[Tensor, "batch *shape"]) -> ClassifierActivity:
        """All that happens inside, step by step, as in evaluation."""
        was_training = self.training
        s = entering = self.eval().encode(x)
        self.train(was_training)
        layers: list[LayerActivity] = []
        for linear in self.hidden:
            layers.append(in_steps(linear(s), self.firing))
            s = layers[-1].spikes
        if self.config.readout == "spikes":
            output = in_steps(self.output(s), self.firing)
            return ClassifierActivity(entering, tuple(layers), output, output.spikes.cumsum(0))
        output = leaking(F.linear(s, self.output.weight), self.firing.neuron.decay)
        count = torch.arange(1, len(s) + 1, device=s.device).view(-1, 1, 1)
        return ClassifierActivity(entering, tuple(layers), output, self.output.bias + output.voltages.cumsum(0) / count)

    def parameter_table(self) -> list[ParameterRow]:
        rows = [linear_row(f"hidden.{i}", n, m) for i, (n, m) in enumerate(pairwise(self.config.sizes))]
        return [*rows, linear_row("output", self.config.sizes[-1], self.config.classes)]


def leaking(kicks: Float[Tensor, "time batch unit"], decay: float) -> LayerActivity:
    """Neurons that never spike: u_k = λ u_{k−1} + W s'_k."""
    u, voltages = torch.zeros_like(kicks[0]), []
    for kick in kicks.unbind(0):
        u = decay * u + kick
        voltages.append(u)
    return LayerActivity(torch.zeros_like(kicks), torch.stack(voltages))


SPIKE_GAIN = 4.0
"""Initial weights have a variance of gain/n. With this one, rare spikes make the next layer fire too."""


def dense(kind: type[nn.Linear], n: int, m: int, gain: float) -> nn.Linear:
    layer = kind(n, m)
    nn.init.normal_(layer.weight, std=math.sqrt(gain / n))
    nn.init.zeros_(layer.bias)
    return layer


# --- how an input enters ----------------------------------------------------------------------------------------------


class CurrentCoding(nn.Module):
    """Standardised numbers, each of which is a current that flows at every step."""

    gain: ClassVar = 4.0

    def __init__(self, shape: tuple[int, ...], steps: int):
        super().__init__()
        self.standardize = Standardize(shape)

    def fit(self, x: Num[Tensor, "example *shape"]) -> Self:
        self.standardize.fit(x)
        return self

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch input"]:
        return self.standardize(x).flatten(1)


class SpikeCoding(nn.Module, ABC):
    """Spikes, by the intensity of each number: from 0 for the smallest that was seen to 1 for the largest."""

    low: Tensor
    high: Tensor

    def __init__(self, shape: tuple[int, ...], steps: int):
        super().__init__()
        self.shape, self.steps = shape, steps
        statistics = (shape[0], *(1 for _ in shape[1:]))
        self.register_buffer("low", torch.zeros(statistics))
        self.register_buffer("high", torch.ones(statistics))

    @torch.no_grad()
    def fit(self, x: Num[Tensor, "example *shape"]) -> Self:
        """The range per feature of tables, per channel of pictures."""
        axes = (0, *range(2, x.ndim))
        low, high = (extreme(axes).reshape(self.low.shape) for extreme in (x.amin, x.amax))
        self.low.copy_(low)
        self.high.copy_(range_end(self.low, high))
        return self

    def intensities(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch input"]:
        if x.shape[1:] != self.shape:
            expected = ", ".join(map(str, ("batch", *self.shape)))
            got = f"{list(x.shape)}"
            raise InputError(f"inputs must have the shape [{expected}] that the model was made for", got=got)
        return ((x.to(self.low.dtype) - self.low) / (self.high - self.low)).clamp(0, 1).flatten(1)

    @abstractmethod
    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "time batch input"]: ...


class PoissonCoding(SpikeCoding):
    """A spike at each step with the intensity as its probability, and as its gradient. Evaluation draws the same random
    numbers for every input, so that an answer depends on nothing else; training draws new ones."""

    gain: ClassVar = 1.0
    dice: Tensor

    def __init__(self, shape: tuple[int, ...], steps: int):
        super().__init__(shape, steps)
        self.register_buffer("dice", torch.rand(steps, 1, math.prod(shape), generator=seeded("poisson")))

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "time batch input"]:
        p = self.intensities(x)
        spikes = poisson_spikes(p, self.steps) if self.training else (p > self.dice).to(p.dtype)
        return spikes + (p - p.detach()) if p.requires_grad else spikes


class LatencyCoding(SpikeCoding):
    """One spike for each number that is not the smallest: of the largest at the first step, of smaller ones later."""

    gain: ClassVar = 8.0

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "time batch input"]:
        limits = torch.arange(self.steps - 1, -1, -1, dtype=self.low.dtype, device=self.low.device) / self.steps
        # What is above limit k has fired by step k, and what was not yet above limit k − 1 fires at it.
        fired = above(self.intensities(x), limits.view(-1, 1, 1))
        return torch.cat([fired[:1], fired.diff(dim=0)])


Coding: TypeAlias = CurrentCoding | PoissonCoding | LatencyCoding
CODINGS: dict[CodingName, type[Coding]] = {"current": CurrentCoding, "poisson": PoissonCoding, "latency": LatencyCoding}


SIZES = {
    "small": SpikingClassifierConfig(hidden_sizes=(64,), dropout=0.0),
    "base": SpikingClassifierConfig(),
    "poisson": SpikingClassifierConfig(hidden_sizes=(64,), coding="poisson"),
    "latency": SpikingClassifierConfig(hidden_sizes=(64,), coding="latency", readout="spikes"),
    "large": SpikingClassifierConfig(hidden_sizes=(1024, 1024)),
}
