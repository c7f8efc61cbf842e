"""Ancestral sampling of a predictive coding network: each layer is drawn around what the layer above predicts of it.

    m_l, Σ_l        mean and covariance of the errors x^l − μ^l that are left when training examples have settled
    x^l ~ N(μ^l + m_l, Σ_l)                             for l = L − 1 … 1, from a target x^L that is held
    x⁰ = μ⁰                                             the mean of the input: noise of its own would only cover it

The energy takes the spread ν of the errors of a layer as one given number. How large they are, and which occur
together, shows in what a trained network leaves unexplained: to Σ learned variances would come too (Friston 2005;
Bogacz 2017). Drawn with ν in place of Σ, samples forget their class on the way down.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Num
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.predictive_coding.connection import PredictiveConnection
from neuropil.models.predictive_coding.network import ANSWERING, PredictiveCoding


class LayerNoise(NamedTuple):
    """N(m, Σ) of the errors of one layer, with Σ = R Rᵀ."""

    mean: Float[Tensor, " unit"]
    root: Float[Tensor, "unit unit"]

    @classmethod
    def of(cls, errors: Float[Tensor, "example unit"]) -> "LayerNoise":
        values, vectors = torch.linalg.eigh(torch.atleast_2d(errors.double().mT.cov()))
        # Σ = V diag(λ) Vᵀ, so that R = V diag(√λ)
        return cls(errors.mean(0), (vectors * values.clamp(min=0).sqrt()).to(errors))

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "count unit"]:
        noise = torch.randn(count, len(self.mean), generator=generator).to(self.mean)
        return self.mean + noise @ self.root.mT


@torch.no_grad()
def fit_noise(
    model: PredictiveCoding, x: Num[Tensor, "example *shape"], target: Num[Tensor, "example *output"]
) -> list[LayerNoise]:
    """Of each hidden layer, the one below the target first. Input and target are held, as in learning."""
    require_down(model)
    states = cast(list[Tensor], model(x, target, steps=ANSWERING))
    return [LayerNoise.of(states[c.target] - c(model.read(c.source, states[c.source]))) for c in _falling(model)[:-1]]


@torch.no_grad()
def ancestral_samples(
    model: PredictiveCoding,
    target: Float[Tensor, "batch output"],
    noise: Sequence[LayerNoise],
    generator: torch.Generator,
) -> Float[Tensor, "batch *shape"]:
    """Inputs for targets that are given as the state x^L."""
    require_down(model)
    x, (*hidden, last) = target, _falling(model)
    for c, layer in zip(hidden, noise, strict=True):
        x = c(model.read(c.source, x)) + layer.draw(len(x), generator)
    return model.decode(last(model.read(last.source, x)))


def require_down(model: PredictiveCoding) -> None:
    if not model.down:
        rule, fix = "predictive coding makes examples by predictions that go down", "train it with direction='both'"
        raise InputError(rule, got=f"direction={model.config.direction!r}", fix=fix)


def _falling(model: PredictiveCoding) -> list[PredictiveConnection]:
    return cast(list[PredictiveConnection], list(model.down))
