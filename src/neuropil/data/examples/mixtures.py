"""Made data whose truth is known: points of the plane around equally probable modes, to count which a model finds.

    x = c_k + σ ε,    k uniform,  ε ~ N(0, I)

A sample is good if it lies within 3 σ of a mode, as 98.9 % of the data do.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

NEAR = 3.0
"""In units of σ."""
LEAST_SHARE = 0.2
"""Of the samples that a mode should have: with fewer good ones it does not count as found."""


@dataclass(frozen=True)
class ModeCoverage:
    counts: Int64[Tensor, " mode"]
    """Good samples at each mode."""
    samples: int

    @property
    def found(self) -> int:
        return int((self.counts >= LEAST_SHARE * self.samples / len(self.counts)).sum())

    @property
    def good_share(self) -> float:
        return self.counts.sum().item() / self.samples


@dataclass(frozen=True)
class GaussianMixture:
    centres: Float[Tensor, "mode 2"]
    sigma: float

    def draw(self, count: int, generator: torch.Generator) -> Float[Tensor, "count 2"]:
        modes = torch.randint(len(self.centres), (count,), generator=generator)
        return self.centres[modes] + self.sigma * torch.randn(count, 2, generator=generator)

    def coverage(self, samples: Float[Tensor, "sample 2"]) -> ModeCoverage:
        nearest = torch.cdist(samples, self.centres).min(1)
        good = nearest.indices[nearest.values < NEAR * self.sigma]
        return ModeCoverage(good.bincount(minlength=len(self.centres)), len(samples))


def ring(modes: int = 8, sigma: float = 0.02) -> GaussianMixture:
    """Modes on the unit circle."""
    angles = 2 * math.pi * torch.arange(modes) / modes
    return GaussianMixture(torch.stack([angles.cos(), angles.sin()], 1), sigma)


def grid(side: int = 5, sigma: float = 0.05) -> GaussianMixture:
    """Modes on a square lattice around the origin, two apart."""
    along = 2.0 * torch.arange(side) - (side - 1)
    return GaussianMixture(torch.cartesian_prod(along, along), sigma)
