"""New views of the same images: moved, turned, zoomed and mirrored, in one resampling of the whole batch.

A pixel at z = x + iy from the centre of the new image shows what the old image has at

    z' = e^{iφ} / s · z + t          φ: rotation,  s: zoom,  t: shift;  then x' → -x' in a mirrored image
"""

import math
from typing import TypeAlias

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Complex64, Float32, UInt8
from torch import Tensor

from neuropil.config import Config, option

Images: TypeAlias = UInt8[Tensor, "batch channel height width"]


class Augment(Config):
    shift: float = option(0.0, "training images are moved by up to this many pixels", low=0)
    rotate: float = option(0.0, "training images are turned by up to this many degrees", low=0, high=180)
    zoom: float = option(0.0, "training images are enlarged or shrunk by up to this share", low=0, high=0.9)
    flip: bool = option(False, "half of the training images are mirrored left to right")

    def __call__(self, images: Images, generator: torch.Generator) -> Images:
        if not (self.shift or self.rotate or self.zoom or self.flip):
            return images
        grid = self.lookup(images, generator)
        # Pixels beyond the edge repeat the edge: right for black and white backgrounds alike, and for photographs.
        moved = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
        return moved.add_(0.5).to(torch.uint8)  # bilinear values stay within 0…255; adding a half rounds them

    def lookup(self, images: Images, generator: torch.Generator) -> Float32[Tensor, "batch height width 2"]:
        """For each new pixel, where to look in the old image; both axes run from -1 to 1 between its outer edges."""
        num_images, _, height, width = images.shape
        draws = torch.rand(5, num_images, generator=generator, device=generator.device).to(images.device)
        turn, scale, right, down, mirror = rearrange(draws * 2 - 1, "kind batch -> kind batch 1 1")
        rotation = torch.polar(1 / (1 + self.zoom * scale), math.radians(self.rotate) * turn)
        z = rotation * positions(height, width, images.device) + self.shift * torch.complex(right, down)
        grid = torch.view_as_real(z) * torch.tensor([2 / width, 2 / height], device=images.device)
        if self.flip:
            grid[..., 0] *= torch.where(mirror < 0, -1, 1)
        return grid


def positions(height: int, width: int, device: torch.device) -> Complex64[Tensor, "height width"]:
    """x + iy of each pixel's centre, in pixels from the centre of the image."""
    y = torch.arange(height, device=device) - (height - 1) / 2
    x = torch.arange(width, device=device) - (width - 1) / 2
    return torch.complex(*torch.broadcast_tensors(x, y[:, None]))
