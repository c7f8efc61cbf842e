"""A Hopfield network that remembers inputs together with their classes, by Hebb's rule.

    v = [x, t]                       x_i = +1 where an input is above its mean, else −1; t_k = +1 for the class, else −1
    ΔW = vᵀv − I                     Hebb's rule, the mean over the examples of a batch (see `models/hopfield/rules.py`)
    E(v) = −½ v W vᵀ                 answers: the class that completes x at the lowest energy,
    −E([x, t]) = x W_xt tᵀ + ½ t W_tt tᵀ + ½ x W_xx xᵀ        of which the last term is the same for all classes

W keeps no single example, for there are far more of them than 0.138 of the units; it keeps what those of a class have
in common. Its scale changes no answer, and so neither does the learning rate."""

import math
from collections.abc import Mapping
from typing import Self

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn

from neuropil.models.hopfield.network import signs
from neuropil.models.hopfield.rules import learning_direction
from neuropil.parts.binary_units.energy_gaps import pairwise_energy
from neuropil.parts.losses import with_gradients
from neuropil.parts.objectives import Objective, token_metrics
from neuropil.parts.standardize import Standardize
from neuropil.protocols import Batch


class LabelledHopfield(nn.Module):
    """The three blocks of W, which is symmetric, are parameters of their own: W_xx, W_xt and W_tt."""

    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__()
        units = math.prod(shape)
        self.mean = Standardize((units,))
        self.inputs = nn.Parameter(torch.zeros(units, units))
        self.between = nn.Parameter(torch.zeros(units, classes))
        self.labels = nn.Parameter(torch.zeros(classes, classes))

    def fit(self, x: Num[Tensor, "example *shape"]) -> Self:
        """Take the mean of each input from the examples."""
        self.mean.fit(x.flatten(1))
        return self

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch unit"]:
        return signs(self.mean(x.flatten(1)))

    def codes(self) -> Float[Tensor, "class class"]:
        """t of each class."""
        return 2 * torch.eye(len(self.labels), device=self.labels.device) - 1

    def patterns(self, x: Num[Tensor, "batch *shape"], target: Int64[Tensor, " batch"]) -> Float[Tensor, "batch unit"]:
        return torch.cat([self.encode(x), self.codes()[target]], 1)

    @property
    def weight(self) -> Float[Tensor, "unit unit"]:
        upper = torch.cat([self.inputs, self.between], 1)
        return torch.cat([upper, torch.cat([self.between.mT, self.labels], 1)])

    def energy(self, v: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch"]:
        return pairwise_energy(v, self.weight, v.new_zeros(v.shape[-1]))

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch class"]:
        """−E of the input with each class, without what is the same for all classes."""
        codes = self.codes()
        # x W_xt tᵀ + ½ t W_tt tᵀ
        return self.encode(x) @ self.between @ codes.mT + 0.5 * ((codes @ self.labels) * codes).sum(-1)


class HebbianLearning(Objective[LabelledHopfield]):
    """The loss is the mean energy of the examples, which Hebb's rule descends."""

    phase = "Hebb"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        with torch.no_grad():
            v = self.model.patterns(batch["input"], batch["target"].long())
            energy, n = self.model.energy(v).mean(), len(self.model.inputs)
            # ΔW = vᵀv − I
            change = learning_direction(v)
        blocks = [change[:n, :n], change[:n, n:], change[n:, n:]]
        return with_gradients(energy, self.model.parameters(), [-block for block in blocks])

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.model(batch["input"]), batch["target"])
