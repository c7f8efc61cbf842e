"""Sequences of any lengths in batches of about as many tokens each: those of like lengths go together, so little is padding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int32, Int64
from torch import Tensor

from neuropil.data.formats.contents import tracked
from neuropil.data.tokenizers.encoding import Encoding
from neuropil.protocols import PADDING, Batch
from neuropil.randomness import seeded

TEXTS_PER_STEP = 10_000

Change: TypeAlias = Callable[[Batch, torch.Generator], Batch]
"""What is done to a batch at random before a model learns from it."""


@dataclass(frozen=True)
class Sequences:
    """Token sequences of any lengths, end to end in one tensor whose last token is padding."""

    tokens: Int32[Tensor, " token"]
    begins: Int64[Tensor, " sequence"]
    lengths: Int64[Tensor, " sequence"]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Sequences":
        return cls._joined([np.fromiter(chain.from_iterable(sequences), dtype=np.int32)], list(map(len, sequences)))

    @classmethod
    def of_texts(
        cls, texts: Sequence[str], tokenizer: Encoding, change: Callable[[list[int]], list[int]]
    ) -> "Sequences":
        """What `change` makes of each text's tokens, some thousands of texts at a time."""
        tokens, lengths = [], []
        for begin in tracked(range(0, len(texts), TEXTS_PER_STEP), "Splitting texts into tokens"):
            encoded = list(map(change, tokenizer.encode(texts[begin : begin + TEXTS_PER_STEP])))
            tokens.append(np.fromiter(chain.from_iterable(encoded), dtype=np.int32))
            lengths += map(len, encoded)
        return cls._joined(tokens, lengths)

    @classmethod
    def _joined(cls, tokens: list[np.ndarray], lengths: list[int]) -> "Sequences":
        length = torch.tensor(lengths, dtype=torch.int64)
        end = np.array([PADDING], dtype=np.int32)
        return cls(torch.from_numpy(np.concatenate([*tokens, end])), length.cumsum(0) - length, length)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """All that there is to it."""
        return self.tokens, self.begins, self.lengths

    def padded(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, "batch time"]:
        lengths = self.lengths[index, None]
        time = torch.arange(int(lengths.max()))
        where = self.begins[index, None] + time
        return self.tokens[where.masked_fill_(time >= lengths, -1)].long()

    def take(self, index: Int64[Tensor, " chosen"]) -> "Sequences":
        return replace(self, begins=self.begins[index], lengths=self.lengths[index])


@runtime_checkable
class Batchable(Protocol):
    @property
    def lengths(self) -> Int64[Tensor, "example side"]:
        """Of each example, for each sequence that it holds."""
        ...

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch: ...


class LengthBatches:
    """Passes over examples, padded at the end. A pass is the same whenever it is made, from any batch on.

    A batch has room for the tokens of `size` average examples, padding included: of long ones it holds fewer, of short ones more.
    """

    def __init__(
        self,
        examples: Batchable,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        change: Change | None = None,
        device: torch.device | str = "cpu",
    ):
        self.examples, self.size, self.seed, self.shuffle = examples, size, seed, shuffle
        self.change, self.device = change, torch.device(device)
        lengths = examples.lengths
        self.budget = size * int(lengths.sum()) // max(len(lengths), 1)
        self._shelf, room = arrange(lengths)
        self._ends = cut(self._shelf.bincount().tolist(), room, self.budget)

    def __len__(self) -> int:
        return len(self._ends)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Examples of one shelf change places with one another from pass to pass; so do whole batches."""
        generator, count = seeded(self.seed, number), len(self._shelf)
        order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        order = order[self._shelf[order].argsort(stable=True)]
        sequence = torch.randperm(len(self), generator=generator).tolist() if self.shuffle else range(len(self))
        change = self.change or (lambda batch, _: batch)
        for index in sequence[start:]:
            begin = self._ends[index - 1] if index else 0
            batch = self.examples.batch(order[begin : self._ends[index]])
            changed = change(batch, seeded(self.seed, number, index))
            yield {name: tokens.to(self.device) for name, tokens in changed.items()}


def arrange(lengths: Int64[Tensor, "example side"]) -> tuple[Int64[Tensor, " example"], list[list[int]]]:
    """Sort examples onto shelves: which one each is put on, and the lengths that each shelf has room for.

    Lengths that differ by less than a tenth count as equal, so that a shelf holds many examples. Shelves run from short to long by the
    longest side, and back and forth by the difference of the first and the last, so that neighbours are alike in all.
    """
    steps = ladder(int(lengths.max())) if len(lengths) else torch.ones(1, dtype=torch.int64)
    step = torch.bucketize(lengths, steps)
    longest, difference = step.amax(1), step[:, 0] - step[:, -1]
    forth = torch.where(longest % 2 == 0, difference, -difference)
    place = longest * 2 * len(steps) + forth + len(steps)
    places, shelf = place.unique(return_inverse=True)
    room = torch.zeros(len(places), lengths.shape[1], dtype=torch.int64)
    room[shelf] = steps[step]
    return shelf, room.tolist()


def ladder(longest: int) -> Int64[Tensor, " step"]:
    """Lengths 1, 3, 5 … in steps of two, then of a tenth."""
    steps = [1]
    while steps[-1] < longest:
        steps.append(max(steps[-1] + 2, steps[-1] * 11 // 10))
    return torch.tensor(steps)


def cut(counts: Sequence[int], room: Sequence[Sequence[int]], budget: int) -> list[int]:
    """Where batches end along the shelves: each as large as the budget allows, whichever of a shelf's examples come into it."""
    ends, begin, end, widths = [], 0, 0, [0]
    for count, needed in zip(counts, room, strict=True):
        while count:
            widths = (
                [max(width, need) for width, need in zip(widths, needed, strict=True)] if end > begin else list(needed)
            )
            free = budget // sum(widths) - (end - begin)
            if free <= 0 and end > begin:
                ends.append(end)
                begin = end
                continue
            placed = min(count, max(free, 1))
            end, count = end + placed, count - placed
    return [*ends, end] if end > begin else ends
