"""GPT-2 (Radford 2019): a stack of causal attention that reads a text and says what comes next.

    x_t = E[token_t] + P[t]
    x ← x + CausalSelfAttention(N(x))
    x ← x + W₂ φ(W₁ N(x) + b₁) + b₂                     φ(z) = ½ z (1 + tanh(√(2/π) (z + 0.044715 z³)))
    p(token_{t+1} | token_1 … token_t) = softmax(E N(x_t))

Each block adds to a stream that runs from the embedding to the output, and the output uses the embedding once more
(`tied`). The weights that end a block begin smaller by 1/√(2L), so that the sum of L blocks is as large as one.
"""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import from_data, option
from neuropil.parts.blocks import HiddenName, StackConfig, initialise, stack
from neuropil.parts.multi_head import KeyValueCache
from neuropil.parts.parallel_plan import ParallelTransformer
from neuropil.parts.positions import require_context
from neuropil.parts.pretrained_model import PretrainedModel

STD = 0.02
Tokens: TypeAlias = Int64[Tensor, "batch time"]
Mask: TypeAlias = Bool[Tensor, "batch time"]


class GPT2Config(StackConfig):
    context: int = option(1024, "context length in tokens", low=1)
    activation: HiddenName = option("gelu_tanh", "activation of the feed-forward networks")
    tied: bool = option(True, "weight tying of the embedding and the output layer")
    vocabulary_size: int = from_data(50_257, "vocabulary size")


class GPT2(PretrainedModel, ParallelTransformer):
    family = "gpt2"

    def __init__(self, config: GPT2Config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary_size, config.width)  # E
        self.positions = nn.Embedding(config.context, config.width)  # P
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = stack(config)
        self.norm = nn.LayerNorm(config.width, config.epsilon)
        if not config.tied:
            self.output = nn.Linear(config.width, config.vocabulary_size, bias=False)
        initialise(self, STD)
        for block in self.blocks:
            for linear in (block.attention.output, block.feed_forward.outer):
                nn.init.normal_(linear.weight, std=STD / (2 * config.layers) ** 0.5)

    def forward(
        self, tokens: Tokens, mask: Mask | None = None, project: bool = True
    ) -> Float[Tensor, "batch time output"]:
        """Logits of the token after each, or, without `project`, the hidden states; `mask` is true where there is
        one."""
        x = self.hidden(tokens, mask)
        return F.linear(x, self.output_weight) if project else x

    def hidden(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "batch time width"]:
        """What the logits are made from, for a loss that need not hold all of them at once."""
        require_context(tokens.shape[1], self.config.context)
        x = self.embed(tokens, places(tokens, mask))
        for block in self.blocks:
            x = block(x, mask=None if mask is None else mask[:, None, None], causal=True)
        return self.norm(x)

    def embed(self, tokens: Tokens, place: Int64[Tensor, "*batch time"]) -> Float[Tensor, "batch time width"]:
        # x_t = E[token_t] + P[t], where t counts tokens and not what fills up
        return self.dropout(self.tokens(tokens) + self.positions(place))

    @property
    def output_weight(self) -> Float[Tensor, "token width"]:
        return self.tokens.weight if self.config.tied else self.output.weight

    # --- writing, a token at a time -----------------------------------------------------------------------------------

    def begin(self, room: int | None = None) -> "GPT2DecoderState":
        """Before the first token; `room` is how many there will be, where that is known."""
        return GPT2DecoderState([KeyValueCache(room or self.config.context) for _ in self.blocks])

    def step(
        self,
        tokens: Int64[Tensor, "batch new"],
        state: "GPT2DecoderState",
        present: Bool[Tensor, "batch new"] | None = None,
    ) -> Float[Tensor, "batch token"]:
        """Logits of what follows these tokens, which follow those that `state` has seen; it has seen these too
        afterwards.

        Texts of different lengths are filled up in front, where `present` is false.
        """
        place, seen = state.follow(tokens, present)
        require_context(int(place.max()) + 1, self.config.context)
        state.length, state.present = state.length + tokens.shape[1], seen
        mask = None if seen is None else seen[:, None, None]
        x = self.embed(tokens, place)
        for block, cache in zip(self.blocks, state.caches, strict=True):
            x = block(x, mask=mask, causal=True, cache=cache)
        return F.linear(self.norm(x[:, -1]), self.output_weight)


@dataclass
class GPT2DecoderState:
    """What has been read so far, row by row."""

    caches: list[KeyValueCache]
    length: int = 0
    """Of the rows, with what fills them up."""
    present: Bool[Tensor, "batch time"] | None = None
    """Where there are tokens; nothing, where they are everywhere."""

    def follow(
        self, tokens: Int64[Tensor, "batch new"], present: Bool[Tensor, "batch new"] | None
    ) -> tuple[Int64[Tensor, "*batch new"], Bool[Tensor, "batch time"] | None]:
        """The places of new tokens, and where there are tokens with them."""
        if present is None and self.present is None:
            return torch.arange(self.length, self.length + tokens.shape[1], device=tokens.device), None
        everywhere = torch.ones_like(tokens, dtype=torch.bool)
        old = everywhere.new_ones(len(tokens), self.length) if self.present is None else self.present
        seen = torch.cat([old, everywhere if present is None else present], 1)
        return counted(seen)[:, self.length :], seen

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        """Go on with these rows of the batch: some may be dropped, others repeated."""
        self.present = None if self.present is None else self.present.index_select(0, index)
        for cache in self.caches:
            cache.reorder(index)


def places(tokens: Tokens, mask: Mask | None) -> Int64[Tensor, "*batch time"]:
    return torch.arange(tokens.shape[1], device=tokens.device) if mask is None else counted(mask)


def counted(present: Bool[Tensor, "batch time"]) -> Int64[Tensor, "batch time"]:
    """The number of tokens before each."""
    return (present.long().cumsum(1) - 1).clamp(min=0)


SIZES = {
    "tiny": GPT2Config(
        width=128, heads=4, layers=4, context=256, vocabulary_size=2_000, dropout=0.0, attention_dropout=0.0
    ),
    "mini": GPT2Config(width=384, heads=6, layers=6, context=256, vocabulary_size=8_000),
    "small": GPT2Config(width=768, heads=12, layers=12),
    "medium": GPT2Config(width=1024, heads=16, layers=24),
    "large": GPT2Config(width=1280, heads=20, layers=36),
    "xl": GPT2Config(width=1600, heads=25, layers=48),
}
