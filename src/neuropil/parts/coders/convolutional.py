"""Convolutions from a picture to a vector of features, and back by transposed convolutions.

    encoder    hˡ = φ(wˡ ⋆ hˡ⁻¹ + bˡ)         stride 2: each stage halves the grid and doubles the channels
    decoder    hˡ = φ(wˡ ⋆ᵀ hˡ⁻¹ + bˡ)        ⋆ᵀ: the transpose of ⋆ as a linear map, which doubles the grid

Kernels are as wide as twice the stride, so that in the decoder every pixel is reached by equally many weights.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.parts.activations import ACTIVATIONS, ActivationName
from neuropil.parts.coders.dense import RECTIFIERS, dense
from neuropil.parts.parameters import TypedModuleList

KERNEL, STRIDE, PADDING = 4, 2, 1
SMALLEST, LARGEST_GRID = 8, 3
"""Shorter sides: of a picture, and of the grid at which halving ends."""


def stages(shape: Sequence[int], width: int) -> list[tuple[int, int, int]]:
    """Channels, rows and columns of the picture, and after each stage."""
    channels, height, breadth = require_picture(shape)
    grids = [(channels, height, breadth)]
    while min(height, breadth) > LARGEST_GRID:
        height, breadth = height // STRIDE, breadth // STRIDE
        grids.append((width * 2 ** (len(grids) - 1), height, breadth))
    return grids


def require_picture(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3:
        rule = "convolutional coders need pictures of channels, height and width"
        raise InputError(rule, got=f"inputs of shape {tuple(shape)}", fix="use --network dense")
    if min(shape[1:]) < SMALLEST:
        rule = f"convolutional coders need pictures of at least {SMALLEST}×{SMALLEST} pixels"
        raise InputError(rule, got=f"{shape[1]}×{shape[2]}", fix="use --network dense")
    channels, height, breadth = shape
    return channels, height, breadth


class ConvolutionalEncoder(nn.Module):
    def __init__(self, shape: Sequence[int], width: int, activation: ActivationName):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.shapes = stages(shape, width)
        self.layers = TypedModuleList[nn.Conv2d](
            strided(c, m, activation) for (c, *_), (m, *_) in pairwise(self.shapes)
        )
        self.features = math.prod(self.shapes[-1])

    def forward(self, u: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        h = u.contiguous(memory_format=torch.channels_last)  # the layout that CPUs convolve fastest
        for convolution in self.layers:
            # hˡ = φ(wˡ ⋆ hˡ⁻¹ + bˡ)
            h = self.activation(convolution(h))
        return h.flatten(1)


class ConvolutionalDecoder(nn.Module):
    """The stages of an encoder in reverse."""

    def __init__(self, latent_size: int, shape: Sequence[int], width: int, activation: ActivationName):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        grids = stages(shape, width)[::-1]
        self.grid = grids[0]
        self.input = dense(latent_size, math.prod(self.grid), activation)
        self.layers = TypedModuleList[nn.ConvTranspose2d](unstrided(*pair, activation) for pair in pairwise(grids))

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch channel height width"]:
        h = self.input(z).unflatten(1, self.grid).contiguous(memory_format=torch.channels_last)
        for convolution in self.layers:
            # hˡ = φ(wˡ ⋆ᵀ hˡ⁻¹ + bˡ); the last stage is a
            h = convolution(self.activation(h))
        return h


def strided(channels: int, kernels: int, activation: ActivationName) -> nn.Conv2d:
    layer = nn.Conv2d(channels, kernels, KERNEL, STRIDE, PADDING)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu" if activation in RECTIFIERS else "linear")
    nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
    return layer


def unstrided(small: Sequence[int], large: Sequence[int], activation: ActivationName) -> nn.ConvTranspose2d:
    """From one grid to the next larger one, whatever their sides are."""
    rest = missing(small[1:], large[1:])
    layer = nn.ConvTranspose2d(small[0], large[0], KERNEL, STRIDE, PADDING, output_padding=rest)
    # A pixel is reached by (kernel / stride)² weights of each channel, and a rectifier has halved what they carry.
    fan_in = small[0] * (KERNEL / STRIDE) ** 2
    nn.init.normal_(layer.weight, std=math.sqrt((2 if activation in RECTIFIERS else 1) / fan_in))
    nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
    return layer


def missing(small: Sequence[int], large: Sequence[int]) -> tuple[int, int]:
    """Rows and columns that a transposed convolution of the small grid would leave out of the large one."""
    rows, columns = (b - ((a - 1) * STRIDE - 2 * PADDING + KERNEL) for a, b in zip(small, large, strict=True))
    return rows, columns


def transposed(
    h: Float[Tensor, "batch kernel row column"], layer: nn.Conv2d, bias: Float[Tensor, " channel"], shape: Sequence[int]
) -> Float[Tensor, "batch channel height width"]:
    """The way back through a layer by its own kernels, to the shape that entered it."""
    rest = missing(h.shape[2:], shape[1:])
    return F.conv_transpose2d(h, layer.weight, bias, STRIDE, PADDING, output_padding=rest)
