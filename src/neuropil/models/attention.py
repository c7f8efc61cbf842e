"""Self-attention over the patches of one picture: what a patch looks for depends on what the picture holds.

    z = patches of x, raw or each projected to d numbers, and where it stands [m × d]
    Q = z W_q + B_q                                                           [m × e]
    K = z W_k + B_k                                                           [m × e]
    V = z W_v + B_v                                                           [m × d₂]
    sim(Q, K) = softmax(Q Kᵀ / √e)                                            [m × m], each row sums to one
    attention(z) = sim(Q, K) V                                                [m × d₂]

The kernels of a convolution are the same for every picture. Here they are made from the picture itself: row i of sim(Q,
K) says how much patch i takes from every other. Layers of it, each added to what comes in and followed by a small
network for every patch, the mean over the patches and one linear layer make the logits. Values of another width than
what comes in cannot be added to it: then attention(z) takes the place of z, as the equation has it, and the layers
after it are of width d₂. Without positions the net sees a bag of patches, and shuffling them changes nothing.
"""

import math
from typing import Literal

from einops import rearrange, reduce
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.attention import Additive, Cosine, ScaledDot, Score, Smoothing, Tap, attend
from neuropil.parts.kernels import Gaussian
from neuropil.parts.parameters import Model
from neuropil.parts.positions import PositionName, Positions
from neuropil.parts.standardize import Standardize
from neuropil.ranges import Range, times

MOST_PATCHES_A_SIDE = 8
ScoreName = Literal["scaled_dot", "cosine", "gaussian", "additive"]


class PatchAttentionConfig(Config):
    patch: int | None = option(None, "patch size in pixels; none: 2, or more where a side would have over 8", low=1)
    embedding: Literal["linear", "none"] = option("linear", "patch embedding: linear, or none for raw patches")
    width: int = option(64, "embedding width d (d_model)", low=1, tune=times(1 / 2, 1, 2))
    key_width: int = option(64, "width e of queries and keys", low=1)
    value_width: int | None = option(None, "width d₂ of the values; default: the embedding width", low=1)
    layers: int = option(2, "number of layers", low=1, tune=times(1 / 2, 1, 2))
    positions: PositionName = option("learned", "positional encoding")
    score: ScoreName = option("scaled_dot", "attention score")
    dropout: float = option(0.1, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    shape: tuple[int, ...] = from_data((1, 8, 8), "channels, height and width of one picture")
    classes: int = from_data(10, "number of classes")

    def validate(self) -> None:
        if len(self.shape) != 3:
            raise InputError("patches need pictures of channels, height and width", got=f"inputs of shape {self.shape}")

    def without_effect(self) -> dict[str, str]:
        raw = self.embedding == "none" and self.value_width is not None
        return {"width": "raw patches whose values have a width"} if raw else {}

    @property
    def patch_side(self) -> int:
        return self.patch or max(2, math.ceil(max(self.shape[1:]) / MOST_PATCHES_A_SIDE))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches; a picture that they do not divide is filled up at its lower and right edge."""
        height, width = (math.ceil(side / self.patch_side) for side in self.shape[1:])
        return height, width

    @property
    def pixels(self) -> int:
        """Values in one patch."""
        return self.shape[0] * self.patch_side**2

    @property
    def input_width(self) -> int:
        """d, of what the first layer is given."""
        return self.width if self.embedding == "linear" else self.pixels

    @property
    def output_width(self) -> int:
        """d₂, of what every layer returns."""
        return self.value_width or self.width


class PatchAttention(Model):
    def __init__(self, config: PatchAttentionConfig):
        super().__init__()
        self.config = config
        self.standardize = Standardize(config.shape)
        self.embed = nn.Linear(config.pixels, config.width) if config.embedding == "linear" else nn.Identity()
        self.positions = Positions(config.positions, config.input_width, context=math.prod(config.grid))
        widths = [config.input_width, *[config.output_width] * (config.layers - 1)]
        self.layers = nn.ModuleList(PatchAttentionLayer(config, width) for width in widths)
        self.norm = nn.LayerNorm(config.output_width)
        self.output = nn.Linear(config.output_width, config.classes)

    def forward(self, x: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch class"]:
        return self.classify(self.patches(x))

    def patches(self, x: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch patch pixel"]:
        """The picture, standardised and cut, row by row."""
        (rows, columns), side = self.config.grid, self.config.patch_side
        x = self.standardize(x)
        x = F.pad(x, (0, columns * side - x.shape[-1], 0, rows * side - x.shape[-2]))
        pattern = "batch channel (row a) (column b) -> batch (row column) (channel a b)"
        return rearrange(x, pattern, row=rows, column=columns)

    def classify(self, patches: Float[Tensor, "batch patch pixel"]) -> Float[Tensor, "batch class"]:
        z = self.positions(self.embed(patches))  # batch patch width, d at first and d₂ after a layer
        for layer in self.layers:
            z = layer(z)
        return self.output(reduce(self.norm(z), "batch patch width -> batch width", "mean"))


class PatchAttentionLayer(nn.Module):
    """z ← z + attention(norm z), or z ← attention(z) where d₂ is another width than that of z; then
    z ← z + W₂ φ(W₁ norm z), patch by patch."""

    def __init__(self, config: PatchAttentionConfig, width: int):
        super().__init__()
        values, score = config.output_width, make_score(config.score, config.key_width)
        self.residual = width == values
        self.norm1, self.norm2 = nn.LayerNorm(width) if self.residual else nn.Identity(), nn.LayerNorm(values)
        self.attention = SelfAttention(width, config.key_width, values, score)
        self.network = nn.Sequential(nn.Linear(values, 2 * values), nn.GELU(), nn.Linear(2 * values, values))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, z: Float[Tensor, "batch patch width"]) -> Float[Tensor, "batch patch value"]:
        attended = self.dropout(self.attention(self.norm1(z)))
        z = z + attended if self.residual else attended
        return z + self.dropout(self.network(self.norm2(z)))


class SelfAttention(nn.Module):
    """attention(z) = sim(Q, K) V, with biases. Recorders set `tap`."""

    def __init__(self, width: int, key_width: int, value_width: int, score: Score = ScaledDot()):  # noqa: B008 (it is frozen)
        super().__init__()
        self.widths = (key_width, key_width, value_width)
        self.projection = nn.Linear(width, sum(self.widths))
        self.score = score
        self.tap: Tap | None = None

    def forward(self, z: Float[Tensor, "batch patch width"]) -> Float[Tensor, "batch patch value"]:
        # [Q K V] = z [W_q W_k W_v] + [B_q B_k B_v], in one multiplication
        query, key, value = self.projection(z).split(self.widths, dim=-1)
        return attend(query, key, value, score=self.score, tap=self.tap)


def make_score(name: ScoreName, key_width: int) -> Score:
    """As soft as the scaled dot product: with keys of one length, `gaussian` is the same score."""
    if name == "additive":
        return Additive(key_width, key_width, key_width)
    scores = {
        "scaled_dot": ScaledDot(),
        "cosine": Cosine(beta=math.sqrt(key_width)),
        "gaussian": Smoothing(Gaussian(length=key_width**0.25)),
    }
    return scores[name]


SIZES = {
    "small": PatchAttentionConfig(width=32, key_width=32, layers=1),
    "base": PatchAttentionConfig(),
    "large": PatchAttentionConfig(width=128, key_width=128, layers=4),
    "bag": PatchAttentionConfig(positions="none", score="cosine"),
}
