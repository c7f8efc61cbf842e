"""Words and their vectors, and what is asked of them. With x̂ = x / ‖x‖ and cos(x, y) = x̂ · ŷ:

neighbours      the words x with the largest cos(x, Σ p̂ − Σ n̂), of positive words p and negative words n
analogy         the words x with the largest cos(x, â − b̂ + ĉ): king − man + woman (3CosAdd; Mikolov et al., 2013)
odd one out     the word x of several with the smallest cos(x, Σ ŵ) to all of them together

The words of a question are not among its answers. The vectors are never copied, however many there are.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.errors import InputError

MOST_SUGGESTED, NEAR = 3, 0.7
"""Words that are suggested for one that is not known, and how alike their letters must be."""
SHORTEST = 1e-15
"""Norm below which a vector points nowhere: its cosines are 0."""


COSINES_AT_ONCE = 1 << 24
"""64 MB of them, where many words are asked for."""


class SimilarWord(NamedTuple):
    word: str
    cosine: float


class WordVectors:
    """`words` are in the order of the rows of `vectors`, the most frequent first; `counts` are how often they occur in
    the corpus, where that is known."""

    def __init__(self, words: Sequence[str], vectors: Float[Tensor, "word width"], counts: Sequence[int] = ()):
        if len(words) != len(vectors):
            rule = "there must be a vector for each word"
            raise InputError(rule, got=f"{len(vectors):,} vectors for {len(words):,} words")
        self.words, self.vectors, self.counts = words, vectors.detach(), counts

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Float[Tensor, " width"]:
        return self.vectors[self.number(word)]

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def norms(self) -> Float[Tensor, " word"]:
        norms = torch.linalg.vector_norm(self.vectors, dim=1)
        if not norms.isfinite().all():
            number = int(norms.isfinite().logical_not().nonzero()[0])
            raise InputError("word vectors must be finite", got=f"another one for {self.words[number]!r}")
        return norms.clamp(min=SHORTEST)

    def most_frequent(self, vocabulary_size: int) -> Self:
        """The first words alone."""
        kept = slice(max(1, vocabulary_size))
        return type(self)(self.words[kept], self.vectors[kept], self.counts[kept])

    def number(self, word: str) -> int:
        """Of the word's row."""
        if word not in self.index:
            near = near_spellings(word, self.words)
            fix = f"did you mean {' or '.join(map(repr, near))}?" if near else "choose a word of the corpus"
            raise InputError(f"a word must be one of the vocabulary's {len(self):,}", got=f"{word!r}", fix=fix)
        return self.index[word]

    def unit(self, numbers: Sequence[int]) -> Float[Tensor, "word width"]:
        """x̂ = x / ‖x‖ of some words."""
        rows = torch.as_tensor(numbers)
        return self.vectors[rows] / self.norms[rows, None]

    def cosines(self, directions: Float[Tensor, "query width"]) -> Float[Tensor, "query word"]:
        """Of vectors of unit length with every word."""
        return directions @ self.vectors.mT / self.norms

    def similarity(self, word: str, other: str) -> float:
        """cos(x, y)"""
        x, y = self.unit([self.number(word), self.number(other)])
        return float(x @ y)

    def neighbours(
        self, positive: str | Sequence[str], negative: str | Sequence[str] = (), *, count: int = 10
    ) -> list[SimilarWord]:
        """The nearest words, the nearest first."""
        added, removed = ([each] if isinstance(each, str) else list(each) for each in (positive, negative))
        if not added and not removed:
            raise InputError("neighbours are those of one word or several", got="none")
        if count < 1:
            raise InputError("count must be at least 1", got=f"{count}")
        asked = [self.number(word) for word in (*added, *removed)]
        left = len(self) - len(set(asked))
        if not left:
            rule, fix = "there must be other words than those that are asked for", "train on more text"
            raise InputError(rule, got=f"a vocabulary of these {len(self):,} alone", fix=fix)
        signs = torch.tensor([1.0] * len(added) + [-1.0] * len(removed))
        # Σ p̂ − Σ n̂
        direction = signs @ self.unit(asked)
        direction /= torch.linalg.vector_norm(direction).clamp(min=SHORTEST)
        cosines = self.cosines(direction[None])[0]
        cosines[asked] = -torch.inf
        best = cosines.topk(min(count, left))
        return [
            SimilarWord(self.words[int(number)], cosine)
            for number, cosine in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def neighbours_of_each(self, words: Sequence[str], count: int = 10) -> Iterator[list[SimilarWord]]:
        """Those of many words, one after the other."""
        count = min(count, len(self) - 1)
        for portion in torch.tensor([self.number(word) for word in words]).split(max(1, COSINES_AT_ONCE // len(self))):
            cosines = self.cosines(self.unit(portion.tolist()))
            cosines.scatter_(1, portion[:, None], -torch.inf)
            best = cosines.topk(count)
            for numbers, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                yield [SimilarWord(self.words[int(each)], value) for each, value in zip(numbers, values, strict=True)]

    def analogy(self, a: str, b: str, c: str, *, count: int = 10) -> list[SimilarWord]:
        """What is to c as a is to b, the likeliest first: king − man + woman."""
        return self.neighbours([a, c], [b], count=count)

    def centrality(self, words: Sequence[str]) -> list[SimilarWord]:
        """The words by their cosine with all of them together, the odd one last."""
        different = list(dict.fromkeys(words))
        if len(different) < 3:
            raise InputError("an odd one is found among three different words or more", got=f"{len(different)}")
        unit = self.unit([self.number(word) for word in different])
        # cos(x, Σ ŵ)
        centre = unit.sum(0)
        cosines = unit @ (centre / torch.linalg.vector_norm(centre).clamp(min=SHORTEST))
        ranked = map(SimilarWord, different, cosines.tolist())
        return sorted(ranked, key=lambda each: each.cosine, reverse=True)

    def odd_one_out(self, words: Sequence[str]) -> str:
        return self.centrality(words)[-1].word


def near_spellings(word: str, known: Sequence[str]) -> list[str]:
    """Up to three known words that may have been meant, the likeliest first; of equally alike ones the more frequent.

    Most of a large vocabulary is passed over by what is quick to see: the length, and the letters whatever their order.
    """
    typed = word.casefold()
    letters = set(typed)
    near: list[tuple[float, str]] = []
    for name in known:
        if abs(len(name) - len(word)) > 2:
            continue
        other = name.casefold()
        if other == typed:
            near.append((1.0, name))
        elif len(letters.symmetric_difference(other)) <= 3:
            ratio = SequenceMatcher(None, typed, other).ratio()
            if ratio >= NEAR:
                near.append((ratio, name))
    return [name for _, name in sorted(near, key=lambda each: -each[0])[:MOST_SUGGESTED]]
