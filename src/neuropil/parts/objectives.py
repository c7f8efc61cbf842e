"""Objectives: a model and a loss make a learner.

    Classification    cross-entropy of the logits with the class numbers
    Regression        squared error of the outputs with the targets, in units of `scale`
    Translation       cross-entropy of each token of a target, given its source and the tokens before it
    Tagging           cross-entropy of the logits of each token with its tag, padding left out

A batch is ``{"input": x, "target": t}``, or ``{"source": …, "target": …}`` for a translation. What is trained may carry more than what is
measured: label smoothing and λ ‖W‖₁ belong to the phase's loss alone, so that the measured loss compares across settings. Weight decay
is the optimiser's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.parts.losses import (
    at_least_single,
    categorical_cross_entropy,
    l1_penalty,
    projected_cross_entropy,
    squared_error,
)
from neuropil.protocols import PADDING, Batch, Phase


class Classification:
    """`answer` makes the logits from an input, where that is not simply the model."""

    def __init__(
        self,
        model: nn.Module,
        label_smoothing: float = 0.0,
        l1: float = 0.0,
        answer: Callable[[Tensor], Tensor] | None = None,
    ):
        self.model, self.label_smoothing, self.l1 = model, label_smoothing, l1
        self.answer = answer or model

    def phases(self) -> Sequence[Phase]:
        return [Phase("classification", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        logits = self.answer(batch["input"])
        loss = categorical_cross_entropy(logits, batch["target"], self.label_smoothing).mean()
        return loss + self.l1 * l1_penalty(matrices(self.model)) if self.l1 else loss

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        logits, target = self.answer(batch["input"]), batch["target"]
        return {
            "loss": categorical_cross_entropy(logits, target),
            "accuracy": (logits.argmax(-1) == target).float(),
        }


class Regression:
    """`scale` is the spread of the targets (a number, or one per output). Losses are measured in it, so that a learning rate or a penalty
    means the same whether the target is in metres or in millimetres; the other metrics are in the target's own units."""

    def __init__(self, model: nn.Module, l1: float = 0.0, scale: float | Float[Tensor, " output"] = 1.0):
        self.model, self.l1 = model, l1
        spread = torch.as_tensor(scale, dtype=torch.float32)
        self.scale = torch.where(spread > 0, spread, 1.0)  # constant targets have no spread

    def phases(self) -> Sequence[Phase]:
        return [Phase("regression", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        y, target = self._outputs(batch)
        loss = self._scaled_error(y, target).mean()
        return loss + self.l1 * l1_penalty(matrices(self.model)) if self.l1 else loss

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """With several outputs, the errors are means over them."""
        y, target = self._outputs(batch)
        return {
            "loss": self._scaled_error(y, target),
            "squared_error": (y - target).square().mean(-1),
            "absolute_error": (y - target).abs().mean(-1),
        }

    def _outputs(self, batch: Batch) -> tuple[Float[Tensor, "batch output"], Float[Tensor, "batch output"]]:
        y = at_least_single(self.model(batch["input"]))
        return y, as_columns(batch["target"]).to(y)

    def _scaled_error(
        self, y: Float[Tensor, "batch output"], target: Float[Tensor, "batch output"]
    ) -> Float[Tensor, " batch"]:
        scale = self.scale.to(y)
        return squared_error(y / scale, target / scale)


class Tagging:
    """Inputs are tokens, targets a tag for each; where an input is padding, neither its logits nor its target mean anything."""

    def __init__(self, model: nn.Module, label_smoothing: float = 0.0):
        self.model, self.label_smoothing = model, label_smoothing

    def phases(self) -> Sequence[Phase]:
        return [Phase("tagging", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        there = batch["input"] != PADDING
        return categorical_cross_entropy(
            self.model(batch["input"])[there], batch["target"][there], self.label_smoothing
        ).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Means over the tokens of each text, and whether all of its tags are right."""
        logits, target, there = self.model(batch["input"]), batch["target"], batch["input"] != PADDING
        count = there.sum(-1)
        right = (logits.argmax(-1) == target) & there
        return {
            "loss": (categorical_cross_entropy(logits, target) * there).sum(-1) / count,
            "token_accuracy": right.sum(-1) / count,
            "exact_accuracy": (right.sum(-1) == count).float(),
        }


@runtime_checkable
class Writer(Protocol):
    """A model that reads a source and writes a target: `hidden` gives a vector for each token of a target, whose logits are W h."""

    def hidden(
        self, source: Int64[Tensor, "batch source"], target: Int64[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target width"]: ...

    @property
    def output_weight(self) -> Float[Tensor, "token width"]: ...


class Translation:
    """Targets begin with a start token, which is never predicted, and end with an end token; padding counts for nothing."""

    def __init__(self, model: nn.Module, label_smoothing: float = 0.0):
        self.model, self.label_smoothing = model, label_smoothing
        self.writer = cast(Writer, model)

    def phases(self) -> Sequence[Phase]:
        return [Phase("translation", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        hidden, following = self._hidden(batch)
        there = following != PADDING
        return projected_cross_entropy(hidden[there], self.writer.output_weight, following[there], self.label_smoothing)

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Means over the tokens of each target, every one of them predicted from the right tokens before it."""
        hidden, following = self._hidden(batch)
        there = (following != PADDING).float()
        logits = hidden @ self.writer.output_weight.mT
        losses = categorical_cross_entropy(logits, following)
        right = (logits.argmax(-1) == following).float()
        return {
            name: (values * there).sum(-1) / there.sum(-1)
            for name, values in (("loss", losses), ("token_accuracy", right))
        }

    def _hidden(self, batch: Batch) -> tuple[Float[Tensor, "batch target width"], Int64[Tensor, "batch target"]]:
        """What is computed from the tokens before, and the tokens that should follow."""
        return self.writer.hidden(batch["source"], batch["target"][:, :-1]), batch["target"][:, 1:]


def as_columns(target: Num[Tensor, "batch *output"]) -> Num[Tensor, "batch output"]:
    """Targets as [batch output]. A plain [batch] is one column: left as it is, it would broadcast into every pair of examples."""
    if target.ndim > 2:
        raise InputError("Regression needs targets of shape [batch] or [batch, outputs]", got=f"{tuple(target.shape)}")
    return target if target.ndim == 2 else target.unsqueeze(-1)


def matrices(model: nn.Module) -> Iterable[Tensor]:
    """Weights and kernels; a sparse bias or normalisation would make nothing simpler."""
    return (parameter for parameter in model.parameters() if parameter.ndim >= 2)
