"""BERT (Devlin 2019): a stack of attention that sees a text from both sides, and learns by filling in what was hidden.

    x_t = N(E[token_t] + P[t] + S[segment_t])
    x ← N(x + SelfAttention(x))
    x ← N(x + W₂ φ(W₁ x + b₁) + b₂)                       φ is gelu

    filling in     p(token_t) = softmax(E N(φ(W x_t + b)) + c)
    classes        p(class)   = softmax(V tanh(W x_1 + b) + c)          x_1 stands at the token [CLS]
    sentences      e = (1/T) Σ_t x_t, over the tokens that are there    compared by their cosine

N is layer normalisation, after each sum. The three heads stand on one body, which is what others load and go on with.
"""

from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import from_data, option
from neuropil.errors import InputError
from neuropil.parts.blocks import HIDDEN, StackConfig, initialise, stack
from neuropil.parts.parallel_plan import ParallelTransformer
from neuropil.parts.positions import require_context
from neuropil.parts.pretrained_model import PretrainedModel

Tokens: TypeAlias = Int64[Tensor, "batch time"]
Mask: TypeAlias = Bool[Tensor, "batch time"]


class BERTConfig(StackConfig):
    context: int = option(512, "context length in tokens", low=1)
    epsilon: float = option(1e-12, "layer-norm epsilon", low=0)
    pooler: bool = from_data(True, "whether there is a pooler, tanh(W x_1 + b)")
    vocabulary_size: int = from_data(30_522, "vocabulary size")
    segments: int = from_data(2, "number of segments, such as a question and its answer")
    classes: int = from_data(0, "number of classes; 0 for none")


class BERT(PretrainedModel, ParallelTransformer):
    family = "bert"

    def __init__(self, config: BERTConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary_size, config.width)  # E
        self.positions = nn.Embedding(config.context, config.width)  # P
        self.segments = nn.Embedding(config.segments, config.width)  # S
        self.norm, self.dropout = nn.LayerNorm(config.width, config.epsilon), nn.Dropout(config.dropout)
        self.blocks = stack(config, norm="post")
        if config.pooler:
            self.pooler = nn.Linear(config.width, config.width)
        initialise(self)

    def forward(
        self, tokens: Tokens, mask: Mask | None = None, segments: Tokens | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Hidden states; `mask` is true where there is a token. Without segments, all tokens are of the first."""
        require_context(tokens.shape[1], self.config.context)
        kind = self.segments.weight[0] if segments is None else self.segments(segments)
        # x_t = N(E[token_t] + P[t] + S[segment_t]), of the first kind by default
        x = self.dropout(self.norm(self.tokens(tokens) + kind + self.positions.weight[: tokens.shape[1]]))
        for block in self.blocks:
            x = block(x, mask=None if mask is None else mask[:, None, None])
        return x

    def pool(self, hidden: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch width"]:
        return torch.tanh(self.pooler(hidden[:, 0]))  # tanh(W x_1 + b)


class MaskedBERT(PretrainedModel, ParallelTransformer):
    """BERT that fills in what was hidden."""

    family = "bert"

    def __init__(self, config: BERTConfig):
        super().__init__()
        self.config = config
        self.bert = BERT(config)
        self.transform, self.norm = nn.Linear(config.width, config.width), nn.LayerNorm(config.width, config.epsilon)
        self.activation = HIDDEN[config.activation]
        self.bias = nn.Parameter(torch.zeros(config.vocabulary_size))  # c
        initialise(self.transform)

    def forward(
        self, tokens: Tokens, mask: Mask | None = None, project: bool = True
    ) -> Float[Tensor, "batch time output"]:
        """Logits of every place, or, without `project`, the hidden states, for `logits` of a few places."""
        x = self.bert(tokens, mask)
        return self.logits(x) if project else x

    def logits(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any token"]:
        """Logits at these places, which may be a few of them, since a vocabulary is large."""
        # E N(φ(W x_t + b)) + c
        return F.linear(self.norm(self.activation(self.transform(hidden))), self.bert.tokens.weight, self.bias)


class BERTClassifier(PretrainedModel, ParallelTransformer):
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

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "batch class"]:
        # V tanh(W x_1 + b) + c
        return self.output(self.dropout(self.bert.pool(self.bert(tokens, mask))))


def mean_of(hidden: Float[Tensor, "batch time width"], mask: Mask) -> Float[Tensor, "batch width"]:
    """A vector of unit length for each text: the mean over its tokens."""
    # e = (1/T) Σ_t x_t
    valid = mask.unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * valid).sum(1) / valid.sum(1).clamp(min=1), dim=-1)


SIZES = {
    "tiny": BERTConfig(width=128, heads=2, layers=2, context=128, vocabulary_size=4_000),
    "minilm": BERTConfig(width=384, heads=12, layers=6),
    "base": BERTConfig(width=768, heads=12, layers=12),
    "large": BERTConfig(width=1024, heads=16, layers=24),
}
