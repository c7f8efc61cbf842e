"""Convolutional network: the same small kernels look at every place of a picture.

    correlation     (w ⋆ x)[i, j] = Σ_c Σ_a Σ_b w[c, a, b] x[c, i + a, j + b]   what libraries call "convolution"
    convolution     (w ∗ x)[i, j] = Σ_c Σ_a Σ_b w[c, a, b] x[c, i − a, j − b]   with the kernel turned by 180°
    batch norm      BN(z) = γ (z − mean) / √(var + ε) + β      over batch and places; running values in evaluation
    residual block  y = φ(BN(w₂ ⋆ φ(BN(w₁ ⋆ x))) + S x)                           S: identity, or 1×1 where sizes change

Batch norm stands before the activation φ, as published (Ioffe and Szegedy 2015). With `norm_order="after"` it stands
between layers, as lecture notes often draw it: hidden layer, normalisation, rescaling by γ and β, next hidden layer.

    after           h = BN(φ(w ⋆ x)),    y = BN(φ(w₂ ⋆ BN(φ(w₁ ⋆ x)) + S x))

A stem and stages of residual blocks; each stage after the first halves the picture and doubles the channels. The mean
over all places and one linear layer make the logits.
"""

from collections.abc import Sequence

import torch
from einops import einsum, reduce
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.convolution import BlockSizes, NormOrder, ResidualBlock, Stack, same_convolution, stack_for
from neuropil.parts.parameters import Model
from neuropil.parts.standardize import Standardize
from neuropil.ranges import Range, times


class CNNConfig(Config):
    width: int = option(
        32, "channels of the first stage; each further stage doubles them", low=1, tune=times(1 / 2, 1, 2)
    )
    depth: int = option(1, "residual blocks in each stage", low=1, tune=times(1, 2))
    kernel: int = option(3, "kernel size; odd", low=1)
    dropout: float = option(0.2, "dropout probability before the output layer", low=0, high=0.95, tune=Range(0, 0.5))
    norm_order: NormOrder = option("before", "batch normalisation before or after the activation")
    shape: tuple[int, ...] = from_data((1, 8, 8), "channels, height and width of one picture")
    classes: int = from_data(10, "number of classes")

    def validate(self) -> None:
        if len(self.shape) != 3:
            raise InputError("a CNN needs pictures of channels, height and width", got=f"inputs of shape {self.shape}")
        if self.kernel % 2 == 0:
            raise InputError("kernel must be odd", got=f"{self.kernel}", fix=f"use {self.kernel + 1}")

    @property
    def stack(self) -> Stack:
        """The sizes of the stem and of all blocks."""
        return stack_for(self.shape, self.width, depth=self.depth, kernel=self.kernel)

    @property
    def stem_stride(self) -> int:
        return self.stack.stem_stride

    @property
    def blocks(self) -> Sequence[BlockSizes]:
        """Channels in, channels out and stride of each residual block."""
        return self.stack.blocks


class CNN(Model):
    def __init__(self, config: CNNConfig):
        super().__init__()
        self.config = config
        self.standardize = Standardize(config.shape)
        self.stem = same_convolution(config.shape[0], config.width, config.stack.stem_kernel, config.stem_stride)
        self.stem_norm = nn.BatchNorm2d(config.width)
        self.blocks = nn.Sequential(
            *(ResidualBlock(*sizes, config.kernel, config.norm_order) for sizes in config.blocks)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.blocks[-1][1], config.classes)

    def forward(self, x: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch class"]:
        x = self.standardize(x).contiguous(memory_format=torch.channels_last)  # the layout that CPUs convolve fastest
        h = self.stem(x)  # batch width places
        h = self.stem_norm(F.relu(h)) if self.config.norm_order == "after" else F.relu(self.stem_norm(h))
        h = self.blocks(h)  # batch features fewer places
        h = reduce(h, "batch channel height width -> batch channel", "mean")
        return self.output(self.dropout(h))


def correlate(
    picture: Float[Tensor, "channel height width"],
    kernels: Float[Tensor, "kernel channel a b"],
    stride: int = 1,
    padding: int = 0,
) -> Float[Tensor, "kernel i j"]:
    """The definition written out, as `nn.Conv2d` computes it: every kernel at every place of the picture."""
    size_a, size_b = kernels.shape[-2:]
    padded = F.pad(picture, (padding, padding, padding, padding))
    windows = padded.unfold(1, size_a, stride).unfold(2, size_b, stride)
    # (w ⋆ x)[i, j] = Σ_c Σ_a Σ_b w[c, a, b] x[c, i + a, j + b]
    return einsum(windows, kernels, "channel i j a b, kernel channel a b -> kernel i j")


def convolve(
    picture: Float[Tensor, "channel height width"],
    kernels: Float[Tensor, "kernel channel a b"],
    stride: int = 1,
    padding: int = 0,
) -> Float[Tensor, "kernel i j"]:
    """Convolution is correlation with kernels turned by 180°. A net that learns its kernels can do with either."""
    return correlate(picture, kernels.flip(-2, -1), stride, padding)


SIZES = {
    "small": CNNConfig(width=16),
    "base": CNNConfig(),
    "large": CNNConfig(width=64, depth=2),
}
