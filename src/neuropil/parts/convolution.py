"""Convolution: the same small kernels at every place of a picture, in blocks that pass on what comes in.

    residual block  y = φ(BN(w₂ ⋆ φ(BN(w₁ ⋆ x))) + S x)        S: identity, or a 1×1 kernel where sizes change
    after           y = BN(φ(w₂ ⋆ BN(φ(w₁ ⋆ x)) + S x))        the same with normalisation after the activation

A stack of such blocks makes a grid of features from a picture: a stem, then stages, each of which after the first
halves the grid and doubles the channels.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.parts.parameters import ParameterRow

NormOrder: TypeAlias = Literal["before", "after"]
"""Where batch normalisation stands: before the activation, or after it."""


class BlockSizes(NamedTuple):
    channels: int
    width: int
    stride: int


class Stack(NamedTuple):
    """The sizes of a stem and of the blocks that follow it."""

    channels: int
    kernel: int
    stem_kernel: int
    stem_stride: int
    blocks: Sequence[BlockSizes]
    grid: tuple[int, int]
    """Rows and columns that are left at the end."""

    @property
    def width(self) -> int:
        """Channels at the end."""
        return self.blocks[-1].width


def stack_for(
    shape: Sequence[int], width: int, *, depth: int = 1, kernel: int = 3, least: int = 12, at_once: bool = False
) -> Stack:
    """Large pictures are made smaller by the stem: by 4 or 2, as long as `least` places are left along the shorter
    side. Stages of `depth` blocks follow until the shorter side has 7 places or fewer; with `at_once`, already the
    first of them halves the grid."""
    channels, *sides = shape
    stride = max(stride for stride in (1, 2, 4) if stride == 1 or min(sides) >= least * stride)
    height, breadth = (math.ceil(side / stride) for side in sides)
    blocks = [] if at_once and min(height, breadth) > 7 else [BlockSizes(width, width, 1)] * depth
    while min(height, breadth) > 7:
        height, breadth = math.ceil(height / 2), math.ceil(breadth / 2)
        blocks += [BlockSizes(width, 2 * width, 2)] + [BlockSizes(2 * width, 2 * width, 1)] * (depth - 1)
        width *= 2
    # At least so large that no pixel is stepped over.
    return Stack(channels, kernel, max(kernel, 2 * stride - 1), stride, blocks, (height, breadth))


class ConvolutionStack(nn.Module):
    def __init__(self, sizes: Stack):
        super().__init__()
        self.sizes = sizes
        self.stem = same_convolution(sizes.channels, sizes.blocks[0].channels, sizes.stem_kernel, sizes.stem_stride)
        self.stem_norm = nn.BatchNorm2d(sizes.blocks[0].channels)
        self.blocks = nn.Sequential(*(ResidualBlock(*block, sizes.kernel) for block in sizes.blocks))

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature row column"]:
        x = x.contiguous(memory_format=torch.channels_last)  # the layout that CPUs convolve fastest
        return self.blocks(F.relu(self.stem_norm(self.stem(x))))


class ResidualBlock(nn.Module):
    """y = φ(BN(w₂ ⋆ φ(BN(w₁ ⋆ x))) + S x), or with normalisation after the activation."""

    def __init__(self, channels: int, width: int, stride: int, kernel: int, norm_order: NormOrder = "before"):
        super().__init__()
        self.norm_order = norm_order
        self.convolution1 = same_convolution(channels, width, kernel, stride)
        self.norm1 = nn.BatchNorm2d(width)
        self.convolution2 = same_convolution(width, width, kernel)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity() if channels == width else same_convolution(channels, width, 1, stride)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch channel2 height2 width2"]:
        if self.norm_order == "after":
            z = self.norm1(F.relu(self.convolution1(x)))
            return self.norm2(F.relu(self.convolution2(z) + self.shortcut(x)))
        z = F.relu(self.norm1(self.convolution1(x)))
        z = self.norm2(self.convolution2(z))
        return F.relu(z + self.shortcut(x))

    def parameter_row(self, name: str) -> ParameterRow:
        c, m, k = self.convolution1.in_channels, self.convolution1.out_channels, self.convolution1.kernel_size[0]
        return ParameterRow(name, f"c*m*k^2 + m^2*k^2 + 4*m{'' if c == m else ' + c*m'}", {"c": c, "m": m, "k": k})


def same_convolution(channels: int, kernels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Padded so that stride 1 keeps the size; without a bias, for β of the batch norm is one."""
    return nn.Conv2d(channels, kernels, size, stride, padding=size // 2, bias=False)
