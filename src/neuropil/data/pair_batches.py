"""Pairs of texts as tokens in memory, in batches of about as many tokens each: pairs of like lengths go together, so little is padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int32, Int64
from torch import Tensor

from neuropil.data.pairs import Pairs
from neuropil.data.reading import tracked
from neuropil.data.tokenizers import Tokenizer
from neuropil.protocols import END, PADDING, START, Batch
from neuropil.randomness import seeded

TEXTS_PER_STEP = 10_000


@dataclass(frozen=True)
class Sequences:
    """Token sequences of any lengths, end to end in one tensor whose last token is padding."""

    tokens: Int32[Tensor, " token"]
    begins: Int64[Tensor, " sequence"]
    lengths: Int64[Tensor, " sequence"]

    def padded(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, "batch time"]:
        lengths = self.lengths[index, None]
        time = torch.arange(int(lengths.max()))
        where = self.begins[index, None] + time
        return self.tokens[where.masked_fill_(time >= lengths, -1)].long()

    def take(self, index: Int64[Tensor, " chosen"]) -> "Sequences":
        return replace(self, begins=self.begins[index], lengths=self.lengths[index])


@dataclass(frozen=True)
class EncodedPairs:
    sources: Sequences
    """Each ends with the end token."""
    targets: Sequences
    """Each begins with the start token and ends with the end token."""
    too_long: int = 0
    """How many pairs were left out because a side has too many tokens."""

    def __len__(self) -> int:
        return len(self.sources.lengths)

    def take(self, index: Int64[Tensor, " chosen"]) -> "EncodedPairs":
        return replace(self, sources=self.sources.take(index), targets=self.targets.take(index))

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        return {"source": self.sources.padded(index), "target": self.targets.padded(index)}


def encode_pairs(pairs: Pairs, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, max_tokens: int | None = None) -> EncodedPairs:
    """The pairs in their order, without those that have a side of more than `max_tokens`, its start and end among them."""
    sources = _sequences(pairs.sources, source_tokenizer, [], [END])
    targets = _sequences(pairs.targets, target_tokenizer, [START], [END])
    if max_tokens is None:
        return EncodedPairs(sources, targets)
    kept = (torch.maximum(sources.lengths, targets.lengths) <= max_tokens).nonzero().flatten()
    return EncodedPairs(sources.take(kept), targets.take(kept), too_long=len(pairs) - len(kept))


class PairBatches:
    """Passes over pairs as ``{"source": …, "target": …}``, padded at the end. A pass is the same whenever it is made, from any batch on.

    A batch has room for the tokens of `size` average pairs, padding included: of long pairs it holds fewer, of short ones more.
    """

    def __init__(self, encoded: EncodedPairs, size: int, seed: int, *, shuffle: bool, device: torch.device | str = "cpu"):
        self.encoded, self.size, self.seed, self.shuffle, self.device = encoded, size, seed, shuffle, torch.device(device)
        source, target = encoded.sources.lengths, encoded.targets.lengths
        total = int(source.sum() + target.sum())
        self.budget = size * total // max(len(encoded), 1)
        self._shelf, room = arrange(source, target)
        self._ends = cut(self._shelf.bincount().tolist(), room, self.budget)

    def __len__(self) -> int:
        return len(self._ends)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """Pairs of one shelf change places with one another from pass to pass; so do whole batches."""
        generator = seeded(self.seed, number)
        order = torch.randperm(len(self.encoded), generator=generator) if self.shuffle else torch.arange(len(self.encoded))
        order = order[self._shelf[order].argsort(stable=True)]
        sequence = torch.randperm(len(self), generator=generator).tolist() if self.shuffle else range(len(self))
        for index in sequence[start:]:
            begin = self._ends[index - 1] if index else 0
            batch = self.encoded.batch(order[begin : self._ends[index]])
            yield {name: tokens.to(self.device) for name, tokens in batch.items()}


def arrange(source: Int64[Tensor, " pair"], target: Int64[Tensor, " pair"]) -> tuple[Int64[Tensor, " pair"], list[tuple[int, int]]]:
    """Sort pairs onto shelves: which one each is put on, and the source and target length that each shelf has room for.

    Lengths that differ by less than a tenth count as equal, so that a shelf holds many pairs. Shelves run from short to long by the
    longer side, and back and forth by the other, so that neighbours are alike in both.
    """
    steps = ladder(int(max(source.max(), target.max()))) if len(source) else torch.ones(1, dtype=torch.int64)
    i, j = torch.bucketize(source, steps), torch.bucketize(target, steps)
    longer = torch.maximum(i, j)
    forth = torch.where(longer % 2 == 0, i - j, j - i)
    place = longer * 2 * len(steps) + forth + len(steps)
    places, shelf = place.unique(return_inverse=True)
    room = torch.zeros(len(places), 2, dtype=torch.int64)
    room[shelf] = torch.stack([steps[i], steps[j]], dim=1)
    return shelf, [(source_room, target_room) for source_room, target_room in room.tolist()]


def ladder(longest: int) -> Int64[Tensor, " step"]:
    """Lengths 1, 3, 5 … in steps of two, then of a tenth."""
    steps = [1]
    while steps[-1] < longest:
        steps.append(max(steps[-1] + 2, steps[-1] * 11 // 10))
    return torch.tensor(steps)


def cut(counts: Sequence[int], room: Sequence[tuple[int, int]], budget: int) -> list[int]:
    """Where batches end along the shelves: each as large as the budget allows, whichever of a shelf's pairs come into it."""
    ends, begin, end, source, target = [], 0, 0, 0, 0
    for count, (source_room, target_room) in zip(counts, room, strict=True):
        while count:
            source, target = max(source, source_room), max(target, target_room)
            free = budget // (source + target) - (end - begin)
            if free <= 0 and end > begin:
                ends.append(end)
                begin, source, target = end, 0, 0
                continue
            placed = min(count, max(free, 1))
            end, count = end + placed, count - placed
    return [*ends, end] if end > begin else ends


def _sequences(texts: Sequence[str], tokenizer: Tokenizer, before: list[int], after: list[int]) -> Sequences:
    tokens, lengths = [], []
    for begin in tracked(range(0, len(texts), TEXTS_PER_STEP), "Splitting texts into tokens"):
        encoded = [before + ids + after for ids in tokenizer.encode(texts[begin : begin + TEXTS_PER_STEP])]
        tokens.append(np.fromiter(chain.from_iterable(encoded), dtype=np.int32))
        lengths += map(len, encoded)
    tokens.append(np.array([PADDING], dtype=np.int32))
    length = torch.tensor(lengths, dtype=torch.int64)
    return Sequences(torch.from_numpy(np.concatenate(tokens)), length.cumsum(0) - length, length)
