"""Pictures with their captions as tokens, in batches: to learn to write captions, or to match them with one another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Int32, Int64, UInt8
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.batches import Device, Sequences, ShuffledBatches, SpreadBatches
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.protocols import END, START, Batch
from neuropil.randomness import seeded

Captions: TypeAlias = Int32[Tensor, "caption time"]
Lengths: TypeAlias = Int64[Tensor, " caption"]


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
    captions = Sequences.of([[START, *ids, END] for ids in tokenizer.encode(data.texts)])
    whole = EncodedCaptions(data.pictures, captions, data.picture_of)
    if max_tokens is None:
        return whole
    kept = (captions.lengths <= max_tokens).nonzero().flatten()
    return replace(whole.take(kept), too_long=len(whole) - len(kept))


class CaptionBatches(SpreadBatches):
    """Passes over captions as ``{"source": pictures, "target": tokens}``, padded at the end.

    Captions of like lengths do not go together, though it would save padding: a batch of pictures of which there is
    much to say would tell so by its mean and spread, and batch normalisation would learn from them what a single
    picture does not show.
    """

    images = "source"


# --- matching ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matches:
    """An example for each caption."""

    pictures: UInt8[Tensor, "picture channel height width"]
    captions: Captions
    """Between start and end, and filled up with the end."""
    lengths: Lengths
    picture_of: Int64[Tensor, " caption"]
    group: Int64[Tensor, " caption"]
    """The same for captions that are right for the same pictures."""
    shortened: int
    """How many captions lost their end, since they have more tokens than the model reads."""

    def __len__(self) -> int:
        return len(self.picture_of)

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        tokens = self.captions[index, : int(self.lengths[index].max())].long()
        return {"picture": self.pictures[self.picture_of[index]], "caption": tokens, "group": self.group[index]}


def encode_matches(data: CaptionedPictures, tokenizer: PublishedTokenizer, context: int) -> Matches:
    whole = [len(ids) for ids in tokenizer.encode(data.texts, special=True)]
    captions, lengths = padded_captions(data.texts, tokenizer, context)
    group, shortened = caption_groups(data)[data.picture_of], sum(length > context for length in whole)
    return Matches(data.pictures, captions, lengths, data.picture_of, group, shortened)


def padded_captions(texts: list[str], tokenizer: PublishedTokenizer, context: int) -> tuple[Captions, Lengths]:
    """Tokens between start and end, padded with the end, and their lengths without it; long captions are cut."""
    encoded = tokenizer.encode(texts, special=True, longest=context)
    lengths = torch.tensor([len(ids) for ids in encoded], dtype=torch.int64)
    longest = max(lengths.tolist(), default=0)
    tokens = torch.full((len(encoded), longest), tokenizer.end or 0, dtype=torch.int32)
    for row, ids in zip(tokens, encoded, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    return tokens, lengths


def caption_groups(data: CaptionedPictures) -> Int64[Tensor, " picture"]:
    """A number for each picture, the same where two are linked by common captions, directly or through others."""
    first_with: dict[str, int] = {}
    root = list(range(len(data)))

    def find(picture: int) -> int:
        while root[picture] != picture:
            root[picture] = picture = root[root[picture]]
        return picture

    for picture, captions in enumerate(data.captions):
        for text in captions:
            root[find(picture)] = find(first_with.setdefault(text, picture))
    return torch.tensor([find(picture) for picture in range(len(data))], dtype=torch.int64)


class MatchingBatches(ShuffledBatches):
    """Passes over captions as ``{"picture": …, "caption": …, "group": …}``. All batches have at least `size` pairs, if
    there are so many, since among fewer the right one is found more easily.

    With `short_first`, the first passes are made of the shortest captions alone, of such a share of all, again and
    again: what little they name is learned first, and among many that differ in much it would not be, since whatever
    else differs is enough to tell them apart.

    With `alike`, every so many batches of a pass are dealt out anew, so that captions with the same words come into one
    batch: then it takes their order to tell them apart, which a bag of words would not. Which words count most is drawn
    each time.
    """

    images = "picture"

    def __init__(
        self,
        matches: Matches,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        short_first: Sequence[float] = (),
        alike: int = 1,
        augment: Augment | None = None,
        device: Device = "cpu",
    ):
        super().__init__(matches, size, seed, shuffle=shuffle, augment=augment, device=device)
        self.matches, self.short_first, self.alike = matches, short_first, alike

    def __len__(self) -> int:
        return max(1, len(self.matches) // self.size) if len(self.matches) else 0

    def order(self, number: int) -> Int64[Tensor, " caption"]:
        if not self.shuffle:
            return super().order(number)
        count, generator = len(self.matches), seeded(self.seed, number)
        if number >= len(self.short_first):
            return self._dealt(torch.randperm(count, generator=generator), generator)
        shortest = self.matches.lengths.argsort(stable=True)[: math.ceil(self.short_first[number] * count)]
        rounds = math.ceil(count / len(shortest))
        return torch.cat([shortest[torch.randperm(len(shortest), generator=generator)] for _ in range(rounds)])[:count]

    def _dealt(self, order: Int64[Tensor, " caption"], generator: torch.Generator) -> Int64[Tensor, " caption"]:
        """What is left over after the last whole batch stays at the end."""
        whole = len(order) // self.size * self.size
        parts = []
        for part in order[:whole].split(self.size * max(self.alike, 1)):
            if self.alike > 1:
                weight = torch.randperm(int(self.matches.captions.max()) + 1, generator=generator)
                part = part[_sorted(weight[self.matches.captions[part].long()].sort(1).values)]
                batches = part.view(-1, self.size)
                part = batches[torch.randperm(len(batches), generator=generator)].flatten()
            parts.append(part)
        return torch.cat([*parts, order[whole:]])


def _sorted(rows: Int64[Tensor, "row column"]) -> Int64[Tensor, " row"]:
    """Their order in a dictionary."""
    order = torch.arange(len(rows))
    for column in reversed(range(rows.shape[1])):
        order = order[rows[order, column].argsort(stable=True)]
    return order
