"""Vision Transformer (Dosovitskiy 2021): a picture is a text of patches.

    x_0 = c + P_0,    x_i = W patch_i + b + P_i           c is a vector that stands for the whole picture
    x ← x + SelfAttention(N(x))
    x ← x + W₂ φ(W₁ N(x) + b₁) + b₂                       φ is gelu
    p(class) = softmax(V N(x_0) + d)

A picture of another size than the model was made for has another number of patches; their positions are then
interpolated.
"""

import torch
from einops import rearrange
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import from_data, option
from neuropil.errors import InputError
from neuropil.parts.blocks import StackConfig, initialise, stack
from neuropil.parts.parallel_plan import ParallelTransformer
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.parts.standardize import Standardize


class PatchStackConfig(StackConfig):
    """Of a stack of blocks over the patches of a picture."""

    patch: int | None = option(16, "patch size in pixels; none: the smallest that leaves at most 8 a side", low=1)
    dropout: float = option(0.0, "dropout probability", low=0, high=0.95)
    attention_dropout: float = option(0.0, "dropout probability of the attention weights", low=0, high=0.95)
    shape: tuple[int, ...] = from_data(
        (3, 224, 224), "channels, height and width of one picture; empty before there are any"
    )

    def validate(self) -> None:
        super().validate()
        if self.patch is not None and self.shape:
            require_patches(self.shape, self.patch)


class ViTConfig(PatchStackConfig):
    epsilon: float = option(1e-12, "layer-norm epsilon", low=0)
    classes: int = from_data(1_000, "number of classes")


class ViT(PretrainedModel, ParallelTransformer):
    family = "vit"

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.config = config
        self.standardize = Standardize(config.shape, any_size=True)
        self.patches = Patches(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = stack(config)
        self.norm, self.output = nn.LayerNorm(config.width, config.epsilon), nn.Linear(config.width, config.classes)
        initialise(self)

    def forward(self, pictures: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch class"]:
        return self.output(self.hidden(pictures)[:, 0])

    def hidden(self, pictures: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch place feature"]:
        """What stands for the whole picture, and for each of its patches, row by row."""
        x = self.dropout(self.patches(self.standardize(pictures)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Patches(nn.Module):
    """From a picture to a vector for each patch, before them one for the whole."""

    def __init__(self, config: PatchStackConfig, *, bias: bool = True):
        super().__init__()
        (channels, height, breadth), patch, width = config.shape, config.patch, config.width
        if patch is None:
            raise InputError("a model of patches needs a patch size", got="none")
        self.grid = (height // patch, breadth // patch)
        self.projection = nn.Conv2d(channels, width, patch, stride=patch, bias=bias)  # W
        self.whole = nn.Parameter(torch.empty(width))  # c
        self.positions = nn.Parameter(torch.empty(1 + self.grid[0] * self.grid[1], width))  # P
        for vectors in (self.whole, self.positions):
            nn.init.normal_(vectors, std=0.02)

    def forward(self, pictures: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch place feature"]:
        require_patches(tuple(pictures.shape[1:]), self.projection.kernel_size[0])
        x = self.projection(pictures)
        positions = self.positions_for(x.shape[2], x.shape[3])
        x = rearrange(x, "batch width row column -> batch (row column) width")
        return torch.cat([self.whole.expand(len(x), 1, -1).to(x.dtype), x], 1) + positions

    def positions_for(self, rows: int, columns: int) -> Float[Tensor, "place feature"]:
        if (rows, columns) == self.grid:
            return self.positions
        known = rearrange(self.positions[1:], "(row column) width -> 1 width row column", row=self.grid[0])
        other = F.interpolate(known, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([self.positions[:1], rearrange(other, "1 width row column -> (row column) width")])


def require_patches(shape: tuple[int, ...], patch: int) -> None:
    if len(shape) != 3 or shape[1] % patch or shape[2] % patch or 0 in shape:
        rule = f"pictures must be channels of rows and columns that patches of {patch} pixels fill"
        raise InputError(rule, got=f"the shape {list(shape)}")


SIZES = {
    "tiny": ViTConfig(width=64, heads=4, layers=4, patch=2, shape=(1, 8, 8), classes=10),
    "small": ViTConfig(width=128, heads=4, layers=6, patch=4, shape=(1, 28, 28), classes=10),
    "base_16": ViTConfig(width=768, heads=12, layers=12),
    "large_16": ViTConfig(width=1024, heads=16, layers=24),
}
