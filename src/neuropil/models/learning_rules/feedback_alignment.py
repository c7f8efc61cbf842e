"""Feedback alignment: errors come back through fixed random weights, not through the transposed weights of the network.

    zˡ = hˡ⁻¹ Wˡᵀ + bˡ,   hˡ = φ(zˡ)                             l = 1 … L,  h⁰ the input;   y = h^L Wᵀ + b, the logits
    e = softmax(y) − t                                           the gradient of the cross-entropy by y

    back-propagation            δˡ = (δˡ⁺¹ Wˡ⁺¹) ⊙ φ'(zˡ)        δ^{L+1} = e
    feedback alignment          δˡ = (δˡ⁺¹ Bˡ⁺¹) ⊙ φ'(zˡ)        B of the shape of W     (Lillicrap et al. 2016)
    direct feedback alignment   δˡ = (e Bˡ) ⊙ φ'(zˡ)             B [output unit]         (Nøkland 2016)

    ∇Wˡ = δˡᵀ hˡ⁻¹,   ∇bˡ = δˡ                                   means over the batch

With one hidden layer the last two are the same. Nothing makes B resemble W; it is W that comes to resemble Bᵀ while it
learns, so that the random way back becomes a good one."""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Num
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.mlp import MLP
from neuropil.parts.activations import derivative
from neuropil.parts.losses import categorical_cross_entropy, with_gradients
from neuropil.parts.objectives import Objective, token_metrics
from neuropil.protocols import Batch
from neuropil.randomness import seeded


class ForwardPass(NamedTuple):
    """What a weight can see of a pass: the inputs of its layer, and the slopes of the units that it leads to."""

    inputs: list[Float[Tensor, "batch _"]]
    """h⁰ … h^L."""
    slopes: list[Float[Tensor, "batch _"]]
    """φ'(z¹) … φ'(z^L)."""
    logits: Float[Tensor, "batch output"]


class FeedbackAlignment(Objective[MLP]):
    """`feedback` holds a matrix for each hidden layer: Bˡ⁺¹, or Bˡ where the error comes directly. It never changes,
    and follows from the seed."""

    phase = "feedback alignment"

    def __init__(self, model: MLP, way: Literal["layered", "direct"] = "layered", seed: int = 0):
        config = model.config
        if config.batch_norm or config.residual or config.dropout:
            rule = "feedback alignment needs an MLP without batch normalisation, residual connections and dropout"
            found = [name for name in ("batch_norm", "residual", "dropout") if getattr(config, name)]
            raise InputError(rule, got=", ".join(found))
        super().__init__(model)
        self.way = way
        sizes, generator = [*config.sizes[1:], config.outputs], seeded(seed, "feedback weights", way)
        above = sizes[1:] if way == "layered" else [config.outputs] * len(sizes[1:])
        # Var B = 1/n, as of the first weights of a layer with n inputs
        self.feedback = [
            torch.randn(m, n, generator=generator).to(model.output.weight) / math.sqrt(n)
            for m, n in zip(above, sizes[:-1], strict=True)
        ]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        with torch.no_grad():
            seen = self.forward_pass(batch["input"])
            error = F.softmax(seen.logits, -1) - F.one_hot(batch["target"].long(), seen.logits.shape[1])
            deltas = self.deltas(seen, error / len(error))
            loss = categorical_cross_entropy(seen.logits, batch["target"]).mean()
        # ∇Wˡ = δˡᵀ hˡ⁻¹,   ∇bˡ = δˡ
        pairs = zip(deltas, seen.inputs, strict=True)
        gradients = [each for delta, h in pairs for each in (delta.mT @ h, delta.sum(0))]
        return with_gradients(loss, self.model.parameters(), gradients)

    def forward_pass(self, x: Num[Tensor, "batch *shape"]) -> ForwardPass:
        inputs, slopes = [self.model.standardize(x).flatten(1)], []
        for linear in self.model.hidden:
            z = linear(inputs[-1])
            slopes.append(derivative(self.model.activation, z))
            inputs.append(self.model.activation(z))
        return ForwardPass(inputs, slopes, self.model.output(inputs[-1]))

    def deltas(self, seen: ForwardPass, error: Float[Tensor, "batch output"]) -> list[Float[Tensor, "batch _"]]:
        """δ¹ … δ^L and e: no weight of the network is read."""
        found = [error]
        for slope, back in zip(reversed(seen.slopes), reversed(self.feedback), strict=True):
            # δˡ = (δˡ⁺¹ Bˡ⁺¹) ⊙ φ'(zˡ),   or   δˡ = (e Bˡ) ⊙ φ'(zˡ)
            found.insert(0, ((found[0] if self.way == "layered" else error) @ back) * slope)
        return found

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.model(batch["input"]), batch["target"])


def weight_alignment(learner: FeedbackAlignment) -> list[float]:
    """The cosine between Wˡ⁺¹ and Bˡ⁺¹ for each hidden layer, where errors come back layer by layer."""
    layers = [*list(learner.model.hidden)[1:], learner.model.output]
    weights = [layer.get_parameter("weight").detach().flatten() for layer in layers]
    pairs = zip(weights, learner.feedback, strict=True)
    return [F.cosine_similarity(weight, back.flatten(), dim=0).item() for weight, back in pairs]
