"""Annealed importance sampling: the partition function of an RBM by a walk from a machine whose own is known.

    f_β(v) = e^{(1 − β) b_0 vᵀ + β b vᵀ} Π_j (1 + e^{β (v W + c)_j})      from β = 0, independent units, to β = 1
    ln Z_0 = Σ_i ln(1 + e^{b_0i}) + m ln 2
    ln w   = Σ_k ln f_{β_k}(v_k) − ln f_{β_{k−1}}(v_k)                    v_k from a Gibbs step at β_{k−1}
    Z ≈ Z_0 · mean of w over independent walks

The mean of w is right whatever the number of steps (Neal 2001; Salakhutdinov and Murray 2008); few steps make w vary
much from walk to walk, which the standard error shows. Of a machine with Gaussian units, e^{−‖v − b‖² / 2σ²} stays.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.rbm import RBM
from neuropil.parts.binary_units.bernoulli import bernoulli


class PartitionEstimate(NamedTuple):
    """ln Z with its standard error, from ln(w Z_0) of every walk."""

    log_partition: float
    standard_error: float
    log_weights: Float[Tensor, " walk"]


@torch.no_grad()
def estimate_log_partition(
    model: RBM,
    *,
    walks: int = 100,
    steps: int = 1000,
    base_bias: Float[Tensor, " visible"] | None = None,
    generator: torch.Generator | None = None,
) -> PartitionEstimate:
    """`base_bias` is b_0: the closer its units come to the data, the less has to be annealed; without it, the model's
    own visible biases."""
    if walks < 2 or steps < 1:
        rule = "annealed importance sampling needs at least 2 walks of at least 1 step"
        raise InputError(rule, got=f"walks={walks} and steps={steps}")
    walk = _Walk(model, model.visible_bias if base_bias is None else base_bias.to(model.visible_bias))
    v = walk.begin(walks, generator)
    log_weights = torch.full((walks,), walk.log_partition, dtype=torch.double)
    for step in range(steps):
        before, after = step / steps, (step + 1) / steps
        inputs = walk.hidden_input(v)
        log_weights += (walk.log_density(v, inputs, after) - walk.log_density(v, inputs, before)).double().cpu()
        v = walk.gibbs_step(inputs, after, generator)
    # ln of the mean, and the standard error of the mean as a share of it
    log_partition = log_weights.logsumexp(0) - math.log(walks)
    shares = (log_weights - log_partition).exp()
    return PartitionEstimate(log_partition.item(), shares.std().item() / math.sqrt(walks), log_weights)


class _Walk:
    """The machines between the first and the last."""

    def __init__(self, model: RBM, base_bias: Float[Tensor, " visible"]):
        self.model, self.base_bias = model, model.visible_bias if model.gaussian else base_bias

    @property
    def log_partition(self) -> float:
        """ln Z_0."""
        hidden = self.model.config.hidden_size * math.log(2)
        if self.model.gaussian:
            return hidden + 0.5 * len(self.base_bias) * math.log(2 * math.pi * self.model.variance)
        return hidden + F.softplus(self.base_bias.double()).sum().item()

    def begin(self, walks: int, generator: torch.Generator | None) -> Float[Tensor, "walk visible"]:
        mean = self.base_bias if self.model.gaussian else torch.sigmoid(self.base_bias)
        return self.model.sample_around(mean.repeat(walks, 1), generator=generator)

    def hidden_input(self, v: Float[Tensor, "walk visible"]) -> Float[Tensor, "walk hidden"]:
        return -self.model.hidden_gap(v)

    def log_density(self, v: Tensor, inputs: Tensor, beta: float) -> Float[Tensor, " walk"]:
        # ln f_β(v) = (1 − β) b_0 vᵀ + β b vᵀ + Σ_j ln(1 + e^{β (v W + c)_j})
        if self.model.gaussian:
            return F.softplus(beta * inputs).sum(-1)
        return v @ self._bias(beta) + F.softplus(beta * inputs).sum(-1)

    def gibbs_step(self, inputs: Tensor, beta: float, generator: torch.Generator | None) -> Tensor:
        h = bernoulli(torch.sigmoid(beta * inputs), generator)
        v = torch.addmm(self._bias(beta), h, self.model.weight.mT, alpha=beta)
        return self.model.sample_around(v if self.model.gaussian else torch.sigmoid(v), generator=generator)

    def _bias(self, beta: float) -> Float[Tensor, " visible"]:
        return torch.lerp(self.base_bias, self.model.visible_bias, beta)
