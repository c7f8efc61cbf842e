"""A spiking neuron for each class, whose synapses learn by pair-based STDP while a teacher makes the right one fire.

    t_on = t₀ + T (1 − u),  t_off = t₀ + T u      latency code: two cells for each input u ∈ [0, 1], each fires once
    t* = t₀ + T/2                                 when the teacher makes the neuron of the class fire, and no other
    Δw = A₊ e^{−(t* − t)/τ₊} for t < t*,    −A₋ e^{−(t − t*)/τ₋} for t > t*,    0 ≤ w ≤ 1
    v_k(t*) = Σ_{t < t*} w_k e^{−(t* − t)/τ_m}    the answer, without a teacher: the neuron with the highest voltage

A synapse knows the times of the spikes at its two ends and nothing else. `models/spiking` has the neurons and the rule:
each batch is one simulation, example after example. Times are in ms."""

import math
from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn

from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.network import STDP, NeuronGroup, Projection, SpikeSource, SpikingNetwork, SpikingSimulator
from neuropil.parts.losses import with_gradients
from neuropil.parts.objectives import Objective, token_metrics
from neuropil.parts.standardize import UnitRange
from neuropil.protocols import Batch, Phase

DT, FIRST, WINDOW = 1.0, 1.0, 20.0
"""A step, t₀ and T."""
TEACHER = FIRST + WINDOW / 2
TAU = 10.0
"""Of the membrane, and of both sides of STDP."""
INTERVAL = FIRST + WINDOW + 6 * TAU
"""From one example to the next: what is left of a trace by then is e⁻⁶."""


class SpikingReadout(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__()
        self.scale = UnitRange(shape)
        self.weight = nn.Parameter(torch.full((2 * math.prod(shape), classes), 0.5))
        # The sum of all weights does not reach it: in training the teacher alone makes a neuron fire.
        self.neuron = LIFConfig(tau_m=TAU, tau_ref=0.0, threshold=float(1 + len(self.weight)))

    def fit(self, x: Num[Tensor, "example *shape"]) -> Self:
        self.scale.fit(x)
        return self

    def spike_times(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch cell"]:
        """Of the ON cells, then of the OFF cells, on the grid."""
        u = self.scale(x).flatten(1).clamp(0, 1)
        # t_on = t₀ + T (1 − u),  t_off = t₀ + T u
        return DT * torch.round((FIRST + WINDOW * torch.cat([1 - u, u], 1)) / DT)

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch class"]:
        times = self.spike_times(x)
        # v_k(t*) = Σ_{t < t*} w_k e^{−(t* − t)/τ_m}
        return torch.where(times < TEACHER, torch.exp((times - TEACHER) / TAU), 0.0) @ self.weight

    def network(
        self, x: Num[Tensor, "batch *shape"], taught: Int64[Tensor, " batch"] | None, rule: STDP
    ) -> SpikingNetwork:
        """Cells, neurons and, if classes are taught, a teacher, for one example after the other."""
        times = self.spike_times(x).double()
        offsets = INTERVAL * torch.arange(len(times), dtype=torch.double)
        spikes = (times + offsets[:, None]).flatten().numpy(), np.tile(np.arange(times.shape[1]), len(times))
        classes = self.weight.shape[1]
        weight = self.weight.detach().clamp(rule.low, rule.high).double().numpy()
        groups = [SpikeSource("cells", times.shape[1], spikes=spikes), NeuronGroup("classes", classes, self.neuron)]
        connections = [Projection("cells", "classes", weight, stdp=rule)]
        if taught is not None:  # a spike makes its target fire in the step after it
            orders = (offsets + TEACHER - DT).numpy(), taught.numpy()
            groups.append(SpikeSource("teacher", classes, spikes=orders))
            connections.append(Projection("teacher", "classes", 3 * self.neuron.threshold * np.eye(classes)))
        return SpikingNetwork(groups, connections)


class TaughtSTDP(Objective[SpikingReadout]):
    """`rate` is A₊ = A₋, in units of the largest weight. Its changes are those of a simulation, and are made as they
    are: the learning rate of the run does not count. The loss is the share of examples that it answered wrongly."""

    phase = "STDP"

    def __init__(self, model: SpikingReadout, rate: float):
        super().__init__(model)
        self.rule = STDP(potentiation=rate, depression=rate, tau_plus=TAU, tau_minus=TAU)

    def phases(self) -> list[Phase]:
        return [Phase(self.phase, dict(self.model.named_parameters()), self.loss, optimizer="sgd", learning_rate=1.0)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        x, target = batch["input"], batch["target"].long()
        network = self.model.network(x, target, self.rule)
        recording = SpikingSimulator(network, dt=DT, threads=1).run(INTERVAL * len(x))
        weight = self.model.weight
        learned = torch.from_numpy(recording.synapses[0].weights).reshape(weight.shape).to(weight)
        with torch.no_grad():
            wrong = (self.model(x).argmax(-1) != target).float().mean()
        return with_gradients(wrong, [weight], [weight.detach() - learned])

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.model(batch["input"]), batch["target"])
