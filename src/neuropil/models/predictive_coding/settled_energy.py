"""Learning by predictive coding: the states settle, and each connection follows its local rule.

F = ½ Σ ‖ε‖²          τ dM/dt = −∂F/∂M at states that have settled
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from neuropil.models.predictive_coding.network import ErrorNodes, PredictiveCoding, States, energy_of
from neuropil.parts.losses import positive, weighted_mean, with_gradients
from neuropil.parts.objectives import Classification, Objective, Regression, loss_weights, measured_weight
from neuropil.protocols import Batch


class SettledEnergy(Objective[PredictiveCoding]):
    """Learning: input and target are held, the states between settle, and each connection follows its local rule.

    In a batch with a `visit`, states settle by one step for each visit of the same examples, and the weights with them
    (incremental predictive coding); they are kept from one visit to the next, with their error nodes. Weights learn
    from the error nodes as they are, at equilibrium or on their way there.

    As weights grow, states must settle in shorter steps. Each connection knows its norm ‖M‖ by the direction v that it
    stretches most, which follows the weights by one step v ← M Mᵀ v in each update."""

    phase = "settled energy"

    def __init__(self, model: PredictiveCoding):
        self.model = model
        classifies = model.config.answers == "classes"
        self.scores = Classification(model) if classifies else Regression(model, scale=model.target_scale.std)
        self.kept: States = []
        self.kept_errors: list[Tensor] = []
        self.stretched = [torch.linalg.svd(c.weight.detach(), full_matrices=False).U[:, 0] for c in model.connections]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        with torch.no_grad():
            pairs = zip(self.model.connections, self.stretched, strict=True)
            self.stretched = [F.normalize(c.weight @ (v @ c.weight), dim=0) for c, v in pairs]
            nodes = self._error_nodes(batch)
            states = self.settled(batch, nodes)
            errors = self.model.errors(states)
            energies, learned = energy_of(errors), errors if nodes is None else nodes
            weights = loss_weights(batch, energies)
            if weights is not None:
                # The rules are linear in the errors, and means over the batch: α N / Σ α is 1 on average.
                share = (weights * len(energies) / positive(weights.sum())).unsqueeze(-1)
                learned = [error * share for error in learned]
            rules = self.model.local_rules(states, learned)
            energy = weighted_mean(energies, weights)
        return with_gradients(energy, self.model.parameters(), rules)

    def _error_nodes(self, batch: Batch) -> ErrorNodes:
        """Those of the visit before, or silent ones; kept from here on if there are visits."""
        visit = batch.get("visit")
        if visit is not None and visit[0] > 0 and self.kept_errors:
            nodes = [error.clone() for error in self.kept_errors]
        else:
            nodes = self.model.silent_errors(len(batch["input"]))
        self.kept_errors = [] if visit is None or nodes is None else nodes
        return nodes

    def settled(self, batch: Batch, errors: ErrorNodes = None) -> States:
        """From error nodes that are changed with the states, or silent ones."""
        visit, rates = batch.get("visit"), self.model.rates(norms=self._norms())
        if visit is None:
            return self.model(batch["input"], batch["target"], rates=rates, errors=errors)
        states = self.kept if visit[0] > 0 else None
        self.kept = self.model(batch["input"], batch["target"], states=states, steps=1, rates=rates, errors=errors)
        return self.kept

    def _norms(self) -> list[float]:
        pairs = zip(self.model.connections, self.stretched, strict=True)
        return torch.stack([(v @ c.weight).norm() for c, v in pairs]).tolist()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """The loss is the settled energy, as in training; the others are those of any classifier or regressor."""
        examples = {"input": batch["input"], "target": batch["target"]}
        energy = self.model.energy(self.settled(examples))
        weight = measured_weight(loss_weights(batch, energy))
        return {**self.scores.metrics(examples), "loss": energy, "energy": energy, **weight}

    @property
    def replicated_state(self) -> list[str]:
        return [f"stretched.{number}" for number in range(len(self.stretched))]

    def state_dict(self) -> Mapping[str, Tensor]:
        states = {f"state.{layer}": state for layer, state in enumerate(self.kept)}
        states |= {f"error.{number}": error for number, error in enumerate(self.kept_errors)}
        return states | {f"stretched.{number}": v for number, v in enumerate(self.stretched)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        device = self.model.standardize.mean.device
        self.stretched = [state[f"stretched.{number}"].to(device) for number in range(len(self.stretched))]
        names = (f"state.{layer}" for layer in range(self.model.top + 1))
        self.kept = [state[name].to(device) for name in names if name in state]
        names = (f"error.{number}" for number in range(len(self.stretched)))
        self.kept_errors = [state[name].to(device) for name in names if name in state]
