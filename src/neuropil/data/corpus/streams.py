"""A long text as parallel streams, read in pieces: batches for truncated back-propagation through time.

stream 1   The "assert" state|ment *******|...
stream 2   names are refused |by the parse|...        each piece goes on where the one before it in its row ended
                 batch 1        batch 2
"""

from collections.abc import Iterator

import torch
from einops import rearrange
from jaxtyping import Int64, Integer
from torch import Tensor
from torch.nn import functional as F

from neuropil.data.batches import Device
from neuropil.data.corpus.windows import Tokens, require_two
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
        x, following = self._rows(skipped), self._rows(skipped + 1)
        for index in range(start, len(self)):
            here = slice(index * self.steps, (index + 1) * self.steps)
            target = following[:, here].long()
            # A row's last token has nothing to follow it, and is read in vain.
            batch = {"input": x[:, here].long().masked_fill(target == PADDING, PADDING), "target": target}
            batch["begins"] = torch.full((self.streams,), index == 0)
            yield {name: values.to(self.device) for name, values in batch.items()}

    def _rows(self, begin: int) -> Int64[Tensor, "stream time"] | Integer[Tensor, "stream time"]:
        wanted = self.streams * self.length
        tokens = self.tokens[begin : begin + wanted]
        padded = F.pad(tokens, (0, wanted - len(tokens)), value=PADDING)
        return rearrange(padded, "(stream time) -> stream time", stream=self.streams)
