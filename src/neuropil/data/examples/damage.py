"""Pictures of which a part is covered or wrong, for models that make them whole."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, UInt8
from torch import Tensor

Side = Literal["top", "bottom", "left", "right"]
WHITE = 255


def uncovered(shape: Sequence[int], side: Side, share: float) -> Bool[Tensor, "channel height width"]:
    """Which pixels are seen of a picture of this shape, if so large a share is covered from one side."""
    known = torch.ones(tuple(shape), dtype=torch.bool)
    axis = 1 if side in ("top", "bottom") else 2
    size = shape[axis]
    hidden = round(share * size)
    known.narrow(axis, 0 if side in ("top", "left") else size - hidden, hidden).fill_(False)
    return known


def inverted(
    pictures: UInt8[Tensor, "picture channel height width"], share: float, generator: torch.Generator
) -> UInt8[Tensor, "picture channel height width"]:
    """With this share of all pixels, at random places, white where they were black."""
    wrong = torch.rand(pictures.shape, generator=generator) < share
    return torch.where(wrong, WHITE - pictures, pictures)
