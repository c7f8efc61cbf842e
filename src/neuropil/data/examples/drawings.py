"""A drawing as a picture of a data set: cropped to its ink, and scaled and centred as the data set's pictures are.

Who made a data set of hand-written signs had every sign fill a box of one size, and put the middle of that box, or the
centre of mass, at one place (MNIST the latter). Both are read off examples, which stay most nearly as they are if they
are placed as they were before.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal, Self

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional as F

Middle = Literal["box", "mass"]
INK = 0.15
"""The least share of the darkest ink that counts as ink."""
WHITE = 255.0
COMPARED = 64
"""Examples by which the middle is chosen."""
FINER = 8
"""Rows and columns in each pixel at which a drawing is looked up."""


@dataclass(frozen=True)
class InkFrame:
    """Where pictures have their ink, in pixels: the longer side of its box, and the row and column of its middle."""

    shape: tuple[int, ...]
    side: float
    middle: tuple[float, float]
    by: tuple[Middle, Middle]
    """Which middle is at that row, and which at that column."""
    dark: bool
    """Whether ink is dark on a light ground."""

    @classmethod
    def fit(cls, pictures: UInt8[Tensor, "picture channel height width"]) -> Self:
        """From some of a data set's pictures."""
        dark = bool(pictures.float().median() > WHITE / 2)
        ink = pictures.float().mean(1) / WHITE
        ink = 1 - ink if dark else ink
        inked = has_ink(ink)
        ink = ink[inked]
        shape = tuple(pictures.shape[1:])
        if len(ink) == 0:
            return cls(shape, max(shape[1:]), (shape[1] / 2, shape[2] / 2), ("box", "box"), dark)
        middles, side = middles_of(ink)
        frames = [
            cls(
                shape,
                side.median().item(),
                (middles[row][:, 0].mean().item(), middles[column][:, 1].mean().item()),
                (row, column),
                dark,
            )
            for row, column in product(middles, middles)
        ]
        return min(frames, key=lambda frame: frame.changed(pictures[inked][:COMPARED], ink[:COMPARED]))

    def changed(
        self, pictures: UInt8[Tensor, "picture channel height width"], ink: Float[Tensor, "picture height width"]
    ) -> float:
        """By how much pictures change that are placed as if they were drawings."""
        placed = torch.cat([self.place(each) for each in ink])
        return (placed.float() - pictures.float()).square().mean().item()

    def place(self, drawing: Float[Tensor, "row column"]) -> UInt8[Tensor, "1 channel height width"]:
        """A drawing of ink from 0 to 1 as a picture; without ink it is an empty one."""
        channels, height, width = self.shape
        picture = drawing.new_zeros(height, width)
        if has_ink(drawing[None]):
            middles, side = middles_of(drawing[None])
            scale = side.item() / self.side  # pixels of the drawing in one of the picture
            rows, columns = (
                middles[by][0, axis] + scale * (places(size) - middle)
                for axis, (by, size, middle) in enumerate(zip(self.by, (height, width), self.middle, strict=True))
            )
            picture = looked_up(drawing, rows, columns)
        shade = WHITE * (1 - picture if self.dark else picture)
        return shade.round().to(torch.uint8).expand(1, channels, height, width).contiguous()


def has_ink(ink: Float[Tensor, "picture height width"]) -> Bool[Tensor, " picture"]:
    return ink.amax((1, 2)) > INK


def middles_of(
    ink: Float[Tensor, "picture height width"],
) -> tuple[dict[Middle, Float[Tensor, "picture 2"]], Float[Tensor, " picture"]]:
    """Row and column of the middles of the ink, and the longer side of its box."""
    inked = ink > INK * ink.amax((1, 2), keepdim=True)
    lines = inked.any(2).float(), inked.any(1).float()
    begin = torch.stack([line.argmax(1) for line in lines], 1)
    end = torch.stack([line.shape[1] - line.flip(1).argmax(1) for line in lines], 1)
    return {"box": (begin + end) / 2, "mass": centre_of_mass(ink)}, (end - begin).amax(1).float()


def centre_of_mass(ink: Float[Tensor, "picture height width"]) -> Float[Tensor, "picture 2"]:
    total = ink.sum((1, 2))
    sums = ((ink.sum(other) * (torch.arange(ink.shape[axis]) + 0.5)).sum(1) / total for axis, other in ((1, 2), (2, 1)))
    return torch.stack([*sums], 1)


def places(size: int) -> Float[Tensor, " place"]:
    """Of the finer rows or columns, in pixels."""
    return (torch.arange(size * FINER) + 0.5) / FINER


def looked_up(
    drawing: Float[Tensor, "row column"], rows: Float[Tensor, " fine_row"], columns: Float[Tensor, " fine_column"]
) -> Float[Tensor, "height width"]:
    """The drawing between its pixels at these places, nothing beyond them, and the mean over each pixel of the
    picture."""
    height, width = drawing.shape
    y, x = torch.meshgrid(2 * rows / height - 1, 2 * columns / width - 1, indexing="ij")
    fine = F.grid_sample(drawing[None, None], torch.stack([x, y], -1)[None].to(drawing), align_corners=False)
    return F.avg_pool2d(fine, FINER)[0, 0]
