"""Convolutional network: the same small kernels look at every place of a picture.

    correlation     (w ⋆ x)[i, j] = Σ_c Σ_a Σ_b w[c, a, b] x[c, i + a, j + b]      what every library computes as "convolution"
    convolution     (w ∗ x)[i, j] = Σ_c Σ_a Σ_b w[c, a, b] x[c, i − a, j − b]      the same, with the kernel turned by 180°
    batch norm      BN(z) = γ (z − mean) / √(var + ε) + β                            over batch and places; running values when evaluated
    residual block  y = φ(BN(w₂ ⋆ φ(BN(w₁ ⋆ x))) + S x)                              S: identity, or a 1×1 kernel where sizes change

A stem and stages of residual blocks; each stage after the first halves the picture and doubles the channels. The mean over all places
and one linear layer make the logits.
"""

import math

import torch
from einops import einsum, reduce
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.parameters import ParameterRow, linear_row
from neuropil.parts.standardize import Standardize


class CNNConfig(Config):
    width: int = option(32, "channels of the first stage; each further stage has twice as many", low=1)
    depth: int = option(1, "residual blocks in a stage", low=1)
    kernel: int = option(3, "height and width of the kernels; odd, so that they have a middle", low=1)
    dropout: float = option(0.2, "share of the features that are silenced before the last layer in each training step", low=0, high=0.95)
    shape: tuple[int, ...] = from_data((1, 8, 8), "channels, height and width of one picture")
    classes: int = from_data(10, "how many classes to tell apart")

    def validate(self) -> None:
        if len(self.shape) != 3:
            raise InputError("a CNN needs pictures of channels, height and width", got=f"inputs of shape {self.shape}")
        if self.kernel % 2 == 0:
            raise InputError("CNNConfig.kernel must be odd", got=f"{self.kernel}", fix=f"use {self.kernel + 1}")

    @property
    def stem_stride(self) -> int:
        """Large pictures are made smaller at once: by 4 or 2, as long as 12 places are left along the shorter side."""
        return max(stride for stride in (1, 2, 4) if stride == 1 or min(self.shape[1:]) >= 12 * stride)

    @property
    def blocks(self) -> list[tuple[int, int, int]]:
        """Channels in, channels out and stride of each residual block. Stages follow until the shorter side has 7 places or fewer."""
        side = math.ceil(min(self.shape[1:]) / self.stem_stride)
        blocks = [(self.width, self.width, 1)] * self.depth
        while side > 7:
            side, width = math.ceil(side / 2), blocks[-1][1]
            blocks += [(width, 2 * width, 2)] + [(2 * width, 2 * width, 1)] * (self.depth - 1)
        return blocks

    @property
    def stem_kernel(self) -> int:
        """At least so large that no pixel is stepped over."""
        return max(self.kernel, 2 * self.stem_stride - 1)


class CNN(nn.Module):
    def __init__(self, config: CNNConfig):
        super().__init__()
        self.config = config
        self.standardize = Standardize(config.shape)
        self.stem = same_convolution(config.shape[0], config.width, config.stem_kernel, config.stem_stride)
        self.stem_norm = nn.BatchNorm2d(config.width)
        self.blocks = nn.Sequential(*(ResidualBlock(*sizes, config.kernel) for sizes in config.blocks))
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.blocks[-1][1], config.classes)

    def forward(self, x: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch class"]:
        x = self.standardize(x).contiguous(memory_format=torch.channels_last)  # the layout that CPUs convolve fastest
        h = F.relu(self.stem_norm(self.stem(x)))  # batch width places
        h = self.blocks(h)  # batch features fewer places
        h = reduce(h, "batch channel height width -> batch channel", "mean")
        return self.output(self.dropout(h))

    def parameter_table(self) -> list[ParameterRow]:
        config = self.config
        stem = {"c": config.shape[0], "m": config.width, "k": config.stem_kernel}
        rows = [ParameterRow("stem", "c*m*k^2", stem), ParameterRow("stem_norm", "2*m", {"m": config.width})]
        for i, (c, m, _) in enumerate(config.blocks):
            shortcut = "" if c == m else " + c*m"
            rows.append(ParameterRow(f"blocks.{i}", f"c*m*k^2 + m^2*k^2 + 4*m{shortcut}", {"c": c, "m": m, "k": config.kernel}))
        return [*rows, linear_row("output", config.blocks[-1][1], config.classes)]


class ResidualBlock(nn.Module):
    """y = φ(BN(w₂ ⋆ φ(BN(w₁ ⋆ x))) + S x)"""

    def __init__(self, channels: int, width: int, stride: int, kernel: int):
        super().__init__()
        self.convolution1 = same_convolution(channels, width, kernel, stride)
        self.norm1 = nn.BatchNorm2d(width)
        self.convolution2 = same_convolution(width, width, kernel)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity() if channels == width else same_convolution(channels, width, 1, stride)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch channel2 height2 width2"]:
        z = F.relu(self.norm1(self.convolution1(x)))
        z = self.norm2(self.convolution2(z))
        return F.relu(z + self.shortcut(x))


def same_convolution(channels: int, kernels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Padded so that stride 1 keeps the size; without a bias, for β of the batch norm is one."""
    return nn.Conv2d(channels, kernels, size, stride, padding=size // 2, bias=False)


def correlate(
    picture: Float[Tensor, "channel height width"], kernels: Float[Tensor, "kernel channel a b"], stride: int = 1, padding: int = 0
) -> Float[Tensor, "kernel i j"]:
    """The definition written out, as `nn.Conv2d` computes it: every kernel is laid on every place of the picture, multiplied and summed."""
    size_a, size_b = kernels.shape[-2:]
    padded = F.pad(picture, (padding, padding, padding, padding))
    windows = padded.unfold(1, size_a, stride).unfold(2, size_b, stride)
    # (w ⋆ x)[i, j] = Σ_c Σ_a Σ_b w[c, a, b] x[c, i + a, j + b]
    return einsum(windows, kernels, "channel i j a b, kernel channel a b -> kernel i j")


def convolve(
    picture: Float[Tensor, "channel height width"], kernels: Float[Tensor, "kernel channel a b"], stride: int = 1, padding: int = 0
) -> Float[Tensor, "kernel i j"]:
    """Convolution is correlation with kernels turned by 180°. A net that learns its kernels can do with either."""
    return correlate(picture, kernels.flip(-2, -1), stride, padding)


SIZES = {
    "small": CNNConfig(width=16),
    "base": CNNConfig(),
    "large": CNNConfig(width=64, depth=2),
}
