"""How a learning rule's changes lie to the gradient, and what they depend on, measured on the rule as it is.

alignment               cos(ΔW, −∇W) of each layer: the change that the rule makes, and the gradient of the
                        cross-entropy of the same network's answers to the same batch with the same weights
later weights           ‖ΔW' − ΔW‖ / ‖ΔW‖ of the first layer, when the weights of later layers have changed
                        in such a way that no activity has: W' = W + U with U h = 0 for each input h of the layer
examples apart          the same of the direction, when each example of a batch is learned from by itself
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.parts.losses import categorical_cross_entropy
from neuropil.parts.objectives import token_metrics
from neuropil.protocols import Batch, Learner, Phase, ReplicatedState, StatefulLearner
from neuropil.randomness import seeded

Answer: TypeAlias = Callable[[Tensor], Tensor]
"""From inputs to logits."""
NOTHING = 1e-12
"""A change or a gradient below this norm has no direction."""
ROUNDING = 1e-6
"""Of a random matrix: a smaller share of it is none."""


@dataclass(frozen=True)
class LayerWeights:
    """The weights of a layer: a parameter of the model by its name, or some of its rows."""

    parameter: str
    rows: slice = field(default_factory=lambda: slice(None))

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return tensors[self.parameter][self.rows].detach()


class MeasuredLearner:
    """A learner of one phase, and the alignment of its changes at some of its updates: `cosines` has a row for each of
    `updates`, with a number for each layer and one for all of them together. Its metrics are the cross-entropy and the
    accuracy of its answers. Checkpoints hold what was measured."""

    def __init__(
        self, learner: Learner, answer: Answer, layers: Mapping[str, LayerWeights], updates: Sequence[int] = ()
    ):
        self.learner, self.model, self.answer, self.layers = learner, learner.model, answer, layers
        self.wanted, self.count = frozenset(updates), 0
        self.updates: list[int] = []
        self.cosines: list[list[float]] = []

    def phases(self) -> Sequence[Phase]:
        (phase,) = self.learner.phases()
        return [replace(phase, loss=self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        (phase,) = self.learner.phases()
        loss = phase.loss(batch)
        if self.count in self.wanted and self.count not in self.updates:
            self.updates.append(self.count)
            self.cosines.append(self._cosines(loss, batch))
        self.count += 1
        return loss

    def _cosines(self, loss: Tensor, batch: Batch) -> list[float]:
        parameters = dict(self.model.named_parameters())
        true_loss = categorical_cross_entropy(self.answer(batch["input"]), batch["target"]).mean()
        change, gradient = (gradients(each, parameters) for each in (loss, true_loss))
        changes, slopes = ([layer.of(each).flatten() for layer in self.layers.values()] for each in (change, gradient))
        return [*map(cosine, changes, slopes), cosine(torch.cat(changes), torch.cat(slopes))]

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return token_metrics(self.answer(batch["input"]), batch["target"])

    def state_dict(self) -> Mapping[str, Tensor]:
        own = {"count": torch.tensor(self.count), "updates": torch.tensor(self.updates, dtype=torch.int64)}
        own["cosines"] = torch.tensor(self.cosines, dtype=torch.double).reshape(-1, len(self.layers) + 1)
        inner = self.learner.state_dict() if isinstance(self.learner, StatefulLearner) else {}
        return own | {f"learner.{name}": value for name, value in inner.items()}

    @property
    def replicated_state(self) -> Collection[str]:
        inner = self.learner.replicated_state if isinstance(self.learner, ReplicatedState) else ()
        return ["count", "updates", "cosines", *(f"learner.{name}" for name in inner)]

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.count = int(state["count"])
        self.updates, self.cosines = state["updates"].tolist(), state["cosines"].tolist()
        if isinstance(self.learner, StatefulLearner):
            inner = {name: value for name, value in state.items() if name.startswith("learner.")}
            self.learner.load_state_dict({name.removeprefix("learner."): value for name, value in inner.items()})


def gradients(loss: Tensor, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Of each parameter; zero where the loss does not depend on it."""
    found = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True, allow_unused=True)
    pairs = zip(parameters.items(), found, strict=True)
    return {name: torch.zeros_like(parameter) if each is None else each for (name, parameter), each in pairs}


def cosine(a: Float[Tensor, " weight"], b: Float[Tensor, " weight"]) -> float:
    """NaN where one of them is nothing."""
    a, b = a.double(), b.double()
    if min(a.norm(), b.norm()) < NOTHING:
        return float("nan")
    return F.cosine_similarity(a, b, dim=0).item()


# --- what a change depends on -----------------------------------------------------------------------------------------


def change_with_later_weights(
    learner: Learner, answer: Answer, first: LayerWeights, later: Sequence[nn.Module], batch: Batch
) -> float | None:
    """Relative change of what the rule does to the first layer. `later` are the modules whose `weight` is changed:
    [m n] in an `nn.Linear`, [n m] in others. None where the batch leaves no room for changes that no activity shows."""
    before = _change(learner, first, batch)
    inputs = _inputs_of(later, lambda: answer(batch["input"]))
    kept = [module.get_parameter("weight").detach().clone() for module in later]
    try:
        changed = [_add_unseen(module, h) for module, h in zip(later, inputs, strict=True)]
        return relative_difference(_change(learner, first, batch), before) if any(changed) else None
    finally:
        with torch.no_grad():
            for module, weight in zip(later, kept, strict=True):
                module.get_parameter("weight").copy_(weight)


def change_with_examples_apart(learner: Learner, first: LayerWeights, batch: Batch) -> float:
    """How far the direction of what the rule does to a layer turns if each example is a batch of its own."""
    together, count = _change(learner, first, batch), len(batch["target"])
    apart = [
        _change(learner, first, {name: each[index : index + 1] for name, each in batch.items()})
        for index in range(count)
    ]
    total = torch.stack(apart).sum(0)
    return relative_difference(total / total.norm(), together / together.norm())


def relative_difference(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def _change(learner: Learner, layer: LayerWeights, batch: Batch) -> Tensor:
    """What the layer descends along. The learner is as it was afterwards, and random numbers are always the same."""
    parameters = dict(learner.model.named_parameters())
    kept = dict(learner.state_dict()) if isinstance(learner, StatefulLearner) else None
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        (phase,) = learner.phases()
        found = layer.of(gradients(phase.loss(batch), parameters))
    if kept is not None and isinstance(learner, StatefulLearner):
        learner.load_state_dict(kept)
    return found


def _inputs_of(modules: Sequence[nn.Module], run: Callable[[], Any]) -> list[Float[Tensor, "example _"]]:
    """What enters each module while `run` runs, a row for each example (and step)."""
    seen: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen[module] = arguments[0].detach().flatten(0, -2)

    hooks = [module.register_forward_pre_hook(keep) for module in modules]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return [seen[module] for module in modules]


@torch.no_grad()
def _add_unseen(module: nn.Module, h: Float[Tensor, "example n"]) -> bool:
    """W ← W + U with U h = 0 for each row h, U as large as W; false where there is no such U."""
    weight = module.get_parameter("weight")
    weight = weight.data if isinstance(module, nn.Linear) else weight.data.mT  # m n
    random = torch.randn(weight.shape, generator=seeded("unseen"), dtype=torch.double)
    # U = R (I − H⁺H)
    unseen = random - random @ torch.linalg.pinv(h.double()) @ h.double()
    if unseen.norm() < ROUNDING * random.norm():
        return False
    weight += (unseen * (weight.double().norm() / unseen.norm())).to(weight)
    return True
