"""What the data room hands out for captioning: pictures, and what people say of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from neuropil.data.splits import pick


@dataclass(frozen=True)
class CaptionedPictures:
    unit: ClassVar = "pictures"
    pictures: UInt8[Tensor, "picture channel height width"]
    captions: Sequence[Sequence[str]]
    """For each picture one caption or several, as they were given."""
    groups: Sequence[str]
    """One name for each picture, for a score by group: "three digits". None at all where the data has no groups."""
    source: str
    """Where they come from, for the report: "8,091 colour images of 48×64 with 40,455 captions (captions.txt)"."""

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def keys(self) -> list[bytes]:
        return [picture.tobytes() for picture in self.pictures.numpy()]

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of one picture."""
        return tuple(self.pictures.shape[1:])

    @property
    def texts(self) -> list[str]:
        """All captions, picture by picture."""
        return [caption for captions in self.captions for caption in captions]

    @property
    def picture_of(self) -> Int64[Tensor, " caption"]:
        """The number of the picture that each of `texts` is said of."""
        counts = torch.tensor([len(captions) for captions in self.captions], dtype=torch.int64)
        return torch.arange(len(self)).repeat_interleave(counts)

    def take(self, index: Int64[Tensor, " chosen"]) -> "CaptionedPictures":
        captions, groups = pick(self.captions, index), pick(self.groups, index)
        return CaptionedPictures(self.pictures[index], captions, groups, self.source)
