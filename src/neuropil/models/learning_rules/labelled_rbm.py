"""A restricted Boltzmann machine of inputs and their classes, which learns by contrastive divergence.

    v = [x, t]                      x as probabilities of ink, t one for the class and zero for all others
    F(v) = −b vᵀ − Σ_j ln(1 + e^{c_j + (v W)_j})
    p(class k | x) = softmax_k −F([x, t_k])            exact, as classes are few      (Larochelle and Bengio 2008)

`models/rbm.py` has the machine and its learning rule: units are active together more often at data than after a step of
Gibbs sampling, and each weight changes by the difference. Nothing tells it that the class is what will be asked for."""

import math
from collections.abc import Mapping
from typing import Self

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.models.rbm import LEAST_SHARE, RBM, ContrastiveDivergence, RBMConfig
from neuropil.parts.objectives import Objective, token_metrics
from neuropil.parts.standardize import UnitRange
from neuropil.protocols import Batch


class LabelledRBM(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int, hidden_size: int):
        super().__init__()
        self.inputs, self.classes = math.prod(shape), classes
        self.scale = UnitRange(shape)
        config = RBMConfig(hidden_size=hidden_size, chains=0, steps=1, shape=(self.inputs + classes,))
        self.rbm = RBM(config)
        self.rbm.scale.get_buffer("high").fill_(1.0)  # what it is given is scaled already

    @torch.no_grad()
    def fit(self, x: Num[Tensor, "example *shape"], target: Int64[Tensor, " example"]) -> Self:
        """Take the scale from the examples, and the visible biases of the best machine without weights."""
        self.scale.fit(x)
        # b = ln(p / (1 − p))
        self.rbm.visible_bias.copy_(self.joint(x, target).mean(0).clamp(LEAST_SHARE, 1 - LEAST_SHARE).logit())
        return self

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch input"]:
        return self.scale(x).flatten(1).clamp(0, 1)

    def joint(self, x: Num[Tensor, "batch *shape"], target: Int64[Tensor, " batch"]) -> Float[Tensor, "batch visible"]:
        x = self.encode(x)
        return torch.cat([x, F.one_hot(target, self.classes).to(x)], 1)

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch class"]:
        """−F of the input with each class, without b xᵀ, which is the same for all."""
        of_inputs, of_classes = self.rbm.weight.split([self.inputs, self.classes])
        received = self.encode(x) @ of_inputs + self.rbm.hidden_bias  # batch hidden
        # b_k + Σ_j ln(1 + e^{c_j + (x W)_j + W_kj})
        return self.rbm.visible_bias[self.inputs :] + F.softplus(received[:, None] + of_classes).sum(-1)


class JointContrastiveDivergence(Objective[LabelledRBM]):
    """CD-1 of inputs and classes together."""

    phase = "contrastive divergence"

    def __init__(self, model: LabelledRBM):
        super().__init__(model)
        self.divergence = ContrastiveDivergence(model.rbm)

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self.divergence.loss({"input": self.model.joint(batch["input"], batch["target"].long())})

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.model(batch["input"]), batch["target"])
