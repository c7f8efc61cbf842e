"""BERT (Devlin 2019): a stack of attention that sees a text from both sides, and learns by filling in what was hidden.

    x_t = N(E[token_t] + P[t] + S[segment_t])
    x ← N(x + SelfAttention(x))
    x ← N(x + W₂ φ(W₁ x + b₁) + b₂)                       φ is gelu

    filling in     p(token_t) = softmax(E N(φ(W x_t + b)) + c)
    classes        p(class)   = softmax(V tanh(W x_1 + b) + c)          x_1 stands at the token [CLS]
    sentences      e = (1/T) Σ_t x_t, over the tokens that are there    compared by their cosine

N is layer normalisation, after each sum. The three heads stand on one body, which is what others load and go on with.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import from_data, option
from neuropil.errors import InputError
from neuropil.parts.blocks import HIDDEN, Block, StackConfig, initialise, stack
from neuropil.parts.parameters import ParameterRow, linear_row
from neuropil.parts.pretrained_model import Published


class BERTConfig(StackConfig):
    context: int = option(512, "tokens that can be seen at once", low=1)
    epsilon: float = option(1e-12, "what a norm adds to the variance", low=0)
    pooler: bool = from_data(True, "whether there is tanh(W x_1 + b), one vector for a whole text")
    vocabulary: int = from_data(30_522, "tokens to tell apart")
    segments: int = from_data(2, "kinds of text that are told apart, such as a question and its answer")
    classes: int = from_data(0, "classes of whole texts; 0 where there are none")


class BERT(Published):
    family = "bert"

    def __init__(self, config: BERTConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)  # E
        self.positions = nn.Embedding(config.context, config.width)  # P
        self.segments = nn.Embedding(config.segments, config.width)  # S
        self.norm, self.dropout = nn.LayerNorm(config.width, config.epsilon), nn.Dropout(config.dropout)
        self.blocks = cast(Sequence[Block], nn.ModuleList(stack(config, norm="post")))
        if config.pooler:
            self.pooler = nn.Linear(config.width, config.width)
        initialise(self)

    def forward(
        self,
        tokens: Int64[Tensor, "batch time"],
        mask: Bool[Tensor, "batch time"] | None = None,
        segments: Int64[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """What stands for each token; `mask` is true where there is one. Without segments, all tokens are of the first."""
        if tokens.shape[1] > self.config.context:
            raise InputError(
                f"this model sees {self.config.context} tokens at once",
                got=f"{tokens.shape[1]}",
                fix="shorten the text",
            )
        kind = self.segments.weight[0] if segments is None else self.segments(segments)
        # x_t = N(E[token_t] + P[t] + S[segment_t]), of the first kind by default
        x = self.dropout(self.norm(self.tokens(tokens) + kind + self.positions.weight[: tokens.shape[1]]))
        for block in self.blocks:
            x = block(x, mask=None if mask is None else mask[:, None, None])
        return x

    def pool(self, hidden: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch width"]:
        return torch.tanh(self.pooler(hidden[:, 0]))  # tanh(W x_1 + b)

    def parameter_table(self) -> list[ParameterRow]:
        config = self.config
        tables = {"tokens": config.vocabulary, "positions": config.context, "segments": config.segments}
        rows = [ParameterRow(name, "n*d", {"n": number, "d": config.width}) for name, number in tables.items()]
        rows.append(ParameterRow("norm", "2*d", {"d": config.width}))
        rows += [block.parameter_row(f"blocks.{number}") for number, block in enumerate(self.blocks)]
        return [*rows, linear_row("pooler", config.width, config.width)] if config.pooler else rows


class MaskedBERT(Published):
    """BERT that fills in what was hidden."""

    family = "bert"

    def __init__(self, config: BERTConfig):
        super().__init__()
        self.config = config
        self.bert = BERT(config)
        self.transform, self.norm = nn.Linear(config.width, config.width), nn.LayerNorm(config.width, config.epsilon)
        self.activation = HIDDEN[config.activation]
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))  # c
        initialise(self.transform)

    def forward(
        self, tokens: Int64[Tensor, "batch time"], mask: Bool[Tensor, "batch time"] | None = None, project: bool = True
    ) -> Float[Tensor, "batch time output"]:
        """Logits of every place, or, without `project`, the hidden states, for `logits` of a few places."""
        x = self.bert(tokens, mask)
        return self.logits(x) if project else x

    def logits(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any token"]:
        """Of the tokens that may stand at these places; to be had for a few places alone, since a vocabulary is large."""
        # E N(φ(W x_t + b)) + c
        return F.linear(self.norm(self.activation(self.transform(hidden))), self.bert.tokens.weight, self.bias)

    def parameter_table(self) -> list[ParameterRow]:
        d = self.config.width
        rows = [ParameterRow(f"bert.{row.name}", row.formula, row.sizes) for row in self.bert.parameter_table()]
        return [
            *rows,
            linear_row("transform", d, d),
            ParameterRow("norm", "2*d", {"d": d}),
            ParameterRow("bias", "v", {"v": len(self.bias)}),
        ]


class BERTClassifier(Published):
    """BERT that says what kind of text it reads."""

    family = "bert"

    def __init__(self, config: BERTConfig):
        super().__init__()
        if config.classes < 1:
            raise InputError("a classifier tells one class or more apart", got=f"classes={config.classes}")
        self.config = config
        self.bert = BERT(config)
        self.dropout, self.output = nn.Dropout(config.dropout), nn.Linear(config.width, config.classes)
        initialise(self.output)

    def forward(
        self, tokens: Int64[Tensor, "batch time"], mask: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch class"]:
        # V tanh(W x_1 + b) + c
        return self.output(self.dropout(self.bert.pool(self.bert(tokens, mask))))

    def parameter_table(self) -> list[ParameterRow]:
        rows = [ParameterRow(f"bert.{row.name}", row.formula, row.sizes) for row in self.bert.parameter_table()]
        return [*rows, linear_row("output", self.config.width, self.config.classes)]


def mean_of(
    hidden: Float[Tensor, "batch time width"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch width"]:
    """A vector of unit length for each text: the mean over its tokens."""
    # e = (1/T) Σ_t x_t
    there = mask.unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * there).sum(1) / there.sum(1).clamp(min=1), dim=-1)


def size(width: int, heads: int, layers: int, **others: Any) -> BERTConfig:
    return BERTConfig(width=width, heads=heads, layers=layers, feed_forward=4 * width, **others)


SIZES = {
    "tiny": size(128, 2, 2, context=128, vocabulary=4_000),
    "minilm": size(384, 12, 6),
    "base": size(768, 12, 12),
    "large": size(1024, 16, 24),
}
