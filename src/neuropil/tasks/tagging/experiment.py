"""A tag for every token of a text: what the recipes of all models that tag have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuropil.config import Config, option
from neuropil.data.length_batches import Sequences
from neuropil.data.messages import did_you_mean, listed
from neuropil.data.tagged_texts.dataset import TaggedTexts, TaggedTextSplits
from neuropil.data.tagged_texts.files import TagColumns, read_tagged_texts
from neuropil.data.text_batches import EncodedTexts
from neuropil.data.tokenizers.tags import TagVocabulary
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.inspection.report.alignment import shown
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Tagging
from neuropil.parts.parameters import ParameterRow
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Result
from neuropil.tasks.tagging import report as tagging_report
from neuropil.tasks.tagging.scores import baselines, score_tags
from neuropil.tasks.text_experiment import TextExperiment, held_out_batches
from neuropil.tasks.translation.translating import texts_of
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig

PARTS = ("train", "validation", "test")


class TagReadingConfig(Config):
    vocabulary_size: int = option(20_000, "maximum vocabulary size; rarer ones are known by what they look like", low=1)
    max_tokens: int = option(256, "a longer text is read in pieces of so many tokens, each for itself", low=1)


class TaggingObjective(Config):
    label_smoothing: float = option(0.0, "share of a tag's probability that is spread over all tags", low=0, high=0.9)
    word_dropout: float = option(
        0.1, "share of the tokens of a training text that are known only by what they look like", low=0, high=0.9
    )


@dataclass(frozen=True)
class Tagged:
    tokens: list[list[str]]
    tags: list[list[str]]
    joined: bool
    """Whether tokens are letters of a text."""

    def __len__(self) -> int:
        return len(self.tokens)

    def lines(self) -> list[list[str]]:
        """Each token with its tag; letters with the same tag stand together."""
        return [[" ".join(self._pieces(tokens, tags))] for tokens, tags in zip(self.tokens, self.tags, strict=True)]

    def _pieces(self, tokens: Sequence[str], tags: Sequence[str]) -> list[str]:
        if not self.joined:
            return [f"{token}/{tag}" for token, tag in zip(tokens, tags, strict=True)]
        runs = groupby(zip(tokens, tags, strict=True), key=lambda pair: pair[1])
        return [f"{''.join(shown(token) for token, _ in run)}/{tag}" for tag, run in runs]


@dataclass(frozen=True)
class Tagger:
    """A trained model with what it needs to read: from texts to tags."""

    model: nn.Module
    vocabulary: TagVocabulary
    tags: tuple[str, ...]
    max_tokens: int
    columns: TagColumns

    def predict(self, inputs: str | Sequence[str] | Sequence[Sequence[str]]) -> Tagged:
        """Of a text, of several, or of texts that are already cut into tokens."""
        texts = [inputs] if isinstance(inputs, str) else inputs
        return self.tag([self.vocabulary.split(text) if isinstance(text, str) else list(text) for text in texts])

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        """Texts of files, a line each; what is no file is a text itself."""
        texts, names = [], []
        for path in paths:
            found = list(chain.from_iterable(texts_of([str(path)], [])))
            texts += found
            names += [f"{path.name} line {number}" for number in range(1, len(found) + 1)] if path.is_file() else found
        return texts, names

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        if len(paths) != 1:
            raise InputError("tagged texts are one file", got=f"{len(paths)}")
        texts, _ = read_tagged_texts(paths[0], self.columns)
        for tag in chain.from_iterable(texts.tags):
            if tag not in self.tags:
                fix = did_you_mean(tag, self.tags) or f"the tags are {listed(self.tags)}"
                raise InputError(
                    "each tag must be one of the training data", got=f"{tag!r} in {paths[0].name}", fix=fix
                )
        return score_tags(self.tag(texts.tokens).tags, texts.tags)

    def tag(self, texts: Sequence[Sequence[str]]) -> Tagged:
        pieces = [
            list(text[begin : begin + self.max_tokens])
            for text in texts
            for begin in range(0, len(text), self.max_tokens)
        ]
        numbers = self._best([self.vocabulary.encode(piece) for piece in pieces])
        named = ([self.tags[number] for number in piece] for piece in numbers)
        tags = [list(chain.from_iterable(next(named) for _ in range(0, len(text), self.max_tokens))) for text in texts]
        return Tagged([list(text) for text in texts], tags, joined=self.vocabulary.kind == "characters")

    def passage(self, text: str) -> Passage:
        tokens = self.vocabulary.split(text)[: self.max_tokens]
        if not tokens:
            raise InputError("a text must have at least one token", got=f"{text!r}", fix="give it a word or two")
        numbers = torch.tensor([self.vocabulary.encode(tokens)], device=self._device)
        return Passage(lambda: self.model(numbers), lambda _: tokens)

    @torch.no_grad()
    def _best(self, pieces: Sequence[list[int]]) -> list[list[int]]:
        """The number of the likeliest tag for each token."""
        encoded = EncodedTexts(Sequences.of(pieces), torch.arange(len(pieces)))
        found: list[list[int]] = [[] for _ in pieces]
        for batch in held_out_batches(encoded, self._device).epoch(0):
            best = self.model(batch["input"]).argmax(-1)
            for number, tags in zip(batch["target"].tolist(), best.tolist(), strict=True):
                found[number] = tags[: len(pieces[number])]
        return found

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class TextTagging(TextExperiment):
    """The experiment: a model that reads a text and tags each of its tokens."""

    def __init__(
        self,
        model: nn.Module,
        model_config: Config,
        splits: TaggedTextSplits,
        tagger: Tagger,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        objective: TaggingObjective,
        parameters: Sequence[ParameterRow],
    ):
        self.splits, self.tagger = splits, tagger
        super().__init__(
            model,
            model_config,
            Tagging(model, objective.label_smoothing),
            {part: encode_tags(getattr(splits, part), tagger) for part in PARTS},
            training,
            seed=seed,
            name=name,
            parameters=parameters,
            change=tagger.vocabulary.hide(objective.word_dropout),
        )

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "tags": list(self.tagger.tags),
            "max_tokens": self.tagger.max_tokens,
            "columns": list(self.tagger.columns),
            "source": self.splits.train.source,
            "vocabulary": len(self.tagger.vocabulary),
            "notes": self.notes,
            "fingerprint": fingerprint(tensor for part in self.encoded.values() for tensor in part.tensors),
        }

    @property
    def notes(self) -> list[str]:
        count, limit = self.encoded["train"].too_long, self.tagger.max_tokens
        have = "text has" if count == 1 else "texts have"
        cut = f"{count:,} of {len(self.splits.train):,} training {have} more than {limit:,} tokens, and are read in pieces."
        return [*self.splits.notes, *([cut] if count else [])]

    def save(self, folder: Path) -> None:
        self.tagger.vocabulary.save(folder)

    def own_result(self) -> Result:
        return Result(self.name, score_tags(self._tag_test(), self.splits.test.tags))

    def baselines(self) -> list[Result]:
        return baselines(self.splits.train, self.splits.test)

    @cached_property
    def test_tags(self) -> list[list[str]]:
        """Of the test part, by the trained model."""
        return self._tag_test()

    def _tag_test(self) -> list[list[str]]:
        return self.tagger.tag(self.splits.test.tokens).tags

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return tagging_report.sections(self, history)


def encode_tags(texts: TaggedTexts, tagger: Tagger) -> EncodedTexts:
    """Long texts in pieces. A tag that training has not met is scored as any other that is wrong, but has no number: it stands as the
    first, and only moves the measured loss."""
    numbers = {tag: number for number, tag in enumerate(tagger.tags)}
    size = tagger.max_tokens
    pieces = [
        (text, tags, begin)
        for text, tags in zip(texts.tokens, texts.tags, strict=True)
        for begin in range(0, len(text), size)
    ]
    inputs = [tagger.vocabulary.encode(text[begin : begin + size]) for text, _, begin in pieces]
    targets = [[numbers.get(tag, 0) for tag in tags[begin : begin + size]] for _, tags, begin in pieces]
    too_long = sum(len(text) > size for text in texts.tokens)
    return EncodedTexts(Sequences.of(inputs), Sequences.of(targets), too_long)


def restore_tagger(model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Tagger:
    vocabulary = TagVocabulary.load(folder)
    return Tagger(model, vocabulary, tuple(facts["tags"]), facts["max_tokens"], TagColumns(*facts["columns"]))
