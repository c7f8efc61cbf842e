"""Blocks of attention: a sublayer that looks around, one that thinks for itself, and a sum around each.

    post-norm    x ← N(x + Attention(x)),       x ← N(x + FeedForward(x))           Transformer, BERT
    pre-norm     x ← x + Attention(N(x)),       x ← x + FeedForward(N(x))           GPT-2, ViT, CLIP

    FeedForward(x) = W₂ φ(W₁ x + b₁) + b₂

N is layer normalisation. What φ is differs: relu, gelu, its approximation by tanh, or x σ(1.702 x).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Literal, Self, TypeAlias

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.activations import Activation
from neuropil.parts.multi_head import AttentionCache, MultiHeadAttention
from neuropil.parts.parameters import ParameterRow, TypedModuleList
from neuropil.ranges import Range, times

HiddenName = Literal["relu", "gelu", "gelu_tanh", "quick_gelu"]
NormName = Literal["post", "pre"]
Stream: TypeAlias = Float[Tensor, "batch time width"]


def quick_gelu(z: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """z σ(1.702 z), which CLIP was trained with: as one function that PyTorch has, half as many passes over memory."""
    return F.silu(1.702 * z) / 1.702


HIDDEN: dict[HiddenName, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
}


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, activation: HiddenName = "relu"):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.activation = HIDDEN[activation]
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Stream) -> Stream:
        # W₂ φ(W₁ x + b₁) + b₂
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """The sum around a sublayer f: N(x + f(x)), or x + f(N(x)); f is given `enter(x)`."""

    def __init__(self, width: int, norm: NormName, dropout: float, epsilon: float = 1e-5):
        super().__init__()
        self.first = norm == "pre"
        self.norm, self.dropout = nn.LayerNorm(width, epsilon), nn.Dropout(dropout)

    def enter(self, x: Stream) -> Stream:
        return self.norm(x) if self.first else x

    def forward(self, x: Stream, f: Stream) -> Stream:
        x = x + self.dropout(f)
        return x if self.first else self.norm(x)


class TransformerBlock(nn.Module):
    """`heads` may be fewer than fill the width, where some were removed."""

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        *,
        head_width: int | None = None,
        norm: NormName = "pre",
        activation: HiddenName = "relu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        epsilon: float = 1e-5,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, head_width=head_width, dropout=attention_dropout)
        self.attention_sum = Residual(width, norm, dropout, epsilon)
        self.feed_forward = FeedForward(width, feed_forward, activation)
        self.feed_forward_sum = Residual(width, norm, dropout, epsilon)

    def forward(
        self,
        x: Stream,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        cache: AttentionCache | None = None,
    ) -> Stream:
        x = self.attention_sum(x, self.attention(self.attention_sum.enter(x), mask=mask, causal=causal, cache=cache))
        return self.feed_forward_sum(x, self.feed_forward(self.feed_forward_sum.enter(x)))

    def parameter_row(self, name: str) -> ParameterRow:
        return block_row(name, [self.attention], self.feed_forward)


def block_row(name: str, attentions: list[MultiHeadAttention], feed_forward: FeedForward) -> ParameterRow:
    """Four projections for h heads of w in each attention, two matrices, and a norm after each sublayer."""
    h, f = sum(attention.heads for attention in attentions), feed_forward.inner.out_features
    sizes = {"d": feed_forward.inner.in_features, "h": h, "w": attentions[0].head_width, "f": f, "a": len(attentions)}
    return ParameterRow(name, "(4*d + 3)*h*w + a*d + 2*d*f + f + d + 2*d*(a + 1)", sizes)


class BlockConfig(Config):
    """What every stack of attention blocks has."""

    width: int = option(768, "embedding width (d_model)", low=2, tune=times(1 / 2, 1, 2))
    heads: int = option(12, "attention heads in each layer; they divide the width", low=1)
    layers: int = option(12, "number of layers", low=1, tune=times(1 / 2, 1, 2))
    feed_forward: int | None = option(None, "hidden size of the feed-forward networks; default: 4 × width", low=1)
    dropout: float = option(0.1, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    kept_heads: tuple[int, ...] = from_data((), "heads that are left in each attention module, in order; all if empty")

    @property
    def feed_forward_size(self) -> int:
        return self.feed_forward or 4 * self.width

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def attention_modules(self) -> int:
        return self.layers

    def validate(self) -> None:
        if self.width % self.heads:
            raise InputError("the heads must divide the width", got=f"{self.heads} heads for a width of {self.width}")
        kept, modules = self.kept_heads, self.attention_modules
        if kept and (len(kept) != modules or not all(0 <= number <= self.heads for number in kept)):
            rule = f"kept_heads must be a number from 0 to {self.heads} for each of the {modules} attention modules"
            raise InputError(rule, got=f"{kept}")

    def keep_heads(self, kept: Sequence[int]) -> Self:
        """With these numbers of heads, for each attention module in the order in which they are built."""
        return dataclasses.replace(self, kept_heads=tuple(kept))

    def heads_in_order(self) -> Iterator[int]:
        return iter(self.kept_heads) if self.kept_heads else repeat(self.heads, self.attention_modules)


class StackConfig(BlockConfig):
    """Of a model that is one stack of blocks."""

    activation: HiddenName = option("gelu", "activation of the feed-forward networks")
    attention_dropout: float = option(0.1, "dropout probability of the attention weights", low=0, high=0.95)
    epsilon: float = option(1e-5, "layer-norm epsilon", low=0)


def stack(config: StackConfig, norm: NormName = "pre") -> TypedModuleList[TransformerBlock]:
    """The blocks of a model."""
    return TypedModuleList(
        TransformerBlock(
            config.width,
            heads,
            config.feed_forward_size,
            head_width=config.head_width,
            norm=norm,
            activation=config.activation,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            epsilon=config.epsilon,
        )
        for heads in config.heads_in_order()
    )


def initialise(model: nn.Module, std: float = 0.02) -> None:
    """Weights from N(0, std²) and biases of zero, as GPT-2, BERT, ViT and CLIP begin; norms stay as they are."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.zeros_(module.bias)
