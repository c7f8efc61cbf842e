"""A population of neurons whose decoders learn classes by PES, the prescribed error sensitivity rule.

    a_i(x) = rate(α_i ⟨e_i, x⟩ / r + β_i)        encoding: fixed and random, as in `models/population.py`
    y = Σ_i a_i d_i                              decoding: one number for each class
    Δd_i = −(κ/N) a_i (y − t)                    the delta rule, N neurons        (MacNeil and Eliasmith 2011)

`models/dynamics` simulates the same rule in time, with spikes; here every example is shown for as long as it takes, and
a learning rate is κ times that time in seconds. Rates are in Hz."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.models.lif import rate
from neuropil.models.population import NEURON, Population
from neuropil.parts.losses import squared_error, with_gradients
from neuropil.parts.objectives import Objective, token_metrics
from neuropil.parts.standardize import Standardize
from neuropil.protocols import Batch

RADIUS = 3.0
"""Standard deviations of a standardised input along an encoder: what a tuning curve covers."""


class PopulationClassifier(nn.Module):
    encoders: Tensor
    biases: Tensor

    def __init__(self, shape: tuple[int, ...], classes: int, neurons: int, seed: int = 0):
        super().__init__()
        population = Population(neurons, math.prod(shape), radius=RADIUS, seed=seed)
        self.standardize = Standardize(shape)
        self.register_buffer("encoders", torch.from_numpy(population.scaled_encoders).float())
        self.register_buffer("biases", torch.from_numpy(population.biases).float())
        self.decoders = nn.Parameter(torch.zeros(neurons, classes))

    def rates(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch neuron"]:
        # a = rate(α ⟨e, x⟩ / r + β)
        return rate(self.standardize(x).flatten(1) @ self.encoders + self.biases, NEURON)

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch class"]:
        return self.rates(x) @ self.decoders


class PrescribedErrorSensitivity(Objective[PopulationClassifier]):
    """The loss is ½ ‖y − t‖², with t one for the class and zero for all others."""

    phase = "prescribed error sensitivity"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        with torch.no_grad():
            a = self.model.rates(batch["input"])
            y = a @ self.model.decoders
            target = F.one_hot(batch["target"].long(), y.shape[1]).to(y)
            # Δd_i = −(κ/N) a_i (y − t), the mean over the batch
            gradient = a.mT @ (y - target) / (a.shape[1] * len(a))
        return with_gradients(squared_error(y, target).mean(), self.model.parameters(), [gradient])

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.model(batch["input"]), batch["target"])
