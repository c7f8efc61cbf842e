"""Texts with classes as BERT reads them: in pieces of words, between a token that begins and one that ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.batches import EncodedTexts, Sequences, Side
from neuropil.data.tokenizers.learned import Kind
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.protocols import PADDING


class PieceConfig(Config):
    max_tokens: int = option(
        256, "tokens of a longer text that are read, with the two around it; the report counts such texts", low=3
    )
    read_from: Side = option("beginning", "which side of a longer text is read")


@dataclass(frozen=True)
class PieceReader:
    """With a tokenizer of BERT's, between whose two special tokens a text stands."""

    tokenizer: PublishedTokenizer
    config: PieceConfig

    def __post_init__(self) -> None:
        if self.tokenizer.padding != PADDING:
            raise InputError("the padding of BERT's tokenizer must be token 0", got=f"{self.tokenizer.padding}")

    @property
    def words(self) -> Kind:
        return "words"

    @property
    def limit(self) -> tuple[int, Side]:
        return self.config.max_tokens, self.config.read_from

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts:
        before, after = self.tokenizer.start, self.tokenizer.end
        room, too_long = self.config.max_tokens - 2, 0

        def surround(ids: list[int]) -> list[int]:
            nonlocal too_long
            too_long += len(ids) > room
            kept = ids[-room:] if self.config.read_from == "end" else ids[:room]
            return [before or 0, *kept, after or 0]

        return EncodedTexts(Sequences.of_texts(texts, self.tokenizer, surround), targets, too_long)

    def read(self, text: str) -> tuple[Int64[Tensor, " time"], list[str]]:
        first = torch.zeros(1, dtype=torch.int64)
        tokens = self.encode([text], first).inputs.padded(first)[0]
        return tokens, self.tokenizer.tokens(tokens.tolist())

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
