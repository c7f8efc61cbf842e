"""Pairs of texts as tokens in memory, in batches of about as many tokens each."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import LengthBatches, Sequences
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import END, START, Batch


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

    @property
    def lengths(self) -> Int64[Tensor, "pair side"]:
        return torch.stack([self.sources.lengths, self.targets.lengths], dim=1)

    def take(self, index: Int64[Tensor, " chosen"]) -> "EncodedPairs":
        return replace(self, sources=self.sources.take(index), targets=self.targets.take(index))

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        return {"source": self.sources.padded(index), "target": self.targets.padded(index)}


def encode_pairs(
    pairs: Pairs, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, max_tokens: int | None = None
) -> EncodedPairs:
    """The pairs in order, without those that have a side of more than `max_tokens`, start and end included."""
    sources = Sequences.of_texts(pairs.sources, source_tokenizer, lambda ids: [*ids, END])
    targets = Sequences.of_texts(pairs.targets, target_tokenizer, lambda ids: [START, *ids, END])
    if max_tokens is None:
        return EncodedPairs(sources, targets)
    kept = (torch.maximum(sources.lengths, targets.lengths) <= max_tokens).nonzero().flatten()
    return EncodedPairs(sources.take(kept), targets.take(kept), too_long=len(pairs) - len(kept))


class PairBatches(LengthBatches):
    """Passes over pairs as ``{"source": …, "target": …}``."""
