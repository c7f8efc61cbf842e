"""Tagging: a model that reads a text and gives each of its tokens a tag."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.batches import EncodedTexts, LengthBatches, Sequences
from neuropil.data.splits import PartName, Splits
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.weights import ClassWeightsConfig, WeightedBatches, class_weights, class_weights_note
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Tagging
from neuropil.protocols import PADDING, Batches, Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.tagging import report
from neuropil.tasks.tagging.predictor import Tagger
from neuropil.tasks.tagging.scores import baselines, score_tags
from neuropil.tasks.texts import in_order, too_long_note
from neuropil.training.config import TrainingConfig
from neuropil.training.previews import Preview


class TagTokensConfig(Config):
    vocabulary_size: int = option(20_000, "maximum vocabulary size; other tokens are encoded by word shape", low=1)
    max_tokens: int = option(256, "a longer text is read in pieces of so many tokens", low=1)


class TaggingObjective(ClassWeightsConfig):
    label_smoothing: float = option(0.0, "label smoothing of the training loss", low=0, high=0.9)
    word_dropout: float = option(0.1, "probability of replacing a training token by its word shape", low=0, high=0.9)


class TaggingExperiment(TrainableExperiment[list[list[str]]]):
    """`predictions` are the tags of each test text."""

    def __init__(
        self,
        tagger: Tagger,
        splits: Splits[TaggedTexts],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        objective: TaggingObjective,
    ):
        self.splits, self.tagger = splits, tagger
        self.change = tagger.vocabulary.hide(objective.word_dropout)
        self.texts = splits.parts
        self.encoded = {part: encode_tags(texts, tagger) for part, texts in self.texts.items()}
        limit, count = tagger.max_tokens, self.encoded["train"].too_long
        cut = too_long_note(count, len(splits.train), "text", limit, ", and are read in pieces")
        self.tag_weights = class_weights(objective.class_weights, tagger.tags, self._tag_counts())
        if self.tag_weights is not None:
            cut += [class_weights_note(self.tag_weights, tagger.tags, objective.class_weights)]
        learner = Tagging(tagger.model, objective.label_smoothing)
        super().__init__(learner, self.encoded, training, seed, name, splits.train.source, [*splits.notes, *cut])

    def own_facts(self) -> dict[str, Any]:
        return {
            "tags": list(self.tagger.tags),
            "max_tokens": self.tagger.max_tokens,
            "columns": list(self.tagger.columns),
            "vocabulary_size": len(self.tagger.vocabulary),
        }

    def training_keys(self) -> list[str]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        return (tensor for part in self.encoded.values() for tensor in part.tensors)

    def save(self, folder: Path) -> None:
        self.tagger.vocabulary.save(folder)

    def batches(self, part: PartName) -> Batches:
        """Tokens of the training and the validation part count by the weights of their tags; scores of the test part
        count each once."""
        batches = in_order(self.encoded[part], self.device)
        if part == "train":
            size, seed, change = self.training.batch_size, self.seed, self.change
            batches = LengthBatches(self.encoded[part], size, seed, shuffle=True, change=change, device=self.device)
        if self.tag_weights is None or part == "test":
            return batches
        weights = self.tag_weights.to(self.device)
        return WeightedBatches(batches, lambda batch: weights[batch["target"]] * (batch["input"] != PADDING))

    def _tag_counts(self) -> Int64[Tensor, " tag"]:
        numbers = {tag: number for number, tag in enumerate(self.tagger.tags)}
        tags = torch.tensor([numbers[tag] for text in self.splits.train.tags for tag in text])
        return tags.bincount(minlength=len(numbers))

    def predict_test(self, learner: Learner) -> list[list[str]]:
        return self.tagger.tag(self.splits.test.tokens).tags

    def preview(self) -> Preview:
        part = self.texts[self.watched_part]
        few, between = part.tokens[: preview.SHOWN], " " if part.kind == "words" else ""
        rows = [
            [between.join(tokens), " ".join(found), " ".join(tags)]
            for tokens, found, tags in zip(few, self.tagger.tag(few).tags, part.tags, strict=False)
        ]
        return preview.pairs(["text", "predicted tags", "tags"], rows)

    def score(self, learner: Learner, predictions: list[list[str]]) -> dict[str, float]:
        return score_tags(predictions, self.splits.test.tags)

    def baselines(self) -> list[Result]:
        return baselines(self.splits.train, self.splits.test)

    def own_sections(self) -> list[Section]:
        test, tags = self.splits.test, self.tagger.tags
        return [report.texts_section(test, self.predictions, tags), report.errors_section(test, self.predictions, tags)]

    def data_section(self) -> Section:
        return report.data_section(self.texts, self.tagger.vocabulary, self.notes)


def encode_tags(texts: TaggedTexts, tagger: Tagger) -> EncodedTexts:
    """Long texts in pieces. A tag that training has not met is scored as any other that is wrong, but has no number: it
    stands as the first, and only moves the measured loss."""
    numbers, size = {tag: number for number, tag in enumerate(tagger.tags)}, tagger.max_tokens
    pieces = [
        (text[begin : begin + size], tags[begin : begin + size])
        for text, tags in zip(texts.tokens, texts.tags, strict=True)
        for begin in range(0, len(text), size)
    ]
    inputs = [tagger.vocabulary.encode(text) for text, _ in pieces]
    targets = [[numbers.get(tag, 0) for tag in tags] for _, tags in pieces]
    return EncodedTexts(Sequences.of(inputs), Sequences.of(targets), sum(len(text) > size for text in texts.tokens))
