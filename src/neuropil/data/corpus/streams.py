"""A long text as parallel streams, read in pieces: batches for truncated back-propagation through time.

stream 1   The "assert" state|ment *******|...
stream 2   names are refused |by the parse|...        each piece goes on where the one before it in its row ended
                 batch 1        batch 2
"""

from collections.abc import Iterator

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import Device
from neuropil.data.corpus.token_file import Tokens
from neuropil.data.corpus.windows import require_two
from neuropil.protocols import PADDING, Batch
from neuropil.randomness import seeded


class TextStreams:
    """Passes over one sequence of tokens as ``{"input": …, "target": …, "begins": …}``; targets are the next tokens.

    `begins` is true for rows that do not go on from the batch before. With a `seed`, each pass cuts the text at other
    places, and what does not fill a row is left for another pass; without one, every token is there once, and the last
    row is filled up with padding.
    """

    def __init__(self, tokens: Tokens, streams: int, steps: int, *, seed: int | None = None, device: Device = "cpu"):
        require_two(tokens)
        self.tokens, self.seed, self.device = tokens, seed, torch.device(device)
        self.steps = min(steps, len(tokens) - 1)
        self.most_skipped = 0 if seed is None else min(self.steps - 1, len(tokens) // 10)
        predicted = len(tokens) - 1 - self.most_skipped
        self.streams = min(streams, predicted)
        self.length = -(-predicted // self.streams) if seed is None else predicted // self.streams
        """Of each stream."""

    def __len__(self) -> int:
        return -(-self.length // self.steps)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        skipped = 0
        if self.seed is not None:
            skipped = int(torch.randint(self.most_skipped + 1, (), generator=seeded(self.seed, number)))
        for index in range(start, len(self)):
            rows = self._rows(skipped, index)
            x, target = rows[:, :-1], rows[:, 1:]
            # A row's last token has nothing to follow it, and is read in vain.
            batch = {"input": x.masked_fill(target == PADDING, PADDING), "target": target}
            batch["begins"] = torch.full((self.streams,), index == 0)
            yield {name: values.to(self.device) for name, values in batch.items()}

    def _rows(self, begin: int, index: int) -> Int64[Tensor, "stream time"]:
        """A piece of each stream and the token after it, of streams of which the first begins with this token."""
        first, end = index * self.steps, min((index + 1) * self.steps, self.length) + 1
        places = range(begin, begin + self.streams * self.length, self.length)
        rows = torch.full((self.streams, end - first), PADDING)
        for row, place in zip(rows, places, strict=True):
            piece = self.tokens[place + first : place + end]
            row[: len(piece)] = piece
        return rows
