"""Pictures that are cut into patches: how large a patch should be, and sizes that patches fill."""

import dataclasses
import math
from functools import partial

import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.nn import functional as F

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.examples.dataset import Examples
from neuropil.data.formats.picture_files import PictureFiles
from neuropil.data.splits import Splits

MOST_PATCHES_A_SIDE = 8
PICTURES_AT_ONCE = 1024

Shape = tuple[int, ...]
"""Channels, height and width."""


def choose_patch(shape: Shape) -> int | None:
    """The smallest patch that fills the picture, at most eight a side; None where only much larger ones would."""
    least = usual_patch(shape)
    common = math.gcd(*shape[1:])
    return next((side for side in range(least, 2 * least + 1) if common % side == 0), None)


def usual_patch(shape: Shape) -> int:
    return max(2, math.ceil(max(shape[1:]) / MOST_PATCHES_A_SIDE))


def filled_shape(shape: Shape, patch: int) -> Shape:
    """The size nearest to this one that patches fill."""
    channels, *sides = shape
    return channels, *(max(1, round(side / patch)) * patch for side in sides)


def resized_examples(splits: Splits[Examples], shape: Shape) -> Splits[Examples]:
    def resized(part: Examples) -> Examples:
        schema = dataclasses.replace(part.schema, shape=shape)
        pictures, source = part.inputs, _source(part.source, shape)
        if isinstance(pictures, PictureFiles):
            return Examples(pictures.then(partial(resize, shape=shape), shape), part.targets, schema, source)
        return Examples(resize(pictures, shape), part.targets, schema, source)

    return splits.map(resized)


def resized_captioned(splits: Splits[CaptionedPictures], shape: Shape) -> Splits[CaptionedPictures]:
    def resized(part: CaptionedPictures) -> CaptionedPictures:
        return dataclasses.replace(part, pictures=resize(part.pictures, shape), source=_source(part.source, shape))

    return splits.map(resized)


def resize(
    pictures: UInt8[Tensor, "picture channel height width"], shape: Shape
) -> UInt8[Tensor, "picture channel new_height new_width"]:
    if tuple(pictures.shape[1:]) == shape or not len(pictures):
        return pictures.reshape(-1, *shape)
    how = {"size": shape[1:], "mode": "bilinear", "antialias": True}
    parts = (F.interpolate(some.float(), **how) for some in pictures.split(PICTURES_AT_ONCE))
    return torch.cat([part.add_(0.5).clamp_(0, 255).to(torch.uint8) for part in parts])


def _source(source: str, shape: Shape) -> str:
    return f"{source}, resized to {shape[1]}×{shape[2]} for its patches"
