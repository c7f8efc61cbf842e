"""Pictures with their captions as tokens, in batches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.pairs.batches import Sequences
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import END, PADDING, START, Batch
from neuropil.randomness import seeded


@dataclass(frozen=True)
class EncodedCaptions:
    pictures: UInt8[Tensor, "picture channel height width"]
    captions: Sequences
    """Each begins with the start token and ends with the end token."""
    picture_of: Int64[Tensor, " caption"]
    too_long: int = 0
    """How many captions were left out because they have too many tokens."""

    def __len__(self) -> int:
        return len(self.picture_of)

    def take(self, index: Int64[Tensor, " chosen"]) -> "EncodedCaptions":
        return replace(self, captions=self.captions.take(index), picture_of=self.picture_of[index])

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        return {"source": self.pictures[self.picture_of[index]], "target": self.captions.padded(index)}


def encode_captions(data: CaptionedPictures, tokenizer: Tokenizer, max_tokens: int | None = None) -> EncodedCaptions:
    """An example for each caption, without those of more than `max_tokens`, start and end among them."""
    encoded = [[START, *ids, END] for ids in tokenizer.encode(data.texts)]
    lengths = torch.tensor([len(ids) for ids in encoded], dtype=torch.int64)
    tokens = torch.tensor([token for ids in encoded for token in ids] + [PADDING], dtype=torch.int32)
    counts = torch.tensor([len(captions) for captions in data.captions], dtype=torch.int64)
    picture_of = torch.arange(len(data)).repeat_interleave(counts)
    whole = EncodedCaptions(data.pictures, Sequences(tokens, lengths.cumsum(0) - lengths, lengths), picture_of)
    if max_tokens is None:
        return whole
    kept = (lengths <= max_tokens).nonzero().flatten()
    return replace(whole.take(kept), too_long=len(lengths) - len(kept))


class CaptionBatches:
    """Passes over captions as ``{"source": pictures, "target": tokens}``, padded at the end. A pass is the same whenever it is made, and
    from whatever batch on.

    Captions of like lengths do not go together, though it would save padding: a batch of pictures of which there is much to say would tell
    so by its mean and spread, and batch normalisation would learn from them what a single picture does not show.
    """

    def __init__(
        self,
        encoded: EncodedCaptions,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
    ):
        self.encoded, self.size, self.seed = encoded, size, seed
        self.shuffle, self.augment, self.device = shuffle, augment, torch.device(device)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.encoded), self.size)
        # A batch of one picture has too little spread for batch normalisation: a single leftover joins the batch before it.
        return whole if rest == 0 or (rest == 1 < self.size and whole) else whole + 1

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        count = len(self.encoded)
        order = torch.randperm(count, generator=seeded(self.seed, number)) if self.shuffle else torch.arange(count)
        for index in range(start, len(self)):
            end = (index + 1) * self.size if index < len(self) - 1 else len(self.encoded)
            batch = {
                name: values.to(self.device)
                for name, values in self.encoded.batch(order[index * self.size : end]).items()
            }
            if self.augment is not None:
                batch["source"] = self.augment(batch["source"], seeded(self.seed, number, index))
            yield batch
