"""A long text in windows of one length, the context of a model: packed end to end, so that nothing is padding.

learning    |window 3|window 1|window 2|…              in another order and cut at other places in each pass
scoring     |read and scored    |
                  |read   |scored |                    each token has half a window before it, the first ones apart
                          |read   |scored |
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import Device
from neuropil.data.corpus.token_file import Tokens
from neuropil.errors import InputError
from neuropil.protocols import Batch
from neuropil.randomness import seeded

BLOCK, GROUP = 2**20, 2**27
"""Tokens of a block, and of the blocks that are shuffled together. A text that is held in memory is one group."""


class TextWindows:
    """Passes over one sequence of tokens as ``{"input": …, "target": …}``, the target being the next token.

    The sequence may be mapped from a file: of it only the windows of one batch are read at a time, of a long one for
    some time from a few blocks.
    """

    def __init__(self, tokens: Tokens, size: int, context: int, *, seed: int, device: Device = "cpu"):
        require_two(tokens)
        self.tokens, self.size, self.seed, self.device = tokens, size, seed, torch.device(device)
        self.context = min(context, len(tokens) - 1)
        predicted = len(tokens) - 1
        # Another place to begin costs up to a window, which a short text has not got to spare.
        most = min(self.context - 1, predicted - self.context, predicted // 10)
        half = 2 * self.context * ((predicted - most) // self.context) >= predicted
        self.most_skipped = most if half else predicted % self.context
        self.windows = (predicted - self.most_skipped) // self.context
        self.order = BlockOrder(self.windows, max(BLOCK // self.context, 1), max(GROUP // self.context, 1))

    def __len__(self) -> int:
        return -(-self.windows // self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        generator = seeded(self.seed, number)
        skipped = torch.randint(self.most_skipped + 1, (), generator=generator)
        groups = self.order.groups(generator, (self.seed, number), start * self.size)
        for part in batched(groups, self.size):
            rows = windows(self.tokens, skipped + self.context * part, self.context + 1)
            yield {name: values.to(self.device) for name, values in (("input", rows[:, :-1]), ("target", rows[:, 1:]))}


@dataclass(frozen=True)
class BlockOrder:
    """Numbers 0 … `count` − 1 in a random order, each once, without holding all of them.

        text      |block 0|block 1|block 2|block 3|block 4|block 5|
        groups    |block 4 and block 1|block 0 and block 5|…

    Neighbours stay in one block, and all blocks of a group are shuffled together. Where there is one group, all are.
    """

    count: int
    per_block: int
    per_group: int

    def groups(self, generator: torch.Generator, key: tuple[int, ...], start: int = 0) -> Iterator[Int64[Tensor, " _"]]:
        """From place `start` of the order on. The first is shuffled by the generator, others by the key and their
        number."""
        if self.count <= self.per_group:
            yield torch.randperm(self.count, generator=generator)[start:]
            return
        blocks = torch.randperm(-(-self.count // self.per_block), generator=generator)
        for number, group in enumerate(blocks.split(max(self.per_group // self.per_block, 1))):
            sizes = (self.count - group * self.per_block).clamp(max=self.per_block)
            size = int(sizes.sum())
            if start < size:
                inside = (
                    begin + torch.arange(length)
                    for begin, length in zip((group * self.per_block).tolist(), sizes.tolist(), strict=True)
                )
                yield torch.cat([*inside])[torch.randperm(size, generator=seeded(*key, number))][start:]
            start = max(start - size, 0)


def batched(groups: Iterable[Int64[Tensor, " _"]], size: int) -> Iterator[Int64[Tensor, " batch"]]:
    """In batches of `size`; the last may be smaller."""
    rest = torch.empty(0, dtype=torch.int64)
    for group in groups:
        *whole, rest = torch.cat([rest, group]).split(size)
        yield from whole
        if len(rest) == size:
            yield rest
            rest = rest[:0]
    if len(rest):
        yield rest


class SlidingWindows:
    """Every token of a sequence but the first is scored once, in order, as ``{"input": …, "target": …, "scored": …}``.

    Windows overlap by half, and of each only the tokens are scored that the one before it has not reached.
    """

    def __init__(self, tokens: Tokens, size: int, context: int, *, device: Device = "cpu"):
        require_two(tokens)
        self.tokens, self.size, self.device = tokens, size, torch.device(device)
        self.context = min(context, len(tokens) - 1)
        stride = max(self.context // 2, 1)
        last = len(tokens) - 1 - self.context
        self.begins = torch.cat([torch.arange(0, last, stride), torch.tensor([last])])
        """The last window ends with the text."""

    def __len__(self) -> int:
        return -(-len(self.begins) // self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        ends = self.begins + self.context
        reached = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
        for part, known in list(zip(self.begins.split(self.size), reached.split(self.size), strict=True))[start:]:
            rows = windows(self.tokens, part, self.context + 1)
            scored = part[:, None] + torch.arange(self.context) >= known[:, None]
            batch = {"input": rows[:, :-1], "target": rows[:, 1:], "scored": scored}
            yield {name: values.to(self.device) for name, values in batch.items()}


def windows(tokens: Tokens, begins: Int64[Tensor, " window"], length: int) -> Int64[Tensor, "window length"]:
    return torch.stack([tokens[begin : begin + length].long() for begin in begins.tolist()])


def require_two(tokens: Tokens) -> None:
    if len(tokens) < 2:
        raise InputError("a text to read must have two tokens or more", got=f"{len(tokens)}", fix="give more text")
