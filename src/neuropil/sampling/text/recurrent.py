"""A recurrent model as one that reads new tokens and scores the next, as a transformer with a cache does."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.parts import recurrence
from neuropil.parts.recurrence import RecurrenceOutput
from neuropil.protocols import PADDING
from neuropil.sampling.text.generation import Step

Stream: TypeAlias = Callable[[Tensor, Sequence[Any] | None], RecurrenceOutput]
"""From tokens [batch time] and states to the logits of the token after each, and the next states."""


class RecurrentDecoderState:
    """The states of all layers, once something was read."""

    def __init__(self) -> None:
        self.states: tuple[recurrence.State, ...] | None = None

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        self.states = None if self.states is None else recurrence.reorder(self.states, index)


def step_of(stream: Stream) -> Step:
    """Of a model's `stream`; the state that it takes is `RecurrentDecoderState()` at first."""

    def step(
        tokens: Int64[Tensor, "row new"], state: RecurrentDecoderState, present: Bool[Tensor, "row new"] | None = None
    ) -> Float[Tensor, "row token"]:
        if present is None:
            outputs, state.states = stream(tokens, state.states)
            return outputs[:, -1]
        lengths = present.sum(1)
        outputs, state.states = stream(_to_the_left(tokens, lengths), state.states)
        return outputs[torch.arange(len(tokens), device=tokens.device), lengths - 1]

    return step


def _to_the_left(tokens: Int64[Tensor, "row new"], lengths: Int64[Tensor, " row"]) -> Int64[Tensor, "row new"]:
    """Padding moves from the left to the right, where recurrent models expect it."""
    time = tokens.shape[1]
    places = torch.arange(time, device=tokens.device) + (time - lengths)[:, None]
    return tokens.gather(1, places % time).masked_fill(places >= time, PADDING)
