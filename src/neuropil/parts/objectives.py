"""Objectives: a model and a loss make a learner.

    Classification        cross-entropy of the logits with the class numbers
    MultiLabel            Bernoulli cross-entropy of the logits with targets of 0 and 1, one for each label
    Regression            squared error of the outputs with the targets, in units of `scale`
    Tagging               cross-entropy of the logits of each token with its tag, padding left out
    SequenceToSequence    cross-entropy of each token of a target, given its source and the tokens before it
    MaskedToken           L = −(1/|C|) Σ_{t ∈ C} ln p(x_t | what is left of the text),   C the masked places
    NextTokenInWindow     L = −(1/T) Σ_t ln p(x_{t+1} | x_1 … x_t) in windows, each of which stands alone
    NextToken             the same by truncated back-propagation through time, for a recurrent model

A batch is ``{"input": x, "target": t}``, with ``source`` in place of ``input`` for sequence to sequence. The trained
loss may have more in it than the measured one: label smoothing and λ ‖W‖₁ belong to the phase's loss alone, so that the
measured loss compares across settings. Weight decay is the optimiser's.

With a ``weight`` in the batch, α for each example or for each step of each, every objective's loss is the weighted mean

    E = Σ α L / Σ α          over the losses L of the batch: its examples, or the steps (tokens) of all of them

A weight of 0 leaves its example out, and a weight of 2 counts as two copies. The measured loss is weighted alike; other
metrics count each example once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64, Num, Shaped
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.parts.losses import (
    LOGITS_AT_ONCE,
    at_least_single,
    bernoulli_cross_entropy,
    categorical_cross_entropy,
    l1_penalty,
    positive,
    projected_cross_entropy,
    squared_error,
    weighted_mean,
)
from neuropil.parts.recurrence import RecurrenceOutput, State, detach, map_states
from neuropil.protocols import PADDING, WEIGHT, Batch, Phase

ModelT = TypeVar("ModelT", bound=nn.Module)


class Objective(ABC, Generic[ModelT]):
    """A learner of one phase, in which all weights of a model follow one loss."""

    phase: ClassVar[str]

    def __init__(self, model: ModelT):
        self.model = model

    def phases(self) -> Sequence[Phase]:
        return [Phase(self.phase, dict(self.model.named_parameters()), self.loss, denominator=self.denominator)]

    def denominator(self, batch: Batch) -> float:
        """Σ α, by which the loss of a batch was divided."""
        counted = self.counted(batch)
        weights = loss_weights(batch, counted)
        return float((counted if weights is None else weights[counted]).sum())

    def counted(self, batch: Batch) -> Bool[Tensor, "batch *step"]:
        """True for every loss that the mean is over: of each example, or of those of its steps that count."""
        values = next(iter(batch.values()))
        return torch.ones(len(values), dtype=torch.bool, device=values.device)

    @abstractmethod
    def loss(self, batch: Batch) -> Float[Tensor, ""]: ...

    @abstractmethod
    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " example"]]: ...


class Classification(Objective[nn.Module]):
    """`answer` makes the logits from an input, where that is not simply the model."""

    phase = "classification"

    def __init__(
        self,
        model: nn.Module,
        label_smoothing: float = 0.0,
        l1: float = 0.0,
        answer: Callable[[Tensor], Tensor] | None = None,
    ):
        self.model, self.label_smoothing, self.l1 = model, label_smoothing, l1
        self.answer = answer or model

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        logits = self.answer(batch["input"])
        losses = categorical_cross_entropy(logits, batch["target"], self.label_smoothing)
        loss = weighted_mean(losses, loss_weights(batch, losses))
        return loss + self.l1 * l1_penalty(matrices(self.model)) if self.l1 else loss

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        found = token_metrics(self.answer(batch["input"]), batch["target"])
        return found | measured_weight(loss_weights(batch, found["loss"]))


class MultiLabel(Objective[nn.Module]):
    """Any number of labels for each example, independent of one another given the input: L = −Σₖ [tₖ ln yₖ + (1 − tₖ)
    ln(1 − yₖ)], y = logistic(z). A label is predicted where y > ½, which is z > 0. With label smoothing ε, tₖ is
    (1 − ε) tₖ + ε / 2."""

    phase = "multi-label classification"

    def __init__(self, model: nn.Module, label_smoothing: float = 0.0, l1: float = 0.0):
        self.model, self.label_smoothing, self.l1 = model, label_smoothing, l1

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        logits = self.model(batch["input"])
        target = (1 - self.label_smoothing) * batch["target"].to(logits) + self.label_smoothing / 2
        losses = bernoulli_cross_entropy(logits, target)
        loss = weighted_mean(losses, loss_weights(batch, losses))
        return loss + self.l1 * l1_penalty(matrices(self.model)) if self.l1 else loss

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Beside the loss: whether all labels are right, and the share of them that are wrong."""
        logits, target = self.model(batch["input"]), batch["target"]
        losses, wrong = bernoulli_cross_entropy(logits, target.to(logits)), (logits > 0) != (target > 0.5)
        found = {"loss": losses, "exact_match": (~wrong.any(-1)).float(), "hamming_loss": wrong.float().mean(-1)}
        return found | measured_weight(loss_weights(batch, losses))


class Regression(Objective[nn.Module]):
    """`scale` is the spread of the targets (a number, or one per output). Losses are measured in it, so that a learning
    rate or a penalty means the same for metres and millimetres; the other metrics are in the target's own units."""

    phase = "regression"

    def __init__(self, model: nn.Module, l1: float = 0.0, scale: float | Float[Tensor, " output"] = 1.0):
        self.model, self.l1 = model, l1
        spread = torch.as_tensor(scale, dtype=torch.float32)
        self.scale = torch.where(spread > 0, spread, 1.0)  # constant targets have no spread

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        losses = self._scaled_error(*self._outputs(batch))
        loss = weighted_mean(losses, loss_weights(batch, losses))
        return loss + self.l1 * l1_penalty(matrices(self.model)) if self.l1 else loss

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """With several outputs, the errors are means over them."""
        y, target = self._outputs(batch)
        found = {
            "loss": self._scaled_error(y, target),
            "squared_error": (y - target).square().mean(-1),
            "absolute_error": (y - target).abs().mean(-1),
        }
        return found | measured_weight(loss_weights(batch, found["loss"]))

    def _outputs(self, batch: Batch) -> tuple[Float[Tensor, "batch output"], Float[Tensor, "batch output"]]:
        y = at_least_single(self.model(batch["input"]))
        return y, as_columns(batch["target"]).to(y)

    def _scaled_error(self, y: Tensor, target: Tensor) -> Float[Tensor, " batch"]:
        scale = self.scale.to(y)
        return squared_error(y / scale, target / scale)


class Tagging(Objective[nn.Module]):
    """Inputs are tokens, targets a tag for each; where an input is padding, logits and target mean nothing."""

    phase = "tagging"

    def __init__(self, model: nn.Module, label_smoothing: float = 0.0):
        self.model, self.label_smoothing = model, label_smoothing

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        valid = batch["input"] != PADDING
        logits, target = self.model(batch["input"])[valid], batch["target"][valid]
        weights = loss_weights(batch, valid)
        losses = categorical_cross_entropy(logits, target, self.label_smoothing)
        return weighted_mean(losses, None if weights is None else weights[valid])

    def counted(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        return batch["input"] != PADDING

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Means over the tokens of each text, and whether all of its tags are right."""
        logits, target, valid = self.model(batch["input"]), batch["target"], batch["input"] != PADDING
        count, weights = valid.sum(-1), loss_weights(batch, valid)
        right = (logits.argmax(-1) == target) & valid
        return {
            "loss": step_mean(categorical_cross_entropy(logits, target), valid, weights),
            "token_accuracy": right.sum(-1) / count,
            "exact_accuracy": (right.sum(-1) == count).float(),
        } | measured_weight(weights, valid)


@runtime_checkable
class ProjectedModel(Protocol):
    """A model whose logits are W h. Without `project` it gives h, so that a loss need not hold all logits at once."""

    def __call__(self, *inputs: Int64[Tensor, "batch time"], project: bool) -> Float[Tensor, "batch time width"]: ...

    @property
    def output_weight(self) -> Float[Tensor, "token width"]: ...


class SequenceToSequence(Objective[nn.Module]):
    """Targets begin with a start token, which is never predicted, and end with an end token; padding does not count.
    Weights of steps are those of the tokens that are predicted, of which there is one less than in a target."""

    phase = "sequence to sequence"

    def __init__(self, model: nn.Module, label_smoothing: float = 0.0):
        self.model, self.label_smoothing = model, label_smoothing

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        hidden, weight, following = self._hidden(batch)
        valid, weights = following != PADDING, loss_weights(batch, following)
        weights = None if weights is None else weights[valid]
        return projected_cross_entropy(hidden[valid], weight, following[valid], self.label_smoothing, weights)

    def counted(self, batch: Batch) -> Bool[Tensor, "batch target"]:
        return batch["target"][:, 1:] != PADDING

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Means over the tokens of each target, every one of them predicted from the right tokens before it."""
        hidden, weight, following = self._hidden(batch)
        valid, weights = (following != PADDING).float(), loss_weights(batch, following)
        found = token_metrics(hidden @ weight.mT, following)
        loss, right = step_mean(found["loss"], valid, weights), step_mean(found["accuracy"], valid)
        return {"loss": loss, "token_accuracy": right} | measured_weight(weights, valid)

    def _hidden(
        self, batch: Batch
    ) -> tuple[Float[Tensor, "batch target width"], Tensor, Int64[Tensor, "batch target"]]:
        """h after each token, W, and the tokens that should follow."""
        model, target = cast(ProjectedModel, self.model), batch["target"]
        return model(batch["source"], target[:, :-1], project=False), model.output_weight, target[:, 1:]


class NextTokenInWindow(Objective[nn.Module]):
    """A batch may have `scored`, true where a target counts. The logits of a whole batch never stand in memory."""

    phase = "next token"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return projected_cross_entropy(*self._scored(batch), token_weights=scored_weights(batch))

    def counted(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        return batch.get("scored", torch.ones_like(batch["target"], dtype=torch.bool))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " token"]]:
        """One value for each token, so that all of them weigh the same."""
        hidden, weight, target = self._scored(batch)
        at_once = max(1, LOGITS_AT_ONCE // len(weight))
        pieces = zip(hidden.split(at_once), target.split(at_once), strict=True)
        found = [token_metrics(h @ weight.mT, t) for h, t in pieces]
        whole = {name: torch.cat([metrics[name] for metrics in found]) for name in found[0]}
        return whole | measured_weight(scored_weights(batch))

    def _scored(self, batch: Batch) -> tuple[Float[Tensor, "token width"], Tensor, Int64[Tensor, " token"]]:
        model = cast(ProjectedModel, self.model)
        hidden, target = model(batch["input"], project=False), batch["target"]
        scored = batch.get("scored")
        if scored is None:
            return hidden.flatten(0, 1), model.output_weight, target.flatten()
        return hidden[scored], model.output_weight, target[scored]


class MaskedModel(Protocol):
    """A masked language model, whose `logits` can be had for a few places alone."""

    def __call__(self, tokens: Int64[Tensor, "batch time"], *, project: bool) -> Float[Tensor, "batch time width"]: ...

    def logits(self, hidden: Float[Tensor, "place width"]) -> Float[Tensor, "place token"]: ...


class MaskedToken(Objective[nn.Module]):
    """A batch has `scored` too, true at the masked places, which alone have logits and count."""

    phase = "masked token"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return weighted_mean(categorical_cross_entropy(*self._scored(batch)), scored_weights(batch))

    def counted(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        return batch["scored"]

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " place"]]:
        """One value for each masked place."""
        return token_metrics(*self._scored(batch)) | measured_weight(scored_weights(batch))

    def _scored(self, batch: Batch) -> tuple[Float[Tensor, "place token"], Int64[Tensor, " place"]]:
        model, scored = cast(MaskedModel, self.model), batch["scored"]
        return model.logits(model(batch["input"], project=False)[scored]), batch["target"][scored]


States: TypeAlias = tuple[State, ...]


@runtime_checkable
class StreamingModel(Protocol):
    """A model that reads a text in pieces: logits of the token after each, and the states to go on from."""

    def __call__(self, x: Int64[Tensor, "batch time"], *, states: Sequence[State]) -> RecurrenceOutput: ...

    def begin_stream(self, x: Int64[Tensor, "batch time"]) -> States: ...


class NextToken(Objective[nn.Module]):
    """A text is read in pieces. The gradient goes back to the beginning of its piece and no further (Williams and Peng
    1990), but the state goes on: what one piece ends with, the next begins with. So the network can use what lies
    further back than it is ever corrected for. Checkpoints hold the state: a killed run goes on to the same weights.

    A batch has `begins` too, true for rows that do not go on from the batch before. Padding in a target does not count.
    """

    phase = "next token"

    def __init__(self, model: nn.Module, *, carry_state: bool = True):
        self.model, self.carry_state = model, carry_state
        self._carried: States | None = None

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        logits, target, self._carried = self._read(batch, self._carried)
        return weighted_mean(categorical_cross_entropy(logits, target), self._weights(batch))

    def counted(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        return batch["target"] != PADDING

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " token"]]:
        """Of a text that begins with this batch."""
        return self.stream_metrics(batch, None)[0]

    def stream_metrics(
        self, batch: Batch, carried: States | None
    ) -> tuple[Mapping[str, Float[Tensor, " token"]], States | None]:
        """One value for each token, so that all of them weigh the same."""
        logits, target, carried = self._read(batch, carried)
        return token_metrics(logits, target) | measured_weight(self._weights(batch)), carried

    def _weights(self, batch: Batch) -> Float[Tensor, " token"] | None:
        weights = loss_weights(batch, batch["target"])
        return None if weights is None else weights[batch["target"] != PADDING]

    def state_dict(self) -> Mapping[str, Tensor]:
        """What training carries to the next batch, under the number of the state and the name of its part."""
        return {
            f"{number}.{name}": part
            for number, state in enumerate(self._carried or ())
            for name, part in zip(state._fields, state, strict=True)
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if state:
            device = next(self.model.parameters()).device
            zero = cast(StreamingModel, self.model).begin_stream(torch.zeros(1, 1, dtype=torch.int64, device=device))
            self._carried = tuple(
                type(each)(*(state[f"{number}.{name}"].to(device) for name in each._fields))
                for number, each in enumerate(zero)
            )

    def _read(
        self, batch: Batch, carried: States | None
    ) -> tuple[Float[Tensor, "token class"], Int64[Tensor, " token"], States | None]:
        model, begins = cast(StreamingModel, self.model), batch["begins"].unsqueeze(1)
        if carried is None or not self.carry_state or bool(begins.all()):
            states = model.begin_stream(batch["input"])
        else:
            states = map_states(lambda part: part.masked_fill(begins, 0), carried)
        read = model(batch["input"], states=states)
        valid = batch["target"] != PADDING
        return read.outputs[valid], batch["target"][valid], detach(read.states) if self.carry_state else None


def loss_weights(batch: Batch, losses: Shaped[Tensor, "batch *step"]) -> Float[Tensor, "batch *step"] | None:
    """The weight α of each loss of a batch: that of its step, or of its example. None, where all count the same."""
    weights = batch.get(WEIGHT)
    if weights is None:
        return None
    if weights.shape != losses.shape[: weights.ndim]:
        rule = f"weights of a batch must be one for each example, or for each step: {tuple(losses.shape)}"
        raise InputError(rule, got=f"{tuple(weights.shape)}")
    weights = weights if weights.is_floating_point() else weights.float()
    return weights.reshape(*weights.shape, *[1] * (losses.ndim - weights.ndim)).expand(losses.shape)


def scored_weights(batch: Batch) -> Float[Tensor, " token"] | None:
    """Of the targets that are `scored`, or of all."""
    weights = loss_weights(batch, batch["target"])
    if weights is None:
        return None
    return weights.flatten() if "scored" not in batch else weights[batch["scored"]]


def step_mean(
    values: Float[Tensor, "batch step"], valid: Shaped[Tensor, "batch step"], weights: Tensor | None = None
) -> Float[Tensor, " batch"]:
    """Of each example, over its valid steps."""
    if weights is None:
        return (values * valid).sum(-1) / valid.sum(-1)
    counted = weights * valid
    return (values * counted).sum(-1) / positive(counted.sum(-1))


def measured_weight(weights: Tensor | None, valid: Tensor | None = None) -> dict[str, Tensor]:
    """What evaluation weighs the loss of each example by, to stand among its metrics; of weights of steps, their
    mean."""
    if weights is None:
        return {}
    return {WEIGHT: weights if valid is None else step_mean(weights, valid)}


def token_metrics(logits: Float[Tensor, "*any class"], target: Num[Tensor, "*any"]) -> dict[str, Float[Tensor, "*any"]]:
    return {"loss": categorical_cross_entropy(logits, target), "accuracy": (logits.argmax(-1) == target).float()}


def as_columns(target: Num[Tensor, "batch *output"]) -> Num[Tensor, "batch output"]:
    """Targets as [batch output]. A plain [batch] is one column: as it is, it would broadcast to all pairs."""
    if target.ndim > 2:
        raise InputError("Regression needs targets of shape [batch] or [batch, outputs]", got=f"{tuple(target.shape)}")
    return target if target.ndim == 2 else target.unsqueeze(-1)


def matrices(model: nn.Module) -> Iterable[Tensor]:
    """Weights and kernels; a sparse bias or normalisation would make nothing simpler."""
    return (parameter for parameter in model.parameters() if parameter.ndim >= 2)
