"""What the data room hands out for language modelling: one long text in three parts, one after the other."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from neuropil.data.corpus.stored import StoredText
from neuropil.data.corpus.token_file import Tokens
from neuropil.data.splits import PartName, Splits, text_key
from neuropil.data.tokenizers.encoding import AnyTokenizer, encode_text

SHORTEST_PASSAGE = 30
"""Characters: shorter lines, such as a lone bracket, are the same in texts that have nothing to do with each other."""


@dataclass(frozen=True, kw_only=True)
class Corpus(Splits[Any]):
    """The training part of a text that is larger than memory stays on disk; what is held out of it is in memory."""

    source: str
    """Where it comes from, as a phrase for the report: "5,447,521 characters (shakespeare.txt.gz)"."""

    @property
    def stored(self) -> StoredText | None:
        return self.train if isinstance(self.train, StoredText) else None

    @property
    def learned_texts(self) -> Sequence[str]:
        """What a vocabulary is learned from, and the text is known again by: all of the training part, or a sample that
        is spread over it."""
        return [self.train] if self.stored is None else self.stored.summary.sample

    @property
    def ending(self) -> str:
        """Of the training part, or all of it: what is counted and packed for baselines."""
        return self.train if self.stored is None else self.stored.summary.ending

    def tokens(self, tokenizer: AnyTokenizer) -> dict[PartName, Tokens]:
        """Of each part."""
        parts: dict[PartName, Tokens] = {"train": self.stored.tokens(tokenizer)} if self.stored is not None else {}
        return {
            name: parts[name] if name in parts else encode_text(tokenizer, text) for name, text in self.parts.items()
        }


@dataclass(frozen=True)
class Passages:
    """A text, known again by its lines and sentences."""

    unit: ClassVar = "passages"
    text: str

    @property
    def keys(self) -> Iterator[str]:
        keys = (text_key(passage) for passage in re.split(r"\n|(?<=[.!?])\s|(?<=[。！？])", self.text))
        return (key for key in keys if len(key) >= SHORTEST_PASSAGE)
