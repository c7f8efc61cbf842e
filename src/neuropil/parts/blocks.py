"""Blocks of attention: a sublayer that looks around, one that thinks for itself, and a sum around each.

    post-norm    x ← N(x + Attention(x)),       x ← N(x + FeedForward(x))           Transformer, BERT
    pre-norm     x ← x + Attention(N(x)),       x ← x + FeedForward(N(x))           GPT-2, ViT, CLIP

    FeedForward(x) = W₂ φ(W₁ x + b₁) + b₂

N is layer normalisation. What φ is differs: relu, gelu, its approximation by tanh, or x σ(1.702 x).
"""

from collections.abc import Iterator
from functools import partial
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.activations import Activation
from neuropil.parts.multi_head import KeysValues, MultiHeadAttention
from neuropil.parts.parameters import ParameterRow

HiddenName = Literal["relu", "gelu", "gelu_tanh", "quick_gelu"]
NormName = Literal["post", "pre"]


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

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        # W₂ φ(W₁ x + b₁) + b₂
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """The sum around a sublayer f: N(x + f(x)), or x + f(N(x)); f is given `enter(x)`."""

    def __init__(self, width: int, norm: NormName, dropout: float, epsilon: float = 1e-5):
        super().__init__()
        self.first = norm == "pre"
        self.norm, self.dropout = nn.LayerNorm(width, epsilon), nn.Dropout(dropout)

    def enter(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        return self.norm(x) if self.first else x

    def forward(
        self, x: Float[Tensor, "batch time width"], f: Float[Tensor, "batch time width"]
    ) -> Float[Tensor, "batch time width"]:
        x = x + self.dropout(f)
        return x if self.first else self.norm(x)


class Block(nn.Module):
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
        x: Float[Tensor, "batch time width"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        causal: bool = False,
        cache: KeysValues | None = None,
    ) -> Float[Tensor, "batch time width"]:
        x = self.attention_sum(x, self.attention(self.attention_sum.enter(x), mask=mask, causal=causal, cache=cache))
        return self.feed_forward_sum(x, self.feed_forward(self.feed_forward_sum.enter(x)))

    def parameter_row(self, name: str) -> ParameterRow:
        return block_row(name, [self.attention], self.feed_forward)


def block_row(name: str, attentions: list[MultiHeadAttention], feed_forward: FeedForward) -> ParameterRow:
    """Four projections for h heads of w in each attention, two matrices in the feed-forward net, and a norm after each of them."""
    h, f = sum(attention.heads for attention in attentions), feed_forward.inner.out_features
    sizes = {"d": feed_forward.inner.in_features, "h": h, "w": attentions[0].head_width, "f": f, "a": len(attentions)}
    return ParameterRow(name, "(4*d + 3)*h*w + a*d + 2*d*f + f + d + 2*d*(a + 1)", sizes)


class StackConfig(Config):
    """Of a model that is one stack of blocks."""

    width: int = option(768, "numbers that stand for a token", low=2)
    heads: int = option(12, "attention heads in each layer; they divide the width", low=1)
    layers: int = option(12, "blocks above one another", low=1)
    feed_forward: int = option(3072, "hidden units of each block's feed-forward net", low=1)
    activation: HiddenName = option("gelu", "what a hidden unit does to its input")
    dropout: float = option(
        0.1, "share of embeddings and of each sublayer's output that is silenced in training", low=0, high=0.95
    )
    attention_dropout: float = option(
        0.1, "share of the attention weights that is silenced in training", low=0, high=0.95
    )
    epsilon: float = option(1e-5, "what a norm adds to the variance", low=0)
    kept_heads: tuple[int, ...] = from_data(
        (), "heads that each attention still has, in the order of the modules; all if empty"
    )

    def validate(self) -> None:
        require_heads(self.width, self.heads, self.kept_heads, self.layers)


def stack(config: StackConfig, norm: NormName = "pre") -> list[Block]:
    """The blocks of a model."""
    return [
        Block(
            config.width,
            heads,
            config.feed_forward,
            head_width=config.width // config.heads,
            norm=norm,
            activation=config.activation,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            epsilon=config.epsilon,
        )
        for heads in heads_in_order(config.heads, config.kept_heads, config.layers)
    ]


def heads_in_order(heads: int, kept: tuple[int, ...], modules: int) -> Iterator[int]:
    """For each attention module of a model, in the order in which they are built."""
    return iter(kept or (heads,) * modules)


def require_heads(width: int, heads: int, kept: tuple[int, ...], modules: int) -> None:
    if width % heads:
        raise InputError("the heads must divide the width", got=f"{heads} heads for a width of {width}")
    if kept and (len(kept) != modules or not all(0 <= number <= heads for number in kept)):
        raise InputError(
            f"kept_heads must be a number from 0 to {heads} for each of the {modules} attention modules", got=f"{kept}"
        )


def initialise(model: nn.Module, std: float = 0.02) -> None:
    """Weights from N(0, std²) and biases of zero, as GPT-2, BERT, ViT and CLIP begin; norms stay as they are."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.zeros_(module.bias)
