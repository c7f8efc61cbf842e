"""What the data room hands out for tracking: films, and where in each frame the object is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float32, Int64, UInt8
from torch import Tensor

from neuropil.protocols import Batch


@dataclass(frozen=True)
class Films:
    """Films of any lengths, their frames one after another."""

    unit: ClassVar = "films"
    frames: UInt8[Tensor, "frame channel height width"]
    lengths: Int64[Tensor, " film"]
    positions: Float32[Tensor, "frame 2"]
    """x to the right and y down, in pixels of the frames as they were given; NaN where nobody knows them."""
    hidden: Bool[Tensor, " frame"]
    """True where the object is there but cannot be seen. Nowhere, in data that does not say."""
    names: Sequence[str]
    size: tuple[int, int]
    """Height and width of the frames as they were given; what is kept of them may be smaller."""
    source: str
    """Where they come from, as a phrase for the report: "120 films of 24 grey images of 48×64 (frames)"."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def keys(self) -> list[bytes]:
        return [film.numpy().tobytes() for film in self.frames.split(self.lengths.tolist())]

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of one frame."""
        return tuple(self.frames.shape[1:])

    @property
    def begins(self) -> Int64[Tensor, " film"]:
        return self.lengths.cumsum(0) - self.lengths

    @property
    def known(self) -> Bool[Tensor, " frame"]:
        return self.positions.isfinite().all(-1)

    def take(self, index: Int64[Tensor, " chosen"]) -> "Films":
        where = self._where(index)
        of_frames = {name: getattr(self, name)[where] for name in ("frames", "positions", "hidden")}
        names = [self.names[number] for number in index.tolist()]
        return replace(self, lengths=self.lengths[index], names=names, **of_frames)

    def pieces(self, longest: int) -> "Films":
        """The same frames in shorter films; a piece without a known position teaches nothing, and is left out."""
        pairs = [(name, int(length)) for name, length in zip(self.names, self.lengths, strict=True)]
        cut = [(name, min(longest, length - start)) for name, length in pairs for start in range(0, length, longest)]
        lengths = torch.tensor([length for _, length in cut], dtype=torch.int64)
        films = replace(self, names=[name for name, _ in cut], lengths=lengths)
        known = torch.tensor([bool(part.any()) for part in self.known.split(films.lengths.tolist())])
        return films if bool(known.all()) else films.take(known.nonzero().flatten())

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        """Films filled up at their ends: frames with black, positions with NaN."""
        lengths = self.lengths[index]
        valid_mask = torch.arange(int(lengths.max())) < lengths[:, None]
        where = self._where(index)
        frames = self.frames.new_zeros(*valid_mask.shape, *self.shape)
        positions = self.positions.new_full((*valid_mask.shape, 2), torch.nan)
        frames[valid_mask], positions[valid_mask] = self.frames[where], self.positions[where]
        return {"input": frames, "length": lengths, "target": positions}

    def _where(self, index: Int64[Tensor, " chosen"]) -> Int64[Tensor, " frame"]:
        """The numbers of all frames of these films."""
        lengths = self.lengths[index]
        first = (self.begins[index] - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
        return first + torch.arange(len(first))
