"""U-Net (Ronneberger 2015) that is told the time (Ho 2020): a noisy picture goes down to few places and comes up again.

    e = W₂ φ(W₁ [cos ωt; sin ωt] + b₁) + b₂ + c_y          ω_j = 10000^(−j/J);   c_y is the embedding of the class y
    h ← S h + w₂ ⋆ φ(N(w₁ ⋆ φ(N(h)) + W φ(e)))             residual block;   S: identity, or 1×1 where channels change
    h ← h + Attention(N(h))                                every place looks at every other, where there are few
    down:  blocks, then every second place of w ⋆ h        up:  blocks of [h; what came down], then w ⋆ (h, doubled)

φ(z) = z σ(z) is SiLU, and N group normalisation. As many blocks as there are on the way down, and one more, lead up
again: each is given what one stage of the way down put out. Pictures whose sides cannot be halved so often are padded
at their ends inside.
"""

import math
from typing import Literal, TypeVar

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.unet.group_norm import GroupNormSiLU
from neuropil.parts.multi_head import MultiHeadAttention
from neuropil.parts.parameters import ParameterRow, TypedModuleList
from neuropil.parts.pretrained_model import PretrainedModel

SLOWEST = 10_000.0
L = TypeVar("L", nn.Conv2d, nn.Linear)
TimeEffect = Literal["shift", "scale_shift"]


class UNetConfig(Config):
    channels: tuple[int, ...] = option((64, 128, 128), "channels of each level; each after the first halves the sides")
    depth: int = option(2, "residual blocks at each level", low=1)
    attention_levels: tuple[int, ...] = option(
        (1, 2), "levels with self-attention, counted from 0, or from −1 for the last one backwards"
    )
    middle_attention: bool = option(True, "self-attention between the way down and the way up")
    head_width: int | None = option(None, "channels of each attention head; none: one head of all channels", low=1)
    groups: int = option(32, "groups of the group norms; they divide the channels", low=1)
    time_effect: TimeEffect = option("shift", "what the time does inside a block: shift, or scale_shift after the norm")
    time_width: int | None = option(None, "width of the time embedding; default: 4 × the first channels", low=1)
    dropout: float = option(0.0, "dropout probability", low=0, high=0.95)
    class_dropout: float = option(0.1, "probability to train without the class, for guidance", low=0, high=0.95)
    epsilon: float = option(1e-5, "group-norm epsilon", low=0)
    cosine_first: bool = from_data(True, "whether the cosines of the time stand before the sines")
    slowest_included: bool = from_data(False, "whether the slowest wave is 1/10000 itself: ω_j = 10000^(−j/(J−1))")
    pad_at_ends: bool = from_data(False, "whether halving pads at the right and below alone")
    shape: tuple[int, ...] = from_data((1, 28, 28), "channels, height and width of one picture")
    outputs: int | None = from_data(None, "channels of the output; as many as come in if none")
    classes: int = from_data(0, "number of classes; 0: pictures have none")

    @property
    def time_size(self) -> int:
        return self.time_width or 4 * self.channels[0]

    @property
    def factor(self) -> int:
        """Sides are halved until they are divided by this."""
        return 2 ** (len(self.channels) - 1)

    def attends(self, level: int) -> bool:
        return level in self.attention_levels or level - len(self.channels) in self.attention_levels

    @property
    def null_class(self) -> int | None:
        """What stands for no class, where a class was left out in training."""
        return self.classes if self.classes and self.class_dropout else None

    def validate(self) -> None:
        if not self.channels:
            raise InputError("channels must be a number for each level", got="none")
        for channels in self.channels:
            if channels < 1 or channels % self.groups:
                rule = f"the {self.groups} groups must divide the channels of every level"
                raise InputError(rule, got=f"{channels} channels")
        if self.channels[0] % 2 or (self.slowest_included and self.channels[0] < 4):
            rule = "channels must be even at the first level, for cosines and sines of the time"
            raise InputError(rule, got=f"{self.channels[0]}")
        count = len(self.channels)
        for level in self.attention_levels:
            if not -count <= level < count:
                rule = f"attention_levels must be from 0 to {count - 1}, or from −1 to −{count}, of {count} levels"
                raise InputError(rule, got=f"{level}")
        attended = [self.channels[level] for level in self.attention_levels]
        attended += self.channels[-1:] if self.middle_attention else []
        if self.head_width and any(channels % self.head_width for channels in attended):
            rule = "head_width must divide the channels of the levels with attention"
            raise InputError(rule, got=f"{self.head_width} for {', '.join(map(str, attended))} channels")
        if len(self.shape) != 3:
            rule = "a U-Net needs pictures of channels, height and width"
            raise InputError(rule, got=f"inputs of shape {self.shape}")
        if min(self.shape[1:]) < (least := 2 * self.factor):  # a single place cannot be normalised
            rule = f"a U-Net of {len(self.channels)} levels needs pictures of at least {least}×{least}"
            raise InputError(rule, got=f"{self.shape[1]}×{self.shape[2]}", fix="choose fewer levels")


class UNet(PretrainedModel):
    family = "unet2d"

    def __init__(self, config: UNetConfig):
        super().__init__()
        self.config = config
        levels, widths = range(len(config.channels)), config.channels
        self.stem = nn.Conv2d(config.shape[0], widths[0], 3, padding=1)
        self.time = TimeEmbedding(config)
        self.classes = ClassEmbedding(config) if config.classes else None
        self.down = TypedModuleList(DownStage(config, level) for level in levels)
        self.middle = Middle(config)
        self.up = TypedModuleList(UpStage(config, level) for level in reversed(levels))
        self.norm = GroupNormSiLU(config.groups, widths[0], config.epsilon)
        self.output = zeroed(nn.Conv2d(widths[0], config.outputs or config.shape[0], 3, padding=1))

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        time: Int64[Tensor, " batch"] | Float[Tensor, " batch"],
        classes: Int64[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch output height width"]:
        """Without classes, for pictures of any class, if it was trained for that."""
        height, width = x.shape[-2:]
        x = F.pad(x, (0, -width % self.config.factor, 0, -height % self.config.factor))
        e = F.silu(self.embed(time, classes))  # batch time_width
        # The layout that CPUs convolve fastest. Pictures of one channel cannot be said to have it before the stem.
        h = self.stem(x).contiguous(memory_format=torch.channels_last)
        skips = [h]
        for stage in self.down:
            h = stage(h, e, skips)
        h = self.middle(h, e)
        for stage in self.up:
            h = stage(h, e, skips)
        return self.output(self.norm(h))[..., :height, :width]

    def embed(self, time: Tensor, classes: Tensor | None) -> Float[Tensor, "batch time_width"]:
        e = self.time(time)
        if self.classes is None:
            return e
        return e + self.classes(classes, len(e))


class TimeEmbedding(nn.Module):
    """e = W₂ φ(W₁ [cos ωt; sin ωt] + b₁) + b₂"""

    def __init__(self, config: UNetConfig):
        super().__init__()
        self.waves, self.cosine_first = config.channels[0] // 2, config.cosine_first
        self.fastest_last = self.waves - config.slowest_included
        self.inner = nn.Linear(2 * self.waves, config.time_size)
        self.outer = nn.Linear(config.time_size, config.time_size)

    def forward(self, time: Tensor) -> Float[Tensor, "batch time_width"]:
        # ω_j = 10000^(−j/J)
        wave = torch.arange(self.waves, dtype=torch.float32, device=time.device)
        angle = time[:, None].float() * torch.exp(-math.log(SLOWEST) / self.fastest_last * wave)
        parts = (angle.cos(), angle.sin()) if self.cosine_first else (angle.sin(), angle.cos())
        return self.outer(F.silu(self.inner(torch.cat(parts, -1).to(self.inner.weight.dtype))))


class ClassEmbedding(nn.Module):
    """c_y, and one more vector for no class: in training it stands for any class now and then."""

    def __init__(self, config: UNetConfig):
        super().__init__()
        self.null, self.dropout = config.null_class, config.class_dropout
        self.table = nn.Embedding(config.classes + (self.null is not None), config.time_size)

    def forward(self, classes: Int64[Tensor, " batch"] | None, count: int) -> Float[Tensor, "batch time_width"]:
        if classes is None:
            if self.null is None:
                rule = "a model that was trained with the class of every picture needs classes"
                raise InputError(rule, got="none")
            classes = torch.full((count,), self.null, device=self.table.weight.device)
        elif self.training and self.null is not None:
            dropped = torch.rand(count, device=classes.device) < self.dropout
            classes = classes.masked_fill(dropped, self.null)
        return self.table(classes)


class TimedResidualBlock(nn.Module):
    """h ← S h + w₂ ⋆ φ(N(w₁ ⋆ φ(N(h)) + W φ(e)))"""

    def __init__(self, config: UNetConfig, channels: int, width: int):
        super().__init__()
        self.scales = config.time_effect == "scale_shift"
        self.norm1 = GroupNormSiLU(config.groups, channels, config.epsilon)
        self.convolution1 = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(config.time_size, 2 * width if self.scales else width)
        self.norm2 = (nn.GroupNorm if self.scales else GroupNormSiLU)(config.groups, width, config.epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.convolution2 = zeroed(nn.Conv2d(width, width, 3, padding=1))
        self.shortcut = nn.Identity() if channels == width else nn.Conv2d(channels, width, 1)

    def forward(
        self, x: Float[Tensor, "batch channel height width"], e: Float[Tensor, "batch time_width"]
    ) -> Float[Tensor, "batch channel2 height width"]:
        h = self.convolution1(self.norm1(x))
        if self.scales:
            scale, shift = rearrange(self.time(e), "batch (part channel) -> part batch channel 1 1", part=2)
            h = F.silu(self.norm2(h) * (1 + scale) + shift)
        else:
            h = self.norm2(h, self.time(e))
        return self.convolution2(self.dropout(h)).add_(self.shortcut(x))

    def parameter_row(self, name: str) -> ParameterRow:
        c, m, t = self.convolution1.in_channels, self.convolution1.out_channels, self.time.in_features
        formula = f"2*c + 9*c*m + 9*m^2 + 4*m + {'2*' if self.scales else ''}(t + 1)*m"
        return ParameterRow(name, formula + ("" if c == m else " + c*m + m"), {"c": c, "m": m, "t": t})


class PlaceAttention(nn.Module):
    """h ← h + Attention(N(h))"""

    def __init__(self, config: UNetConfig, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(config.groups, channels, config.epsilon)
        self.attention = MultiHeadAttention(channels, channels // (config.head_width or channels))
        zeroed(self.attention.output)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch channel height width"]:
        places = rearrange(self.norm(x), "batch channel height width -> batch (height width) channel")
        found = self.attention(places)
        return rearrange(found, "batch (height width) channel -> batch channel height width", height=x.shape[2]).add_(x)


class DownStage(nn.Module):
    """Blocks, with attention at some levels; then half as many rows and columns, but after the last level."""

    def __init__(self, config: UNetConfig, level: int):
        super().__init__()
        width, before = config.channels[level], config.channels[max(level - 1, 0)]
        attends = config.attends(level)
        sizes = [before, *[width] * (config.depth - 1)]
        self.blocks = TypedModuleList(TimedResidualBlock(config, channels, width) for channels in sizes)
        self.attentions = TypedModuleList(PlaceAttention(config, width) for _ in sizes if attends)
        last = level == len(config.channels) - 1
        self.downsample = None if last else Downsample(width, pad_at_ends=config.pad_at_ends)

    def forward(self, h: Tensor, e: Tensor, skips: list[Tensor]) -> Tensor:
        """What each block puts out, and the halved picture, is added to `skips`."""
        for number, block in enumerate(self.blocks):
            h = block(h, e)
            h = self.attentions[number](h) if self.attentions else h
            skips.append(h)
        if self.downsample is not None:
            h = self.downsample(h)
            skips.append(h)
        return h


class Middle(nn.Module):
    def __init__(self, config: UNetConfig):
        super().__init__()
        width = config.channels[-1]
        self.before = TimedResidualBlock(config, width, width)
        self.attention = PlaceAttention(config, width) if config.middle_attention else nn.Identity()
        self.after = TimedResidualBlock(config, width, width)

    def forward(self, h: Tensor, e: Tensor) -> Tensor:
        return self.after(self.attention(self.before(h, e)), e)


class UpStage(nn.Module):
    """Blocks of [h; what came down]; then twice as many rows and columns, but after the first level."""

    def __init__(self, config: UNetConfig, level: int):
        super().__init__()
        channels, width = config.channels, config.channels[level]
        deeper, before = channels[min(level + 1, len(channels) - 1)], channels[max(level - 1, 0)]
        attends = config.attends(level)
        coming, down = [deeper, *[width] * config.depth], [*[width] * config.depth, before]
        sizes = [sum(pair) for pair in zip(coming, down, strict=True)]
        self.blocks = TypedModuleList(TimedResidualBlock(config, size, width) for size in sizes)
        self.attentions = TypedModuleList(PlaceAttention(config, width) for _ in sizes if attends)
        self.upsample = Upsample(width) if level else None

    def forward(self, h: Tensor, e: Tensor, skips: list[Tensor]) -> Tensor:
        """The last of `skips` are taken."""
        for number, block in enumerate(self.blocks):
            h = block(torch.cat([h, skips.pop()], dim=1), e)
            h = self.attentions[number](h) if self.attentions else h
        return h if self.upsample is None else self.upsample(h)


class Downsample(nn.Module):
    """Every second place of w ⋆ h."""

    def __init__(self, channels: int, *, pad_at_ends: bool):
        super().__init__()
        self.pad_at_ends = pad_at_ends
        self.convolution = nn.Conv2d(channels, channels, 3, stride=2, padding=0 if pad_at_ends else 1)

    def forward(self, h: Tensor) -> Tensor:
        return self.convolution(F.pad(h, (0, 1, 0, 1)) if self.pad_at_ends else h)


class Upsample(nn.Module):
    """w ⋆ h, where h has every row and every column twice."""

    def __init__(self, channels: int):
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, h: Tensor) -> Tensor:
        # Twice the same value under three weights: four out of nine products do, with weights that are summed first.
        # k = [w₂, w₁ + w₂, w₀ + w₁, w₀] along each axis, from every place to the four by four around its two by two
        w = self.convolution.weight.flip(2, 3).transpose(0, 1)
        w = F.pad(w, (0, 1)) + F.pad(w, (1, 0))
        k = F.pad(w, (0, 0, 0, 1)) + F.pad(w, (0, 0, 1, 0))
        return F.conv_transpose2d(h, k, self.convolution.bias, stride=2, padding=1)


def zeroed(layer: L) -> L:
    nn.init.zeros_(layer.weight)
    return layer


SIZES = {
    "tiny": UNetConfig(channels=(32, 64), depth=1, attention_levels=(-1,), groups=8, shape=(1, 8, 8), classes=10),
    "small": UNetConfig(channels=(32, 64, 64), depth=1, attention_levels=(-1,), groups=8, classes=10),
    "cifar10": UNetConfig(
        channels=(128, 256, 256, 256), attention_levels=(1,), shape=(3, 32, 32), dropout=0.1, pad_at_ends=True
    ),
}
