"""Predicting the token that follows: the objective of a language model, learned by truncated back-propagation through time.

    L = −(1/T) Σ_t ln p(x_{t+1} | x_1 … x_t)

A text is read in pieces. The gradient goes back to the beginning of its piece and no further (Williams and Peng 1990), but the state goes
on: what one piece ends with, the next begins with. So the network can use what lies further back than it is ever corrected for.

The carried state is part of where a run stands: it is saved with every checkpoint, and a run that was killed goes on to the same weights.

A model of attention sees a window of the text at once, and nothing of what comes before it (`NextTokenInWindow`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.parts.losses import LOGITS_AT_ONCE, categorical_cross_entropy, projected_cross_entropy
from neuropil.parts.recurrence import RecurrenceOutput, State, detach, map_states
from neuropil.protocols import PADDING, Batch, Phase


@runtime_checkable
class Streaming(Protocol):
    """A model that reads a text in pieces: logits of the token after each, and the states that the next piece begins with."""

    def stream(self, x: Int64[Tensor, "batch time"], states: Sequence[State] | None = None) -> RecurrenceOutput: ...

    def begin_stream(self, x: Int64[Tensor, "batch time"]) -> tuple[State, ...]: ...


class NextToken:
    """A batch is ``{"input": …, "target": …, "begins": …}``; `begins` is true for rows that do not go on from the batch before, and targets
    that are padding count for nothing."""

    def __init__(self, model: nn.Module, *, carry_state: bool = True):
        self.model, self.carry_state = model, carry_state
        self._training: tuple[State, ...] | None = None
        self._evaluating: tuple[State, ...] | None = None

    def phases(self) -> Sequence[Phase]:
        return [Phase("next token", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        logits, self._training = self._read(batch, self._training)
        there = batch["target"] != PADDING
        return categorical_cross_entropy(logits[there], batch["target"][there]).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " token"]]:
        """One value for each token, so that all of them weigh the same."""
        logits, self._evaluating = self._read(batch, self._evaluating)
        there = batch["target"] != PADDING
        logits, target = logits[there], batch["target"][there]
        return {"loss": categorical_cross_entropy(logits, target), "accuracy": (logits.argmax(-1) == target).float()}

    def memory(self) -> Mapping[str, Tensor]:
        """What training carries to the next batch, under the number of the state and the name of its part."""
        return {
            f"{number}.{name}": part
            for number, state in enumerate(self._training or ())
            for name, part in zip(state._fields, state, strict=True)
        }

    def recall(self, memory: Mapping[str, Tensor]) -> None:
        """Carry on with what `memory` gave."""
        if memory:
            device = next(self.model.parameters()).device
            nothing = cast(Streaming, self.model).begin_stream(torch.zeros(1, 1, dtype=torch.int64, device=device))
            self._training = tuple(
                type(state)(*(memory[f"{number}.{name}"].to(device) for name in state._fields))
                for number, state in enumerate(nothing)
            )

    def _read(
        self, batch: Batch, before: tuple[State, ...] | None
    ) -> tuple[Float[Tensor, "batch time token"], tuple[State, ...] | None]:
        states = self._begin(batch, before) if self.carry_state else None
        read = cast(Streaming, self.model).stream(batch["input"], states)
        return read.outputs, detach(read.states) if self.carry_state else None

    def _begin(self, batch: Batch, before: tuple[State, ...] | None) -> tuple[State, ...] | None:
        begins = batch["begins"].unsqueeze(1)
        if before is None or bool(begins.all()):
            return None
        return map_states(lambda part: part.masked_fill(begins, 0), before)


@runtime_checkable
class Projecting(Protocol):
    """A model whose logits are W h: `hidden` gives h for each token that is read."""

    def hidden(self, tokens: Int64[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]: ...

    @property
    def output_weight(self) -> Float[Tensor, "token width"]: ...


class NextTokenInWindow:
    """A batch is ``{"input": …, "target": …}``, and may have `scored`, true where a target counts. The logits of a whole batch never stand
    in memory."""

    def __init__(self, model: nn.Module):
        self.model, self.reader = model, cast(Projecting, model)

    def phases(self) -> Sequence[Phase]:
        return [Phase("next token", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        hidden, target = self._scored(batch)
        return projected_cross_entropy(hidden, self.reader.output_weight, target)

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " token"]]:
        """One value for each token, so that all of them weigh the same."""
        hidden, target = self._scored(batch)
        weight = self.reader.output_weight
        at_once = max(1, LOGITS_AT_ONCE // len(weight))
        losses, right = [], []
        for h, t in zip(hidden.split(at_once), target.split(at_once), strict=True):
            logits = h @ weight.mT
            losses.append(categorical_cross_entropy(logits, t))
            right.append((logits.argmax(-1) == t).float())
        return {"loss": torch.cat(losses), "accuracy": torch.cat(right)}

    def _scored(self, batch: Batch) -> tuple[Float[Tensor, "token width"], Int64[Tensor, " token"]]:
        hidden, target = self.reader.hidden(batch["input"]), batch["target"]
        if "scored" in batch:
            return hidden[batch["scored"]], target[batch["scored"]]
        return hidden.flatten(0, 1), target.flatten()
