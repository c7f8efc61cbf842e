"""Tokens that came with their tags, as numbers. A word that is not known is not nothing: what it looks like is a token
too.

Whoever has never met "Zwickauer" still sees a capital letter and the ending "er", and this often tells a name from a
verb.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import Change
from neuropil.data.tagged_texts.dataset import TokenKind
from neuropil.errors import RunError
from neuropil.files import write_text
from neuropil.protocols import PADDING, UNKNOWN, Batch

FIRST = UNKNOWN + 1
ENDING = 2
"""Letters at the end of a word that tell what it may be."""
FILE = "vocabulary.json"


class TagVocabulary:
    def __init__(self, kind: TokenKind, tokens: Sequence[str], looks: Sequence[str]):
        """The numbers of the tokens come first, then those of the looks."""
        self.kind, self.tokens, self.looks = kind, tuple(tokens), tuple(looks)
        self._numbers = {token: FIRST + place for place, token in enumerate(self.tokens)}
        self._looks = {look: FIRST + len(self.tokens) + place for place, look in enumerate(self.looks)}

    @classmethod
    def learn(cls, texts: Iterable[Sequence[str]], kind: TokenKind, vocabulary: int) -> "TagVocabulary":
        """At most `vocabulary` tokens, the most frequent ones, and all looks of two or more different tokens."""
        counts = Counter(token for text in texts for token in text)
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        looks = Counter(look_of(token) for token in counts)
        return cls(kind, ranked[:vocabulary], sorted(look for look, count in looks.items() if count > 1))

    def __len__(self) -> int:
        return FIRST + len(self.tokens) + len(self.looks)

    def encode(self, tokens: Sequence[str]) -> list[int]:
        return [self._numbers.get(token) or self._look(token) for token in tokens]

    def encode_looks(self, tokens: Sequence[str]) -> list[int]:
        """As if none of them were known."""
        return [self._look(token) for token in tokens]

    def split(self, text: str) -> list[str]:
        """Tokens of a text without tags: its letters, or its words, with punctuation apart from unknown ones."""
        if self.kind == "characters":
            return list(text)
        pieces = ([piece] if piece in self._numbers else WORD.findall(piece) for piece in text.split())
        return [token for piece in pieces for token in piece]

    def hide(self, share: float) -> Change:
        """Some tokens of each batch at random are known by their looks only: unknown ones are met before a test."""
        looks = torch.tensor([*range(FIRST), *self.encode_looks(self.tokens), *self._looks.values()])

        def hidden(batch: Batch, generator: torch.Generator) -> Batch:
            tokens: Int64[Tensor, "batch time"] = batch["input"]
            chosen = (torch.rand(tokens.shape, generator=generator) < share) & (tokens != PADDING)
            return {**batch, "input": torch.where(chosen, looks[tokens], tokens)}

        return hidden

    def save(self, folder: Path) -> None:
        content = {"kind": self.kind, "tokens": self.tokens, "looks": self.looks}
        write_text(folder / FILE, json.dumps(content, ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "TagVocabulary":
        path = folder / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(content["kind"], content["tokens"], content["looks"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError) as cause:
            got = "no such file" if isinstance(cause, FileNotFoundError) else "a damaged file"
            rule = f"{path} must be the vocabulary that neuropil wrote"
            raise RunError(rule, got=got, fix="train again or restore it") from cause

    def _look(self, token: str) -> int:
        return self._looks.get(look_of(token), UNKNOWN)


WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")


def look_of(token: str) -> str:
    """ "Houses" is "Xx es", "3.14" is "d", "USA" is "X", "," is "Po": kinds of letters, and how a longer word ends."""
    if not any(map(str.isalnum, token)):
        return unicodedata.category(token[0])
    kinds = "X" * token[0].isupper() + "x" * any(map(str.islower, token)) + "d" * any(map(str.isdigit, token))
    ending = token[-ENDING:].lower()
    return f"{kinds or 'o'} {ending}" if len(token) > ENDING + 1 and ending.isalpha() else kinds or "o"
