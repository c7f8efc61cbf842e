"""CLIP (Radford 2021): a network that sees and a network that reads, which meet in one space.

    u_i = W_u N(ViT(picture_i)_0) / ‖·‖             a picture, as what its whole stands for
    v_j = W_v N(Text(caption_j)_end) / ‖·‖          a caption, as what its last token stands for
    z_ij = e^s u_i · v_j                            e^s is learned, and no larger than 100
    L = ½ mean_i (−ln softmax_j(z_ij) at j = i) + ½ mean_j (−ln softmax_i(z_ij) at i = j)

Both networks are stacks of pre-norm blocks with φ(x) = x σ(1.702 x). The one that reads is causal, as GPT-2 is.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.vit import Patches, require_patches
from neuropil.parts.blocks import Block, HiddenName, StackConfig, initialise, stack
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.parts.objectives import Objective
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.pretrained_model import Published
from neuropil.parts.standardize import Standardize
from neuropil.protocols import Batch

SHARPEST = math.log(100)


class CLIPConfig(Config):
    shared: int = option(512, "numbers in the space where pictures and captions meet", low=1)
    width: int = option(768, "numbers that stand for a patch", low=2)
    heads: int = option(12, "attention heads in each layer that sees; they divide the width", low=1)
    layers: int = option(12, "blocks that see", low=1)
    patch: int = option(32, "height and width of a patch in pixels", low=1)
    text_width: int = option(512, "numbers that stand for a token", low=2)
    text_heads: int = option(8, "attention heads in each layer that reads; they divide its width", low=1)
    text_layers: int = option(12, "blocks that read", low=1)
    context: int = option(77, "tokens that can be read at once", low=1)
    activation: HiddenName = option("quick_gelu", "what a hidden unit does to its input")
    dropout: float = option(0.0, "share of each sublayer's output that is silenced in training", low=0, high=0.95)
    epsilon: float = option(1e-5, "what a norm adds to the variance", low=0)
    feed_forward: int = from_data(3072, "hidden units of each feed-forward net that sees")
    text_feed_forward: int = from_data(2048, "hidden units of each feed-forward net that reads")
    shape: tuple[int, ...] = from_data((3, 224, 224), "channels, height and width of one picture")
    vocabulary: int = from_data(49_408, "tokens to tell apart")
    end: int = from_data(49_407, "the token that ends a caption")
    kept_heads: tuple[int, ...] = from_data(
        (), "heads that each attention still has, in the order of the modules; all if empty"
    )

    def validate(self) -> None:
        require_patches(self.shape, self.patch)
        modules = self.layers + self.text_layers
        if self.kept_heads and len(self.kept_heads) != modules:
            raise InputError(
                f"kept_heads must be a number for each of the {modules} attention modules", got=f"{self.kept_heads}"
            )
        _ = self.seeing, self.reading  # which check themselves

    @property
    def seeing(self) -> StackConfig:
        kept = self.kept_heads[: self.layers]
        return self._stack(self.width, self.heads, self.layers, self.feed_forward, kept)

    @property
    def reading(self) -> StackConfig:
        kept = self.kept_heads[self.layers :]
        return self._stack(self.text_width, self.text_heads, self.text_layers, self.text_feed_forward, kept)

    def _stack(self, width: int, heads: int, layers: int, feed_forward: int, kept: tuple[int, ...]) -> StackConfig:
        return StackConfig(
            width=width,
            heads=heads,
            layers=layers,
            feed_forward=feed_forward,
            kept_heads=kept,
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=0.0,
            epsilon=self.epsilon,
        )


class CLIP(Published):
    family = "clip"

    def __init__(self, config: CLIPConfig):
        super().__init__()
        self.config = config
        self.seeing, self.reading = Seeing(config), Reading(config)
        self.picture_projection = nn.Linear(config.width, config.shared, bias=False)  # W_u
        self.text_projection = nn.Linear(config.text_width, config.shared, bias=False)  # W_v
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))  # s
        begin(self)

    def forward(
        self, pictures: Num[Tensor, "picture channel height width"], captions: Int64[Tensor, "caption time"]
    ) -> Float[Tensor, "picture caption"]:
        """How well each picture fits each caption: z_ij."""
        return self.compare(self.embed_pictures(pictures), self.embed_texts(captions))

    def compare(
        self, u: Float[Tensor, "picture shared"], v: Float[Tensor, "caption shared"]
    ) -> Float[Tensor, "picture caption"]:
        # z_ij = e^s u_i · v_j
        return self.scale.clamp(max=SHARPEST).exp() * u @ v.mT

    def embed_pictures(self, pictures: Num[Tensor, "picture channel height width"]) -> Float[Tensor, "picture shared"]:
        """u_i, of unit length."""
        return F.normalize(self.picture_projection(self.seeing(pictures)), dim=-1)

    def embed_texts(self, captions: Int64[Tensor, "caption time"]) -> Float[Tensor, "caption shared"]:
        """v_j, of unit length. What stands after the end token is not read."""
        return F.normalize(self.text_projection(self.reading(captions)), dim=-1)

    def parameter_table(self) -> list[ParameterRow]:
        config = self.config
        rows = [*self.seeing.parameter_rows("seeing"), *self.reading.parameter_rows("reading")]
        rows.append(ParameterRow("picture_projection", "d*u", {"d": config.width, "u": config.shared}))
        rows.append(ParameterRow("text_projection", "d*u", {"d": config.text_width, "u": config.shared}))
        return [*rows, ParameterRow("scale", "1 + 0*u", {"u": config.shared})]


class Seeing(nn.Module):
    def __init__(self, config: CLIPConfig):
        super().__init__()
        self.standardize = Standardize(config.shape, any_size=True)
        self.patches = Patches(config.shape, config.patch, config.width, bias=False)
        self.first_norm, self.norm = (nn.LayerNorm(config.width, config.epsilon) for _ in range(2))
        self.blocks = cast(Sequence[Block], nn.ModuleList(stack(config.seeing)))

    def forward(self, pictures: Num[Tensor, "picture channel height width"]) -> Float[Tensor, "picture feature"]:
        x = self.first_norm(self.patches(self.standardize(pictures)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 0])

    def parameter_rows(self, name: str) -> list[ParameterRow]:
        rows = [self.patches.parameter_row(f"{name}.patches")]
        rows += [block.parameter_row(f"{name}.blocks.{number}") for number, block in enumerate(self.blocks)]
        return [
            *rows,
            *(ParameterRow(f"{name}.{norm}", "2*d", {"d": len(self.patches.whole)}) for norm in ("first_norm", "norm")),
        ]


class Reading(nn.Module):
    def __init__(self, config: CLIPConfig):
        super().__init__()
        self.end = config.end
        self.tokens = nn.Embedding(config.vocabulary, config.text_width)
        self.positions = nn.Embedding(config.context, config.text_width)
        self.blocks = cast(Sequence[Block], nn.ModuleList(stack(config.reading)))
        self.norm = nn.LayerNorm(config.text_width, config.epsilon)

    def forward(self, captions: Int64[Tensor, "caption time"]) -> Float[Tensor, "caption width"]:
        if captions.shape[1] > len(self.positions.weight):
            raise InputError(
                f"this model reads {len(self.positions.weight)} tokens at once",
                got=f"{captions.shape[1]}",
                fix="shorten it",
            )
        x = self.tokens(captions) + self.positions.weight[: captions.shape[1]]
        for block in self.blocks:
            x = block(x, causal=True)
        at_end = (captions == self.end).int().argmax(1)
        return self.norm(x[torch.arange(len(x), device=x.device), at_end])

    def parameter_rows(self, name: str) -> list[ParameterRow]:
        tables = {"tokens": self.tokens.weight, "positions": self.positions.weight}
        rows = [
            ParameterRow(f"{name}.{part}", "n*d", {"n": len(table), "d": table.shape[1]})
            for part, table in tables.items()
        ]
        rows += [block.parameter_row(f"{name}.blocks.{number}") for number, block in enumerate(self.blocks)]
        return [*rows, ParameterRow(f"{name}.norm", "2*d", {"d": self.tokens.weight.shape[1]})]


def begin(model: CLIP) -> None:
    """First weights as CLIP's: their spread follows from the width, so that a narrow model learns from the start too."""
    initialise(model)
    config, patches = model.config, model.seeing.patches
    for tower, width, layers in (
        (model.seeing, config.width, config.layers),
        (model.reading, config.text_width, config.text_layers),
    ):
        for block in tower.blocks:
            nn.init.normal_(block.attention.projection.weight, std=width**-0.5)
            nn.init.normal_(block.feed_forward.inner.weight, std=(2 * width) ** -0.5)
            for back in (
                block.attention.output,
                block.feed_forward.outer,
            ):  # what is added to the sum, 2 · layers times
                nn.init.normal_(back.weight, std=(2 * layers * width) ** -0.5)
    nn.init.normal_(patches.projection.weight, std=patches.projection.weight[0].numel() ** -0.5)
    for weight, width in (
        (patches.whole, config.width),
        (patches.positions, config.width),
        (model.picture_projection.weight, config.width),
        (model.text_projection.weight, config.text_width),
    ):
        nn.init.normal_(weight, std=width**-0.5)


class Matching(Objective[CLIP]):
    """A batch is ``{"picture": …, "caption": …, "group": …}``. Pictures whose captions say the same have the same group
    number, and each of their captions is right for all of them."""

    phase = "matching"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self._losses(batch)[0].mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Among the captions of a batch, and among its pictures."""
        losses, z = self._losses(batch)
        right = batch["group"][:, None] == batch["group"]
        picked = {
            "caption_accuracy": right.gather(1, z.argmax(1)[:, None]),
            "picture_accuracy": right.gather(0, z.argmax(0)[None]),
        }
        return {"loss": losses} | {name: values.flatten().float() for name, values in picked.items()}

    def _losses(self, batch: Batch) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch batch"]]:
        z = self.model(batch["picture"], batch["caption"]).float()
        same = (batch["group"][:, None] == batch["group"]) & ~torch.eye(len(z), dtype=torch.bool, device=z.device)
        # Another caption that is right for a picture too is no wrong answer: it is left out.
        open_z, number = z.masked_fill(same, -torch.inf), torch.arange(len(z), device=z.device)
        return (categorical_cross_entropy(open_z, number) + categorical_cross_entropy(open_z.mT, number)) / 2, z


def size(width: int, text_width: int, **others: Any) -> CLIPConfig:
    return CLIPConfig(
        width=width, text_width=text_width, feed_forward=4 * width, text_feed_forward=4 * text_width, **others
    )


SIZES = {
    "tiny": size(
        64,
        64,
        shared=64,
        heads=4,
        layers=4,
        patch=4,
        text_heads=4,
        text_layers=2,
        context=32,
        shape=(1, 24, 24),
        vocabulary=64,
        end=63,
    ),
    "base_32": CLIPConfig(),
    "large_14": size(1024, 768, shared=768, heads=16, layers=24, patch=14, text_heads=12),
}
