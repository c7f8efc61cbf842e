"""Batches of examples in memory: no copies but the batch itself, no worker processes. A pass is the same whenever it is
made, and from whatever batch on.

Sequences of any lengths come in batches of about as many tokens each: those of like lengths go together, so little is
padding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.tokenizers.encoding import Encoding
from neuropil.progress import tracked
from neuropil.protocols import PADDING, UNKNOWN, WEIGHT, Batch
from neuropil.randomness import seeded

TEXTS_PER_STEP = 10_000

Change: TypeAlias = Callable[[Batch, torch.Generator], Batch]
"""What is done to a batch at random before a model learns from it."""
ChangeTokens: TypeAlias = Callable[[list[int]], list[int]]
Side = Literal["beginning", "end", "both"]
Device: TypeAlias = torch.device | str


@runtime_checkable
class Batchable(Protocol):
    def __len__(self) -> int: ...

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch: ...


@runtime_checkable
class SequenceExamples(Batchable, Protocol):
    @property
    def lengths(self) -> Int64[Tensor, "example side"]:
        """Of each example, for each sequence that it holds."""
        ...


class ShuffledBatches:
    """Passes over examples in batches of `size`, in order or reshuffled each time; `augment` changes the images."""

    images = "input"
    """What a batch calls them."""

    def __init__(
        self,
        examples: Batchable,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        augment: Augment | None = None,
        device: Device = "cpu",
    ):
        self.examples, self.size, self.seed = examples, size, seed
        self.shuffle, self.augment, self.device = shuffle, augment, torch.device(device)

    def __len__(self) -> int:
        return -(-len(self.examples) // self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order, count = self.order(number), len(self)
        ends = [*range(self.size, count * self.size, self.size), len(order)]
        places = [(index * self.size, ends[index]) for index in range(start, count)]
        for index, batch in enumerate(self.gathered(order, places), start):
            batch = {name: values.to(self.device) for name, values in batch.items()}
            if self.augment is not None:
                batch[self.images] = self.augment(batch[self.images], seeded(self.seed, number, index))
            yield batch

    def gathered(self, order: Int64[Tensor, " example"], places: Sequence[tuple[int, int]]) -> Iterator[Batch]:
        return (self.gather(order, *place) for place in places)

    def gather(self, order: Int64[Tensor, " example"], begin: int, end: int) -> Batch:
        return self.examples.batch(order[begin:end])

    def order(self, number: int) -> Int64[Tensor, " example"]:
        """Of the examples in pass `number`."""
        count = len(self.examples)
        return torch.randperm(count, generator=seeded(self.seed, number)) if self.shuffle else torch.arange(count)


class SpreadBatches(ShuffledBatches):
    """A batch of one has no spread, and batch normalisation needs one: a single leftover joins the batch before it."""

    def __len__(self) -> int:
        whole, rest = divmod(len(self.examples), self.size)
        return whole if rest == 0 or (rest == 1 < self.size and whole) else whole + 1


# --- sequences of any lengths -----------------------------------------------------------------------------------------


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
    def of_texts(cls, texts: Sequence[str], tokenizer: Encoding, change: ChangeTokens) -> "Sequences":
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


class LengthBatches:
    """Passes over examples, padded at the end.

    A batch has room for the tokens of `size` average examples, padding included: fewer long ones, more short ones.
    """

    def __init__(
        self,
        examples: SequenceExamples,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        change: Change | None = None,
        device: Device = "cpu",
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

    Lengths that differ by less than a tenth count as equal, so that a shelf holds many examples. Shelves run from short
    to long by the longest side, and back and forth by the first minus the last, so that neighbours are alike in all.
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
    """Where batches end along the shelves: each as large as the budget allows, whichever examples come into it."""
    ends, begin, end, widths = [], 0, 0, [0]
    for count, needed in zip(counts, room, strict=True):
        while count:
            widths = [*map(max, widths, needed)] if end > begin else list(needed)
            free = budget // sum(widths) - (end - begin)
            if free <= 0 and end > begin:
                ends.append(end)
                begin = end
                continue
            placed = min(count, max(free, 1))
            end, count = end + placed, count - placed
    return [*ends, end] if end > begin else ends


# --- texts with a class each, or a tag for each token -----------------------------------------------------------------


@dataclass(frozen=True)
class EncodedTexts:
    inputs: Sequences
    targets: Int64[Tensor, " example"] | Sequences
    """A class for each text, or sequences of tags, as long as the texts."""
    too_long: int = 0
    """How many texts were cut."""
    weights: Float[Tensor, " example"] | None = None
    """Of the texts in the loss."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def lengths(self) -> Int64[Tensor, "example 1"]:
        return self.inputs.lengths[:, None]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that there is to them."""
        targets = self.targets.tensors if isinstance(self.targets, Sequences) else [self.targets]
        return *self.inputs.tensors, *targets, *([] if self.weights is None else [self.weights])

    def take(self, index: Int64[Tensor, " chosen"]) -> "EncodedTexts":
        targets = self.targets.take(index) if isinstance(self.targets, Sequences) else self.targets[index]
        weights = None if self.weights is None else self.weights[index]
        return EncodedTexts(self.inputs.take(index), targets, weights=weights)

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        """Where tags are padded, so are the inputs: the number that stands there means nothing."""
        targets = self.targets.padded(index) if isinstance(self.targets, Sequences) else self.targets[index]
        weights = {} if self.weights is None else {WEIGHT: self.weights[index]}
        return {"input": self.inputs.padded(index), "target": targets, **weights}


def encode_texts(
    texts: Sequence[str], targets: Int64[Tensor, " example"], tokenizer: Encoding, max_tokens: int, side: Side
) -> EncodedTexts:
    """The texts in their order; of one with more than `max_tokens`, so many of them. A text without any token is one
    that is unknown: there is always something to read."""
    too_long = 0

    def cut(ids: list[int]) -> list[int]:
        nonlocal too_long
        too_long += len(ids) > max_tokens
        return shorten(ids, max_tokens, side) or [UNKNOWN]

    return EncodedTexts(Sequences.of_texts(texts, tokenizer, cut), targets, too_long)


def shorten(ids: list[int], max_tokens: int, side: Side) -> list[int]:
    """Of both sides about half each."""
    if len(ids) <= max_tokens:
        return ids
    first = {"beginning": max_tokens, "end": 0, "both": max_tokens // 2}[side]
    return ids[:first] + ids[len(ids) - max_tokens + first :]


def hide_tokens(share: float, hidden: int = UNKNOWN, kept: Sequence[int] = (PADDING,)) -> Change:
    """Random tokens of each batch, save those that are `kept`, become `hidden`: no word alone carries an answer, and
    unknown words are seen."""

    def hide(batch: Batch, generator: torch.Generator) -> Batch:
        tokens = batch["input"]
        chosen = (torch.rand(tokens.shape, generator=generator) < share) & ~torch.isin(tokens, torch.tensor(kept))
        return {**batch, "input": tokens.masked_fill(chosen, hidden)}

    return hide
