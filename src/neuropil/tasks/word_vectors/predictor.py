"""Word vectors of a run, or of a file that another program wrote: their queries, and their scores on test sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from jaxtyping import Float
from torch import Tensor, nn

from neuropil.data.formats.lines import read_lines
from neuropil.errors import RunError
from neuropil.pretrained.word_vectors import VectorFormat, write_vectors
from neuropil.tasks.predictor import Source, only_path
from neuropil.tasks.word_vectors.questions import AnalogyQuestions, SimilarityPairs, read_questions
from neuropil.tasks.word_vectors.scores import analogy_scores, similarity_scores
from neuropil.tasks.word_vectors.vectors import SimilarWord, WordVectors

VOCABULARY = "vocabulary.tsv"
"""In a run folder: on each line a word, a tab and its count, in the order of the rows of the vectors."""


@dataclass(frozen=True)
class WordVectorPredictor:
    """`parameter` names the model's own that has a vector for each word."""

    model: nn.Module
    words: Sequence[str]
    counts: Sequence[int] = ()
    parameter: str = "input_vectors"

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        predictor, path = cls(model, *read_vocabulary(folder / VOCABULARY)), folder / VOCABULARY
        rows = len(model.get_parameter(predictor.parameter))
        if len(predictor.words) != rows:
            rule, got = f"{path} must hold a word for each of the {rows:,} vectors", f"{len(predictor.words):,} words"
            raise RunError(rule, got=got, fix="restore it or train again")
        return predictor

    @classmethod
    def of(cls, words: Sequence[str], vectors: Float[Tensor, "word width"]) -> Self:
        """Of a file: the vectors alone, as the embedding that PyTorch has for them."""
        return cls(nn.Embedding.from_pretrained(vectors), words, parameter="weight")

    @cached_property
    def vectors(self) -> WordVectors:
        """Made when they are asked for, since the weights are loaded after `restore`."""
        return WordVectors(self.words, self.model.get_parameter(self.parameter).float().cpu(), self.counts)

    def most_frequent(self, vocabulary_size: int) -> Self:
        """The first words alone: what others are compared with, and what is written."""
        first = self.vectors.most_frequent(vocabulary_size)
        restricted = type(self).of(first.words, first.vectors)
        return type(self)(restricted.model, first.words, first.counts, restricted.parameter)

    def neighbours(
        self, positive: str | Sequence[str], negative: str | Sequence[str] = (), *, count: int = 10
    ) -> list[SimilarWord]:
        return self.vectors.neighbours(positive, negative, count=count)

    def analogy(self, a: str, b: str, c: str, *, count: int = 10) -> list[SimilarWord]:
        return self.vectors.analogy(a, b, c, count=count)

    def centrality(self, words: Sequence[str]) -> list[SimilarWord]:
        return self.vectors.centrality(words)

    def odd_one_out(self, words: Sequence[str]) -> str:
        return self.vectors.odd_one_out(words)

    def similarity(self, word: str, other: str) -> float:
        return self.vectors.similarity(word, other)

    def save_vectors(self, path: str | Path, format: VectorFormat | None = None) -> None:
        """To a file of word2vec (text or binary) or of GloVe; by default its name says which."""
        write_vectors(Path(path), self.words, self.vectors.vectors, format)

    def read_labelled(self, source: Source) -> AnalogyQuestions | SimilarityPairs:
        return read_questions(only_path(source, "word vectors are evaluated on"))

    def evaluate(self, examples: AnalogyQuestions | SimilarityPairs) -> dict[str, float]:
        if isinstance(examples, SimilarityPairs):
            return similarity_scores(self.vectors, examples)
        return analogy_scores(self.vectors, examples)


def read_vocabulary(path: Path) -> tuple[list[str], list[int]]:
    """The words and their counts."""
    if not path.exists():
        raise RunError(f"{path.parent} must hold {path.name}", got="a run without it", fix="restore it or train again")
    words, counts = list[str](), list[int]()
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rpartition("\t")
        if not line:
            continue
        if not word or not count.isdecimal():
            rule = f"line {number:,} of {path} must be a word, a tab and its count"
            raise RunError(rule, got=f"{line[:40]!r}", fix="restore it or train again")
        words.append(word)
        counts.append(int(count))
    return words, counts
