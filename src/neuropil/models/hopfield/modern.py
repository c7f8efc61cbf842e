"""Modern Hopfield network: a memory for continuous patterns that is read in one step, and whose update is attention.

    E(x) = −lse_β(x Xᵀ) + ½ x xᵀ + ln M / β + ½ max_s ‖x⁽ˢ⁾‖²         lse_β(z) = ln Σ_s e^{β z_s} / β
    x ← softmax(β x Xᵀ) X

X are the stored patterns, M rows of N numbers; no update raises E (Ramsauer et al. 2020). The more patterns differ, and
the larger the inverse temperature β, the closer one step comes to the nearest of them: the number of patterns that fit
grows exponentially with N (Demircigil et al. 2017), where a binary network of pairwise weights has room for 0.138 N.
With a small β it answers with a mean of several patterns.

As a layer of a larger network it selects from patterns that it has learned, or from those that come with its input."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.hopfield.capacity import noisy, random_patterns
from neuropil.parts.attention import Hopfield, attend
from neuropil.parts.parameters import Model
from neuropil.randomness import seeded

Stored: TypeAlias = Float[Tensor, "*batch pattern width"]


class ModernHopfieldConfig(Config):
    beta: float = option(1.0, "inverse temperature β", above=0)
    steps: int = option(1, "updates of a state", low=1)
    patterns: int = from_data(16, "number of stored patterns")
    width: int = from_data(64, "numbers in a pattern")


class ModernHopfield(Model):
    """The stored patterns are parameters: `fit` sets them, and gradients may change them."""

    def __init__(self, config: ModernHopfieldConfig):
        super().__init__()
        self.config = config
        self.patterns = nn.Parameter(torch.randn(config.patterns, config.width) / math.sqrt(config.width))

    def fit(self, patterns: Float[Tensor, "..."]) -> Self:
        """Store these patterns, [pattern width], in place of those before."""
        if patterns.ndim != 2 or 0 in patterns.shape:
            raise InputError(
                "ModernHopfield.fit needs patterns of the shape [pattern, width]", got=f"{list(patterns.shape)}"
            )
        self.config = replace(self.config, patterns=len(patterns), width=patterns.shape[1])
        self.patterns = nn.Parameter(patterns.detach().to(self.patterns, copy=True))
        return self

    def forward(
        self, x: Float[Tensor, "*batch query width"], stored: Stored | None = None
    ) -> Float[Tensor, "*batch query width"]:
        """What is recalled, from the network's own patterns or from those of each example."""
        stored = self.patterns.expand(*x.shape[:-2], -1, -1) if stored is None else stored
        for _ in range(self.config.steps):
            # x ← softmax(β x Xᵀ) X
            x = attend(x, stored, stored, score=Hopfield(self.config.beta))
        return x

    def energy(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch"]:
        beta, X = self.config.beta, self.patterns
        # E(x) = −lse_β(x Xᵀ) + ½ x xᵀ + ln M / β + ½ max ‖x⁽ˢ⁾‖²
        lse = (beta * x @ X.mT).logsumexp(-1) / beta
        constant = math.log(len(X)) / beta + 0.5 * X.square().sum(-1).amax()
        return -lse + 0.5 * x.square().sum(-1) + constant


class RecallPoint(NamedTuple):
    units: int
    patterns: int
    beta: float
    recalled: float
    """Share of the noisy patterns that one step makes whole."""


@torch.no_grad()
def exponential_capacity(
    units: Sequence[int],
    *,
    growth: float = 2**0.25,
    beta: float = 1.0,
    noise: float = 0.1,
    queries: int = 100,
    seed: int = 0,
) -> list[RecallPoint]:
    """M = growthᴺ random patterns of N signs, some of which are recalled in one step from noisy ones."""
    found: list[RecallPoint] = []
    for width in units:
        generator = seeded(seed, "exponential capacity", width)
        patterns = random_patterns(round(growth**width), width, generator)
        network = ModernHopfield(ModernHopfieldConfig(beta=beta, patterns=0, width=width)).fit(patterns)
        asked = patterns[:queries]
        recalled = network(noisy(asked, noise, generator)).sign()
        share = (recalled == asked).all(1).double().mean().item()
        found.append(RecallPoint(width, len(patterns), beta, share))
    return found


SIZES = {"base": ModernHopfieldConfig()}
