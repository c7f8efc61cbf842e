"""Evolution strategies: a gradient from losses alone, at weights that are perturbed at random.

    ε_i ~ N(0, I),   L⁺_i = L(θ + σ ε_i),   L⁻_i = L(θ − σ ε_i)          i = 1 … n antithetic pairs
    g = 1/(2 n σ) Σ_i (u(L⁺_i) − u(L⁻_i)) ε_i

    u(L) = L                           E[g] = ∇ E[L(θ + σ ε)], the gradient of the loss smoothed by σ
    u(L) = rank(L)/(2n − 1) − ½        centred ranks: the same whatever the scale of the loss    (Salimans et al. 2017)

Where L is quadratic, g = (1/n) Σ_i ε_i ε_iᵀ ∇L without ranks: with d weights its cosine to the gradient is about
√(n / (n + d + 1)). A weight must know its own perturbation and one number for each pair, the same for all weights."""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from neuropil.errors import InputError
from neuropil.parts.losses import categorical_cross_entropy, with_gradients
from neuropil.parts.objectives import Objective, token_metrics
from neuropil.protocols import Batch

Weights: TypeAlias = Mapping[str, Tensor]


class EvolutionStrategies(Objective[nn.Module]):
    """Every perturbation is scored on the whole batch; random numbers are torch's, which the training loop seeds."""

    phase = "evolution strategies"

    def __init__(self, model: nn.Module, pairs: int = 64, sigma: float = 0.05, *, ranks: bool = True):
        if pairs < 1 or not 0 < sigma < math.inf:
            rule = "evolution strategies need at least one pair and a σ above 0"
            raise InputError(rule, got=f"pairs={pairs} and sigma={sigma:g}")
        super().__init__(model)
        self.pairs, self.sigma, self.ranks = pairs, sigma, ranks

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        def loss_at(weights: Weights) -> Tensor:
            logits = functional_call(self.model, dict(weights), (batch["input"],))
            return categorical_cross_entropy(logits, batch["target"]).mean()

        with torch.no_grad():
            weights = {name: parameter.detach() for name, parameter in self.model.named_parameters()}
            loss, found = estimated_gradient(loss_at, weights, self.pairs, self.sigma, ranks=self.ranks)
        return with_gradients(loss, self.model.parameters(), list(found.values()))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.model(batch["input"]), batch["target"])


def estimated_gradient(
    loss_at: Callable[[Weights], Tensor], weights: Weights, pairs: int, sigma: float, *, ranks: bool
) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
    """The mean loss of the perturbed weights, and g."""
    noise = {name: torch.randn(pairs, *weight.shape).to(weight) for name, weight in weights.items()}
    evaluate = vmap(loss_at, randomness="different")
    losses = torch.cat(
        [evaluate({name: w + sign * sigma * noise[name] for name, w in weights.items()}) for sign in (1, -1)]
    )
    plus, minus = (centred_ranks(losses) if ranks else losses).chunk(2)
    # g = 1/(2 n σ) Σ_i (u(L⁺_i) − u(L⁻_i)) ε_i
    shares = (plus - minus) / (2 * pairs * sigma)
    return losses.mean(), {name: torch.tensordot(shares, each, dims=1) for name, each in noise.items()}


def centred_ranks(losses: Float[Tensor, " loss"]) -> Float[Tensor, " loss"]:
    """From −½ for the smallest to ½ for the largest."""
    ranks = losses.argsort(stable=True).argsort().to(losses)
    # u = rank/(2n − 1) − ½
    return ranks / max(1, len(losses) - 1) - 0.5
