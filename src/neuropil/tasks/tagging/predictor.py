"""A trained tagger: from texts to a tag for each of their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.batches import EncodedTexts, Sequences
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.tagged_texts.files import TagColumns, read_tagged_texts
from neuropil.data.tokenizers.tags import TagVocabulary
from neuropil.errors import InputError, did_you_mean, listed
from neuropil.inspection.gates import Passage
from neuropil.inspection.report.alignment import shown
from neuropil.tasks.predictor import Source, as_texts, device_of, only_source
from neuropil.tasks.tagging.scores import score_tags
from neuropil.tasks.texts import in_order, read_texts


@dataclass(frozen=True)
class TaggedAnswers:
    tokens: list[list[str]]
    tags: list[list[str]]
    joined: bool
    """Whether tokens are letters of a text."""

    def __len__(self) -> int:
        return len(self.tokens)

    def lines(self) -> list[list[str]]:
        """Each token with its tag; letters with the same tag stand together."""
        return [[" ".join(self._pieces(tokens, tags))] for tokens, tags in zip(self.tokens, self.tags, strict=True)]

    def records(self) -> list[dict[str, Any]]:
        return [{"tokens": tokens, "tags": tags} for tokens, tags in zip(self.tokens, self.tags, strict=True)]

    def _pieces(self, tokens: Sequence[str], tags: Sequence[str]) -> list[str]:
        if not self.joined:
            return [f"{token}/{tag}" for token, tag in zip(tokens, tags, strict=True)]
        runs = groupby(zip(tokens, tags, strict=True), key=lambda pair: pair[1])
        return [f"{''.join(shown(token) for token, _ in run)}/{tag}" for tag, run in runs]


@dataclass(frozen=True)
class Tagger:
    model: nn.Module
    vocabulary: TagVocabulary
    tags: tuple[str, ...]
    max_tokens: int
    """A longer text is read in pieces of so many."""
    columns: TagColumns

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        columns = TagColumns(*facts["columns"])
        return cls(model, TagVocabulary.load(folder), tuple(facts["tags"]), facts["max_tokens"], columns)

    def predict(self, inputs: Any) -> TaggedAnswers:
        """Of a text, of several, or of texts that are already cut into tokens."""
        texts = inputs if isinstance(inputs, list | tuple) else as_texts(inputs)
        return self.tag([self.vocabulary.split(text) if isinstance(text, str) else as_texts(text) for text in texts])

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        return read_texts(paths)

    def read_labelled(self, source: Source) -> TaggedTexts:
        given = only_source(source, "tagged texts are")
        texts, _ = read_tagged_texts(given, self.columns)
        for tag in chain.from_iterable(texts.tags):
            if tag not in self.tags:
                fix = did_you_mean(tag, self.tags) or f"the tags are {listed(self.tags)}"
                raise InputError("each tag must be one of the training data", got=f"{tag!r} in {given.name}", fix=fix)
        return texts

    def evaluate(self, texts: TaggedTexts) -> dict[str, float]:
        return score_tags(self.tag(texts.tokens).tags, texts.tags)

    @torch.no_grad()
    def tag(self, texts: Sequence[Sequence[str]]) -> TaggedAnswers:
        size = self.max_tokens
        pieces = [list(text[begin : begin + size]) for text in texts for begin in range(0, len(text), size)]
        encoded = [self.vocabulary.encode(piece) for piece in pieces]
        best: list[list[str]] = [[] for _ in pieces]
        for batch in in_order(
            EncodedTexts(Sequences.of(encoded), torch.arange(len(pieces))), device_of(self.model)
        ).epoch(0):
            numbers = self.model(batch["input"]).argmax(-1).tolist()
            for place, row in zip(batch["target"].tolist(), numbers, strict=True):
                best[place] = [self.tags[number] for number in row[: len(pieces[place])]]
        following = iter(best)
        tags = [list(chain.from_iterable(next(following) for _ in range(0, len(text), size))) for text in texts]
        return TaggedAnswers([list(text) for text in texts], tags, joined=self.vocabulary.kind == "characters")

    @torch.no_grad()
    def probabilities_by_token(self, text: str) -> tuple[list[str], Float[Tensor, "time tag"]]:
        """The first tokens of a text, as many as are read at once, and the probabilities of their tags."""
        tokens, numbers = self._first_tokens(text)
        return tokens, self.model(numbers)[0].softmax(-1).cpu()

    def passage(self, text: str) -> Passage:
        tokens, numbers = self._first_tokens(text)
        return Passage(lambda: self.model(numbers), lambda _: tokens)

    def _first_tokens(self, text: str) -> tuple[list[str], Int64[Tensor, "row time"]]:
        tokens = self.vocabulary.split(text)[: self.max_tokens]
        if not tokens:
            raise InputError("a text must have at least one token", got=f"{text!r}", fix="give it a word or two")
        return tokens, torch.tensor([self.vocabulary.encode(tokens)], device=device_of(self.model))
