"""Texts as tokens in memory: with a class for each text, or a tag for each token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.length_batches import Change, Sequences
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import PADDING, UNKNOWN, Batch

Side = Literal["beginning", "end"]


@dataclass(frozen=True)
class EncodedTexts:
    inputs: Sequences
    targets: Int64[Tensor, " example"] | Sequences
    """A class for each text, or sequences of tags, as long as the texts."""
    too_long: int = 0
    """How many texts were cut."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def lengths(self) -> Int64[Tensor, "example 1"]:
        return self.inputs.lengths[:, None]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that there is to them."""
        return (
            *self.inputs.tensors,
            *(self.targets.tensors if isinstance(self.targets, Sequences) else [self.targets]),
        )

    def take(self, index: Int64[Tensor, " chosen"]) -> "EncodedTexts":
        targets = self.targets.take(index) if isinstance(self.targets, Sequences) else self.targets[index]
        return EncodedTexts(self.inputs.take(index), targets)

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        """Where tags are padded, so are the inputs: the number that stands there means nothing."""
        targets = self.targets.padded(index) if isinstance(self.targets, Sequences) else self.targets[index]
        return {"input": self.inputs.padded(index), "target": targets}


def encode_texts(
    texts: Sequence[str], targets: Int64[Tensor, " example"], tokenizer: Tokenizer, max_tokens: int, side: Side
) -> EncodedTexts:
    """The texts in their order; of one with more than `max_tokens`, so many at one side of it."""
    too_long = 0

    def cut(ids: list[int]) -> list[int]:
        nonlocal too_long
        too_long += len(ids) > max_tokens
        return shorten(ids, max_tokens, side)

    return EncodedTexts(Sequences.of_texts(texts, tokenizer, cut), targets, too_long)


def shorten(ids: list[int], max_tokens: int, side: Side) -> list[int]:
    """A text without any token is one that is unknown: there is always something to read."""
    return (ids[-max_tokens:] if side == "end" else ids[:max_tokens]) or [UNKNOWN]


def hide_tokens(share: float) -> Change:
    """Some tokens of each batch at random become unknown: no word alone may carry an answer, and unknown words are met before a test."""

    def hide(batch: Batch, generator: torch.Generator) -> Batch:
        tokens = batch["input"]
        hidden = (torch.rand(tokens.shape, generator=generator) < share) & (tokens != PADDING)
        return {**batch, "input": tokens.masked_fill(hidden, UNKNOWN)}

    return hide
