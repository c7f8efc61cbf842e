"""Pictures, each with one of its captions, in batches for matching them with one another."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int32, Int64, UInt8
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.protocols import Batch
from neuropil.randomness import seeded


@dataclass(frozen=True)
class Matches:
    """An example for each caption."""

    pictures: UInt8[Tensor, "picture channel height width"]
    captions: Int32[Tensor, "caption time"]
    """Between start and end, and filled up with the end."""
    lengths: Int64[Tensor, " caption"]
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
    counts = torch.tensor([len(captions) for captions in data.captions], dtype=torch.int64)
    picture_of = torch.arange(len(data)).repeat_interleave(counts)
    captions, lengths = padded_captions(data.texts, tokenizer, context)
    group = caption_groups(data)[picture_of]
    return Matches(data.pictures, captions, lengths, picture_of, group, sum(length > context for length in whole))


def padded_captions(
    texts: list[str], tokenizer: PublishedTokenizer, context: int
) -> tuple[Int32[Tensor, "caption time"], Int64[Tensor, " caption"]]:
    """Tokens between start and end, filled up with the end, and how many there are before that. What is too long loses its end."""
    encoded = tokenizer.encode(texts, special=True, longest=context)
    lengths = torch.tensor([len(ids) for ids in encoded], dtype=torch.int64)
    tokens = torch.full(
        (len(encoded), int(lengths.max()) if len(encoded) else 0), tokenizer.end or 0, dtype=torch.int32
    )
    for row, ids in zip(tokens, encoded, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    return tokens, lengths


def caption_groups(data: CaptionedPictures) -> Int64[Tensor, " picture"]:
    """A number for each picture, the same where two have a caption in common, or each has one in common with a third."""
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


class MatchingBatches:
    """Passes over captions as ``{"picture": …, "caption": …, "group": …}``. A pass is the same whenever it is made, and from whatever batch
    on. All batches have at least `size` pairs, if there are so many, since among fewer the right one is found more easily.

    With `short_first`, the first passes are made of the shortest captions alone, of such a share of all, again and again: what little they
    name is learned first, and among many that differ in much it would not be, since whatever else differs is enough to tell them apart.

    With `alike`, every so many batches of a pass are dealt out anew, so that captions with the same words come into one batch: then it
    takes their order to tell them apart, which a bag of words would not. Which words count most is drawn each time.
    """

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
        device: torch.device | str = "cpu",
    ):
        self.matches, self.size, self.seed, self.short_first, self.alike = matches, size, seed, short_first, alike
        self.shuffle, self.augment, self.device = shuffle, augment, torch.device(device)

    def __len__(self) -> int:
        return max(1, len(self.matches) // self.size) if len(self.matches) else 0

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = self._order(number) if self.shuffle else torch.arange(len(self.matches))
        for index in range(start, len(self)):
            end = (index + 1) * self.size if index < len(self) - 1 else len(order)
            batch = {
                name: values.to(self.device)
                for name, values in self.matches.batch(order[index * self.size : end]).items()
            }
            if self.augment is not None:
                batch["picture"] = self.augment(batch["picture"], seeded(self.seed, number, index))
            yield batch

    def _order(self, number: int) -> Int64[Tensor, " caption"]:
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
