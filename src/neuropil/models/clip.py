"""CLIP (Radford 2021): a vision tower and a text tower, which meet in one space.

    u_i = W_u N(ViT(picture_i)_0) / ‖·‖             a picture, as what its whole stands for
    v_j = W_v N(Text(caption_j)_end) / ‖·‖          a caption, as what its last token stands for
    z_ij = e^s u_i · v_j                            e^s is learned, and no larger than 100
    L = ½ mean_i (−ln softmax_j(z_ij) at j = i) + ½ mean_j (−ln softmax_i(z_ij) at i = j)

Both towers are stacks of pre-norm blocks with φ(x) = x σ(1.702 x). The text tower is causal, as GPT-2 is.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, nested, option
from neuropil.models.vit import Patches, PatchStackConfig
from neuropil.parts.blocks import HiddenName, StackConfig, initialise, stack
from neuropil.parts.losses import categorical_cross_entropy, weighted_mean
from neuropil.parts.objectives import Objective, loss_weights, measured_weight
from neuropil.parts.parallel_plan import ParallelTransformer
from neuropil.parts.positions import require_context
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.parts.standardize import Standardize
from neuropil.protocols import Batch
from neuropil.ranges import Range, times

SHARPEST = math.log(100)


class VisionTowerConfig(PatchStackConfig):
    patch: int | None = option(32, "patch size in pixels; none: the smallest that leaves at most 8 a side", low=1)
    activation: HiddenName = option("quick_gelu", "activation of the feed-forward networks")


class TextTowerConfig(StackConfig):
    width: int = option(512, "embedding width (d_model)", low=2, tune=times(1 / 2, 1, 2))
    heads: int = option(8, "attention heads in each layer; they divide the width", low=1)
    context: int = option(77, "context length in tokens, start and end among them", low=1)
    activation: HiddenName = option("quick_gelu", "activation of the feed-forward networks")
    dropout: float = option(0.0, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    attention_dropout: float = option(0.0, "dropout probability of the attention weights", low=0, high=0.95)
    vocabulary_size: int = from_data(49_408, "vocabulary size")
    end: int = from_data(49_407, "the token that ends a caption")


class CLIPConfig(Config):
    embedding_size: int = option(512, "size of the embeddings of pictures and captions", low=1)
    vision: VisionTowerConfig = nested(VisionTowerConfig(), "vision tower")
    text: TextTowerConfig = nested(TextTowerConfig(), "text tower")

    @property
    def kept_heads(self) -> tuple[int, ...]:
        return (*self.vision.kept_heads, *self.text.kept_heads)

    def keep_heads(self, kept: Sequence[int]) -> Self:
        seen = self.vision.layers
        vision, text = self.vision.keep_heads(kept[:seen]), self.text.keep_heads(kept[seen:])
        return dataclasses.replace(self, vision=vision, text=text)


class CLIP(PretrainedModel, ParallelTransformer):
    family = "clip"

    def __init__(self, config: CLIPConfig):
        super().__init__()
        self.config = config
        self.vision, self.text = VisionTower(config.vision), TextTower(config.text)
        self.picture_projection = nn.Linear(config.vision.width, config.embedding_size, bias=False)  # W_u
        self.text_projection = nn.Linear(config.text.width, config.embedding_size, bias=False)  # W_v
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))  # s
        begin(self)

    def forward(
        self,
        pictures: Num[Tensor, "picture channel height width"],
        captions: Int64[Tensor, "caption time"],
        whole: Callable[[Tensor], Tensor] | None = None,
    ) -> Float[Tensor, "all_pictures all_captions"]:
        """How well each picture fits each caption: z_ij. `whole` adds the embeddings that other processes have."""
        u, v = self.embed_pictures(pictures), self.embed_texts(captions)
        return self.compare(u, v) if whole is None else self.compare(whole(u), whole(v))

    def compare(
        self, u: Float[Tensor, "picture shared"], v: Float[Tensor, "caption shared"]
    ) -> Float[Tensor, "picture caption"]:
        # z_ij = e^s u_i · v_j
        return self.scale.clamp(max=SHARPEST).exp() * u @ v.mT

    def embed_pictures(self, pictures: Num[Tensor, "picture channel height width"]) -> Float[Tensor, "picture shared"]:
        """u_i, of unit length."""
        return F.normalize(self.picture_projection(self.vision(pictures)), dim=-1)

    def embed_texts(self, captions: Int64[Tensor, "caption time"]) -> Float[Tensor, "caption shared"]:
        """v_j, of unit length. What stands after the end token is not read."""
        return F.normalize(self.text_projection(self.text(captions)), dim=-1)


class VisionTower(nn.Module):
    def __init__(self, config: VisionTowerConfig):
        super().__init__()
        self.standardize = Standardize(config.shape, any_size=True)
        self.patches = Patches(config, bias=False)
        self.first_norm, self.norm = (nn.LayerNorm(config.width, config.epsilon) for _ in range(2))
        self.blocks = stack(config)

    def forward(self, pictures: Num[Tensor, "picture channel height width"]) -> Float[Tensor, "picture feature"]:
        x = self.first_norm(self.patches(self.standardize(pictures)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 0])


class TextTower(nn.Module):
    def __init__(self, config: TextTowerConfig):
        super().__init__()
        self.end = config.end
        self.tokens = nn.Embedding(config.vocabulary_size, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = stack(config)
        self.norm = nn.LayerNorm(config.width, config.epsilon)

    def forward(self, captions: Int64[Tensor, "caption time"]) -> Float[Tensor, "caption width"]:
        require_context(captions.shape[1], len(self.positions.weight))
        x = self.tokens(captions) + self.positions.weight[: captions.shape[1]]
        for block in self.blocks:
            x = block(x, causal=True)
        at_end = (captions == self.end).int().argmax(1)
        return self.norm(x[torch.arange(len(x), device=x.device), at_end])


def begin(model: CLIP) -> None:
    """First weights as CLIP's: their spread follows from the width, so that a narrow model learns too."""
    initialise(model)
    config, patches = model.config, model.vision.patches
    for tower, sizes in ((model.vision, config.vision), (model.text, config.text)):
        for block in tower.blocks:
            nn.init.normal_(block.attention.projection.weight, std=sizes.width**-0.5)
            nn.init.normal_(block.feed_forward.inner.weight, std=(2 * sizes.width) ** -0.5)
            for back in (block.attention.output, block.feed_forward.outer):  # added to the sum, 2 · layers times
                nn.init.normal_(back.weight, std=(2 * sizes.layers * sizes.width) ** -0.5)
    nn.init.normal_(patches.projection.weight, std=patches.projection.weight[0].numel() ** -0.5)
    for weight in (patches.whole, patches.positions, model.picture_projection.weight):
        nn.init.normal_(weight, std=config.vision.width**-0.5)
    nn.init.normal_(model.text_projection.weight, std=config.text.width**-0.5)


class ContrastiveMatching(Objective[CLIP]):
    """The symmetric contrastive loss (InfoNCE). A batch is ``{"picture": …, "caption": …, "group": …}``. Pictures whose
    captions say the same have the same group number, and each of their captions is right for all of them."""

    phase = "matching"
    whole: Callable[[Tensor], Tensor] | None = None
    """Where processes have a share of the batch each: every picture is compared with the captions of all."""

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        losses, weights = self._losses(batch, self.whole)[0], loss_weights(batch, batch["group"])
        return weighted_mean(losses, weights if weights is None or self.whole is None else self.whole(weights))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Among the captions of a batch, and among its pictures."""
        losses, z = self._losses(batch)
        right = batch["group"][:, None] == batch["group"]
        picked = {
            "text_recall_at_1": right.gather(1, z.argmax(1)[:, None]),
            "image_recall_at_1": right.gather(0, z.argmax(0)[None]),
        }
        found = {"loss": losses} | {name: values.flatten().float() for name, values in picked.items()}
        return found | measured_weight(loss_weights(batch, losses))

    def _losses(
        self, batch: Batch, whole: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch batch"]]:
        z = self.model(batch["picture"], batch["caption"], whole).float()
        group = batch["group"] if whole is None else whole(batch["group"])
        same = (group[:, None] == group) & ~torch.eye(len(z), dtype=torch.bool, device=z.device)
        # Another caption that is right for a picture too is no wrong answer: it is left out.
        open_z, number = z.masked_fill(same, -torch.inf), torch.arange(len(z), device=z.device)
        return (categorical_cross_entropy(open_z, number) + categorical_cross_entropy(open_z.mT, number)) / 2, z


SIZES = {
    "tiny": CLIPConfig(
        embedding_size=64,
        vision=VisionTowerConfig(width=64, heads=4, layers=4, patch=4, shape=(1, 24, 24)),
        text=TextTowerConfig(width=64, heads=4, layers=2, context=32, vocabulary_size=64, end=63),
    ),
    "base_32": CLIPConfig(),
    "large_14": CLIPConfig(
        embedding_size=768,
        vision=VisionTowerConfig(width=1024, heads=16, layers=24, patch=14),
        text=TextTowerConfig(width=768, heads=12),
    ),
}
