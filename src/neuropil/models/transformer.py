"""Transformer: an encoder reads a sequence all at once, a decoder writes another, a token at a time, looking back at
both.

    x⁰ = √d E[source] + PE                       y⁰ = √d E[target] + PE
    x  = N(x + SelfAttention(x))                  y  = N(y + CausalSelfAttention(y))
                                                  y  = N(y + Attention(Q from y; K, V from x))
    x  = N(x + FeedForward(x))                    y  = N(y + FeedForward(y))
                                                  p(next token) = softmax(E y)
    FeedForward(x) = W₂ max(0, W₁ x + b₁) + b₂

N is layer normalisation, after each sum as published (`norm="post"`), or before each sublayer (`norm="pre"`): x +
Attention(N(x)), and once more at the end; the second learns with larger rates and less warm-up. Dropout is where the
paper has it: on every sublayer's output and on the sum of embedding and position. Nobody looks at padding.
"""

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import from_data, option
from neuropil.errors import InputError
from neuropil.parts.blocks import BlockConfig, FeedForward, NormName, Residual, TransformerBlock, block_row
from neuropil.parts.multi_head import KeyValueCache, MultiHeadAttention
from neuropil.parts.parallel_plan import ParallelTransformer
from neuropil.parts.parameters import ParameterRow, TypedModuleList
from neuropil.parts.positions import PositionName, Positions
from neuropil.protocols import PADDING
from neuropil.ranges import times

Read: TypeAlias = Float[Tensor, "batch source width"]
Written: TypeAlias = Float[Tensor, "batch target width"]
Mask: TypeAlias = Bool[Tensor, "..."]


class TransformerConfig(BlockConfig):
    width: int = option(512, "embedding width (d_model)", low=2, tune=times(1 / 2, 1, 2))
    heads: int = option(8, "attention heads in each layer; they divide the width", low=1)
    layers: int = option(
        6, "number of layers of the encoder, and as many of the decoder", low=1, tune=times(1 / 2, 1, 2)
    )
    norm: NormName = option("post", "layer norm after each residual sum, as published, or before each sublayer")
    final_norm: bool = option(False, "layer norm after the last block too, as nn.Transformer; pre-norm always has it")
    positions: PositionName = option("sinusoidal", "positional encoding")
    shared_embeddings: bool = option(True, "share source, target and output embeddings, of a shared vocabulary")
    context: int = from_data(512, "context length: positions that are learned, or kept ready")
    source_vocabulary_size: int = from_data(37_000, "vocabulary size of the source")
    target_vocabulary_size: int = from_data(37_000, "vocabulary size of the target")

    @property
    def attention_modules(self) -> int:
        return 3 * self.layers

    def validate(self) -> None:
        super().validate()
        if self.shared_embeddings and self.source_vocabulary_size != self.target_vocabulary_size:
            raise InputError(
                "shared embeddings need one vocabulary for both sides",
                got=f"{self.source_vocabulary_size} and {self.target_vocabulary_size} tokens",
                fix="share the vocabulary or set shared_embeddings=False",
            )


class Transformer(ParallelTransformer):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        heads, layers = config.heads_in_order(), range(config.layers)
        self.source = embedding(config.source_vocabulary_size, config.width)
        self.positions = Positions(config.positions, config.width, config.context)
        self.encoder = TypedModuleList[TransformerBlock](encoder_block(config, next(heads)) for _ in layers)
        self.decoder = TypedModuleList[DecoderBlock](DecoderBlock(config, next(heads), next(heads)) for _ in layers)
        ends = config.norm == "pre" or config.final_norm
        self.encoder_norm, self.decoder_norm = (nn.LayerNorm(config.width) if ends else nn.Identity() for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)
        if not config.shared_embeddings:
            self.target = embedding(config.target_vocabulary_size, config.width)
            self.output = nn.Linear(config.width, config.target_vocabulary_size, bias=False)

    def forward(
        self, source: Int64[Tensor, "batch source"], target: Int64[Tensor, "batch target"], project: bool = True
    ) -> Float[Tensor, "batch target output"]:
        """Logits of the token that comes after each token of the target; without `project`, the hidden states."""
        y = self.hidden(source, target)
        return F.linear(y, self.output_weight) if project else y

    def hidden(
        self, source: Int64[Tensor, "batch source"], target: Int64[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target width"]:
        """What the logits are made from, for a loss that need not hold all of them at once."""
        present = is_token(source)
        memory = self.encode(self.embed(source, self.source), present)
        # Padding stands at the end of a target, where no token before it can see it.
        return self.decode(self.embed(target, self.target_embedding), memory, memory_mask=present)

    def encode(self, x: Read, mask: Mask | None = None) -> Read:
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x)

    def decode(
        self,
        y: Written,
        memory: Read,
        *,
        mask: Mask | None = None,
        causal: bool = True,
        memory_mask: Mask | None = None,
    ) -> Written:
        for block in self.decoder:
            y = block(y, memory, mask, causal, memory_mask)
        return self.decoder_norm(y)

    def embed(
        self, tokens: Int64[Tensor, "batch time"], table: nn.Embedding, start: int = 0
    ) -> Float[Tensor, "batch time width"]:
        # x⁰ = √d E[token] + PE
        return self.dropout(self.positions(math.sqrt(self.config.width) * table(tokens), start))

    @property
    def target_embedding(self) -> nn.Embedding:
        return self.source if self.config.shared_embeddings else self.target

    @property
    def output_weight(self) -> Float[Tensor, "token width"]:
        return self.source.weight if self.config.shared_embeddings else self.output.weight

    # --- writing, a token at a time -----------------------------------------------------------------------------------

    def begin(self, source: Int64[Tensor, "batch source"]) -> "TransformerDecoderState":
        """Read the source once; `step` then writes."""
        present = is_token(source)
        memory = self.encode(self.embed(source, self.source), present)
        return TransformerDecoderState(
            present,
            [block.cross.project_keys(memory) for block in self.decoder],
            [KeyValueCache() for _ in self.decoder],
        )

    def step(
        self, tokens: Int64[Tensor, "batch new"], state: "TransformerDecoderState"
    ) -> Float[Tensor, "batch token"]:
        """Logits of what follows these tokens; afterwards `state` has seen them too."""
        y = self.embed(tokens, self.target_embedding, start=state.length)
        for block, memory, cache in zip(self.decoder, state.memory, state.caches, strict=True):
            y = block.step(y, memory, cache, state.present)
        state.length += tokens.shape[1]
        return F.linear(self.decoder_norm(y[:, -1]), self.output_weight)


class DecoderBlock(nn.Module):
    def __init__(self, config: TransformerConfig, heads: int, cross_heads: int):
        super().__init__()
        self.attention, self.attention_sum = attention(config, heads), residual(config)
        self.cross, self.cross_sum = attention(config, cross_heads), residual(config)
        self.feed_forward, self.feed_forward_sum = FeedForward(config.width, config.feed_forward_size), residual(config)

    def forward(self, y: Written, memory: Read, mask: Mask | None, causal: bool, memory_mask: Mask | None) -> Written:
        y = self.attention_sum(y, self.attention(self.attention_sum.enter(y), mask=mask, causal=causal))
        y = self.cross_sum(y, self.cross(self.cross_sum.enter(y), memory, mask=memory_mask))
        return self.feed_forward_sum(y, self.feed_forward(self.feed_forward_sum.enter(y)))

    def step(
        self,
        y: Float[Tensor, "batch new width"],
        memory: tuple[Tensor, Tensor],
        cache: KeyValueCache,
        memory_mask: Bool[Tensor, "..."],
    ) -> Float[Tensor, "batch new width"]:
        """The same for new tokens only: what came before is in `cache`, the memory's keys and values are known."""
        y = self.attention_sum(y, self.attention(self.attention_sum.enter(y), causal=True, cache=cache))
        query = self.cross.project_queries(self.cross_sum.enter(y))
        y = self.cross_sum(y, self.cross.select(query, *memory, mask=memory_mask))
        return self.feed_forward_sum(y, self.feed_forward(self.feed_forward_sum.enter(y)))

    def parameter_row(self, name: str) -> ParameterRow:
        return block_row(name, [self.attention, self.cross], self.feed_forward)


@dataclass
class TransformerDecoderState:
    """The source as each layer's cross-attention sees it, and the keys and values of the tokens so far."""

    present: Bool[Tensor, "batch 1 1 source"]
    memory: list[tuple[Tensor, Tensor]]
    caches: list[KeyValueCache] = field(default_factory=list)
    length: int = 0

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        """Go on with these rows of the batch: some may be dropped, others repeated."""
        self.present = self.present.index_select(0, index)
        self.memory = [(keys.index_select(0, index), values.index_select(0, index)) for keys, values in self.memory]
        for cache in self.caches:
            cache.reorder(index)


def is_token(tokens: Int64[Tensor, "batch time"]) -> Bool[Tensor, "batch 1 1 time"]:
    """An attention mask that hides padding, for all heads and queries alike."""
    return (tokens != PADDING)[:, None, None]


def encoder_block(config: TransformerConfig, heads: int) -> TransformerBlock:
    shared = {"norm": config.norm, "dropout": config.dropout}
    return TransformerBlock(config.width, heads, config.feed_forward_size, head_width=config.head_width, **shared)


def attention(config: TransformerConfig, heads: int) -> MultiHeadAttention:
    return MultiHeadAttention(config.width, heads, head_width=config.head_width)


def residual(config: TransformerConfig) -> Residual:
    return Residual(config.width, config.norm, config.dropout)


def embedding(vocabulary: int, width: int) -> nn.Embedding:
    """Unit vectors: as long as the positions once √d has been applied, and logits begin small."""
    table = nn.Embedding(vocabulary, width)
    nn.init.normal_(table.weight, std=width**-0.5)
    return table


SIZES = {
    "tiny": TransformerConfig(width=64, heads=4, layers=3, norm="pre"),
    "small": TransformerConfig(width=128, heads=4, layers=3, norm="pre"),
    "medium": TransformerConfig(width=256, heads=4, layers=3, norm="pre"),
    "base": TransformerConfig(),
    "big": TransformerConfig(width=1024, heads=16, dropout=0.3),
}
