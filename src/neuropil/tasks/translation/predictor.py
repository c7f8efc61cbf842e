"""A trained translator and its vocabulary: from text to text, and where the model looked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypedDict, cast, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from neuropil.data.formats.lines import read_lines
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.pairs.files import read_pairs
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import ContextLengthError, InputError
from neuropil.inspection.gates import Passage
from neuropil.inspection.recording import attention_modules, record
from neuropil.inspection.report.alignment import Alignment, AttentionMap, write_alignments
from neuropil.protocols import END, START
from neuropil.sampling.text.beam_search import Hypothesis, beam_search, greedy_search
from neuropil.sampling.text.generation import DecoderState
from neuropil.tasks.predictor import Source, Texts, as_texts, device_of
from neuropil.tasks.translation.scores import score_translations

TEXTS_AT_ONCE = 128
TOKENS_AT_ONCE = 8_192
SOURCE_FILE, TARGET_FILE = "tokenizer.json", "tokenizer-target.json"
MOST_ALIGNED = 50
"""Texts whose attention one page shows."""


@runtime_checkable
class EncoderDecoder(Protocol):
    """What a model must have to translate: encode a source once, then decode a token at a time."""

    def begin(self, source: Tensor) -> DecoderState: ...

    def step(self, tokens: Tensor, state: Any) -> Tensor: ...

    def hidden(self, source: Tensor, target: Tensor) -> Tensor: ...


class Beam(NamedTuple):
    """One translation that a beam search found; `score` is its log-probability over the length factor."""

    text: str
    log_probability: float
    score: float


class WrittenToken(NamedTuple):
    token: str
    share: float
    alternatives: list[tuple[str, float]]
    """The likeliest tokens at this place, with their probabilities."""


class SearchOptions(TypedDict):
    start: int
    end: int
    device: torch.device


class PairColumns(TypedDict, total=False):
    """Where in the user's files the two sides stand."""

    source_column: str | None
    target_column: str | None
    reverse: bool


@dataclass(frozen=True)
class PairVocabulary:
    """The tokenizers of both sides, which may be one and the same."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        return self.target is self.source

    @classmethod
    def load(cls, folder: Path, *, shared: bool) -> "PairVocabulary":
        source = Tokenizer.load(folder / SOURCE_FILE)
        return cls(source, source if shared else Tokenizer.load(folder / TARGET_FILE))

    def save(self, folder: Path) -> None:
        self.source.save(folder / SOURCE_FILE)
        if not self.shared:
            self.target.save(folder / TARGET_FILE)


@dataclass(frozen=True)
class Translator:
    model: nn.Module
    vocabulary: PairVocabulary
    longest: int | None = None
    """Tokens that the model has positions for, where they are learned."""
    columns: PairColumns = field(default_factory=PairColumns)

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        shared = facts.get("shared_vocabulary", not (folder / TARGET_FILE).exists())  # older runs do not say it
        return cls(model, PairVocabulary.load(folder, shared=shared), facts["longest"], facts["columns"])

    def predict(self, inputs: Any) -> Texts:
        return self.translate(as_texts(inputs))

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        lines = [(path, number, line) for path in paths for number, line in enumerate(read_lines(path), start=1)]
        return [line for _, _, line in lines], [f"{path.name} line {number}" for path, number, _ in lines]

    def read_labelled(self, source: Source) -> Pairs:
        return read_pairs(source, **self.columns)[0]

    def evaluate(self, pairs: Pairs) -> dict[str, float]:
        return score_translations(self.translate(pairs.sources).texts, pairs.targets)

    def translate(self, texts: Sequence[str], *, beam_width: int = 1, length_penalty: float = 0.6) -> Texts:
        """One translation for each text; an empty text stays empty. A wider beam is slower and often a little
        better."""
        found, log_probabilities = ["" for _ in texts], [0.0 for _ in texts]
        for group in self._groups(texts):
            decoded = self._decode([texts[index] for index in group], beam_width, length_penalty)
            for index, (text, log_probability) in zip(group, decoded, strict=True):
                found[index], log_probabilities[index] = text, log_probability
        return Texts(found, log_probabilities)

    def translate_lines(
        self, portions: Iterable[list[str]], *, beam_width: int, length_penalty: float, attention: Path | None
    ) -> Iterator[tuple[str, str]]:
        """Each text with its translation on one line, as soon as it is known; `attention` is a page on where the model
        looked."""
        if attention is not None and not attention_modules(self.model):
            raise InputError(
                "--attention shows where a model looked", got="a model without attention", fix="leave it out"
            )
        alignments: list[Alignment] = []
        for texts in portions:
            found = self.translate(texts, beam_width=beam_width, length_penalty=length_penalty).texts
            yield from zip(texts, (" ".join(answer.splitlines()) for answer in found), strict=True)
            if attention is not None:
                pairs = islice(zip(texts, found, strict=True), MOST_ALIGNED - len(alignments))
                alignments += [self.align(text, answer) for text, answer in pairs if text]
        if attention is not None:
            write_alignments(attention, alignments, "Where the model looked")

    def align(self, text: str, translation: str | None = None) -> Alignment:
        """Where the model looked while it wrote the translation, its own if none is given."""
        translation = self.translate([text]).texts[0] if translation is None else translation
        source, target = self._tokens(text, translation)
        with torch.no_grad(), record(self.model) as tape:
            self._decoder.hidden(self._row(source), self._row(target[:-1]))
        read, known = labels(self.vocabulary.source, source), labels(self.vocabulary.target, target[:-1])
        written = labels(self.vocabulary.target, target[1:])
        maps = []
        for name, weights in tape.attention.items():
            queries = read if name.startswith("encoder") else written
            keys = read if name.startswith("encoder") or "cross" in name else known
            maps.append(AttentionMap(name, weights[0].cpu(), queries, keys))
        maps.sort(key=lambda each: "cross" in each.name)  # a viewer opens with the last one, which people come for
        return Alignment(maps, title=arrow_between(text, translation))

    def beams(self, text: str, beam_width: int, length_penalty: float = 0.6) -> list[Beam]:
        """Up to so many translations of a text, the best first."""
        found = self._search([text], beam_width, length_penalty)[0]
        return [
            Beam(self.vocabulary.target.decode(one.tokens), one.log_probability, one.score(length_penalty))
            for one in found
        ]

    @torch.no_grad()
    def alternatives(self, text: str, translation: str, most: int = 5) -> list[WrittenToken]:
        """Each token of the translation, the end last, with its probability after those before it, and the likeliest
        in its place."""
        source, target = self._tokens(text, translation)
        shares = self.model(self._row(source), self._row(target[:-1]))[0].softmax(-1).cpu()
        best = shares.topk(min(most, shares.shape[-1]))
        written = labels(self.vocabulary.target, target[1:])
        return [
            WrittenToken(token, float(row[number]), list(zip(labels(self.vocabulary.target, ids), likely, strict=True)))
            for token, number, row, ids, likely in zip(
                written, target[1:], shares, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]

    def passage(self, text: str) -> Passage:
        """The text, and the model's own translation of it, for whoever watches recurrent cells at work."""
        source, target = self._tokens(text, self.translate([text]).texts[0])
        names = {True: labels(self.vocabulary.source, source), False: labels(self.vocabulary.target, target[:-1])}
        run = lambda: self._decoder.hidden(self._row(source), self._row(target[:-1]))  # noqa: E731
        return Passage(run, lambda cell: names[cell.startswith("encoder")])

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """In tokens."""
        return [len(ids) for ids in self.vocabulary.source.encode(list(texts))]

    def can_read(self, length: int) -> bool:
        return self.longest is None or length < self.longest

    @property
    def _decoder(self) -> EncoderDecoder:
        return cast(EncoderDecoder, self.model)

    def _tokens(self, text: str, translation: str) -> tuple[list[int], list[int]]:
        """What is read, and what is written, from start to end."""
        source, target = self.vocabulary.source.encode([text])[0], self.vocabulary.target.encode([translation])[0]
        self._require_short(len(source))
        return [*source, END], [START, *target, END]

    def _groups(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Texts of like length together; empty ones in none."""
        lengths = self.lengths(texts)
        group: list[int] = []
        for index in sorted((index for index, length in enumerate(lengths) if length), key=lengths.__getitem__):
            self._require_short(lengths[index])
            if group and (len(group) == TEXTS_AT_ONCE or (len(group) + 1) * lengths[index] > TOKENS_AT_ONCE):
                yield group
                group = []
            group.append(index)
        if group:
            yield group

    def _decode(self, texts: list[str], beam_width: int, length_penalty: float) -> list[tuple[str, float]]:
        best = [ranked[0] for ranked in self._search(texts, beam_width, length_penalty)]
        return [(self.vocabulary.target.decode(one.tokens), one.log_probability) for one in best]

    def _search(self, texts: list[str], beam_width: int, length_penalty: float) -> list[list[Hypothesis]]:
        """For each text what was found, the best first."""
        sources = [[*ids, END] for ids in self.vocabulary.source.encode(texts)]
        longest, device = max(map(len, sources)), device_of(self.model)
        padded = torch.tensor([ids + [0] * (longest - len(ids)) for ids in sources], device=device)
        limits = [min(2 * len(ids) + 50, (self.longest or 10**9) - 1) for ids in sources]
        step, options = self._decoder.step, SearchOptions(start=START, end=END, device=device)
        with torch.no_grad():
            state = self._decoder.begin(padded)
        if beam_width == 1:
            return [[one] for one in greedy_search(step, state, limits, **options)]
        return beam_search(step, state, limits, width=beam_width, length_penalty=length_penalty, **options)

    def _require_short(self, length: int) -> None:
        if self.longest is not None and not self.can_read(length):
            rule = f"this model has learned positions for texts of up to {self.longest - 1} tokens"
            fix = "split the text, or train with sinusoidal positions"
            raise ContextLengthError(rule, got=f"a text of {length}", fix=fix)

    def _row(self, ids: list[int]) -> Int64[Tensor, "1 time"]:
        return torch.tensor([ids], device=device_of(self.model))


def arrow_between(source: str, target: str) -> str:
    """A line from left to right, in which each text keeps its own direction: one from right to left would otherwise
    turn the line around, and the arrow would point back at it."""
    isolated = (f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}" for text in (source, target))
    return "\N{LEFT-TO-RIGHT MARK}" + " → ".join(isolated)


def labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Tokens as people read them; the borders of a text by signs that are not letters."""
    borders = {START: "▷", END: "◁"}
    return [borders.get(number, token) for number, token in zip(ids, tokenizer.tokens(ids), strict=True)]
