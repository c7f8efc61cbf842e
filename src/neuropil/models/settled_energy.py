"""How a network of predictive coding learns: it settles between an input and a target, and each connection follows its own rule.

    x⁰, x^L held      →  dx = −∂F/∂x, so many steps      →  dM = −∂F/∂M, dβ = −∂F/∂β, where the states have come to

To the training loop it is a learner as any other. Its loss is the settled energy F, and its gradients are the local rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from neuropil.models.predictive_coding import PredictiveCoding, States, energy_of
from neuropil.parts.objectives import Classification, Regression
from neuropil.protocols import Batch, Phase


class _LocalRules(torch.autograd.Function):
    """The energy as a loss whose gradients are given: every connection has worked out its own."""

    @staticmethod
    def forward(ctx: Any, energy: Tensor, rules: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        ctx.rules = rules
        return energy.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(rule * gradients[0] for rule in ctx.rules)


class SettledEnergy:
    """Learning: input and target are held, the states between settle, and each connection follows its local rule.

    In a batch with a `visit`, states settle by one step for each visit of the same examples, and the weights with them (incremental
    predictive coding); they are kept from one visit to the next.

    As weights grow, states must settle in shorter steps. Each connection knows its norm ‖M‖ by the direction v that it stretches most,
    which follows the weights by one step v ← M Mᵀ v in each update.
    """

    def __init__(self, model: PredictiveCoding):
        self.model = model
        self.scores = Classification(model) if model.config.answers == "classes" else Regression(model, scale=model.target_scale.std)
        self.kept: States = []
        self.stretched = [torch.linalg.svd(c.weight.detach(), full_matrices=False).U[:, 0] for c in model.connections]

    def phases(self) -> Sequence[Phase]:
        return [Phase("settled energy", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        with torch.no_grad():
            self.stretched = [
                F.normalize(c.weight @ (v @ c.weight), dim=0) for c, v in zip(self.model.connections, self.stretched, strict=True)
            ]
            states = self.settled(batch)
            errors = self.model.errors(states)
            rules = self.model.local_rules(states, errors)
            energy = energy_of(errors).mean()
        return _LocalRules.apply(energy, rules, *self.model.parameters())

    def settled(self, batch: Batch) -> States:
        model, visit = self.model, batch.get("visit")
        free, rates = [False, *[True] * (model.top - 1), False], model.rates(norms=self._norms())
        if visit is None:
            return model.settle(self._beginning(batch), free, rates=rates)
        states = self.kept if visit[0] > 0 else self._beginning(batch)
        self.kept = model.settle(states, free, steps=1, rates=rates)
        return self.kept

    def _norms(self) -> list[float]:
        return torch.stack([(v @ c.weight).norm() for c, v in zip(self.model.connections, self.stretched, strict=True)]).tolist()

    def _beginning(self, batch: Batch) -> States:
        return self.model.begin(self.model.encode(batch["input"]), self.model.encode_target(batch["target"]))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """The loss is the settled energy, as in training; the others are those of any classifier or regressor."""
        examples = {"input": batch["input"], "target": batch["target"]}
        return {**self.scores.metrics(examples), "loss": self.model.energy(self.settled(examples))}

    def memory(self) -> Mapping[str, Tensor]:
        states = {f"state.{layer}": state for layer, state in enumerate(self.kept)}
        return states | {f"stretched.{number}": v for number, v in enumerate(self.stretched)}

    def recall(self, memory: Mapping[str, Tensor]) -> None:
        device = self.model.standardize.mean.device
        self.stretched = [memory[f"stretched.{number}"].to(device) for number in range(len(self.stretched))]
        self.kept = [memory[f"state.{layer}"].to(device) for layer in range(len(memory) - len(self.stretched))]
