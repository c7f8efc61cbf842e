"""From a text to its class: what the recipes of all models that classify texts have in common."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.labelled_files import TextColumns
from neuropil.data.labelled_texts import LabelledTexts, LabelledTextSplits, read_labelled_texts
from neuropil.data.text_batches import EncodedTexts, Side, encode_texts, hide_tokens
from neuropil.data.tokenizers import Kind, Tokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.inspection.report import Section
from neuropil.parts.objectives import Classification
from neuropil.parts.parameters import ParameterRow
from neuropil.recipes import text_classification_report
from neuropil.recipes.fingerprint import fingerprint
from neuropil.recipes.recipe import Predictions, Result
from neuropil.recipes.text_baselines import classifiers
from neuropil.recipes.text_experiment import TextExperiment, held_out_batches
from neuropil.recipes.translating import texts_of
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig

PARTS = ("train", "validation", "test")
TOKENIZER_FILE = "tokenizer.json"


class ReadingConfig(Config):
    tokens: Kind = option("words", "what a text is cut into; bpe learns frequent pieces of words")
    vocabulary: int = option(10_000, "tokens to tell apart, at most; rarer ones are one unknown token", low=8)
    lowercase: bool = option(True, "read capitals as small letters")
    max_tokens: int = option(256, "tokens of a longer text that are read; the report counts such texts", low=1)
    read_from: Side = option("end", "which side of a longer text is read")


class TextObjective(Config):
    label_smoothing: float = option(0.0, "share of the target's probability that is spread over all classes", low=0, high=0.9)
    word_dropout: float = option(0.1, "share of the tokens of a training text that are made unknown at random", low=0, high=0.9)


@dataclass(frozen=True)
class Reader:
    """How texts become tokens."""

    tokenizer: Tokenizer
    config: ReadingConfig

    @classmethod
    def learn(cls, texts: Sequence[str], config: ReadingConfig) -> "Reader":
        return cls(Tokenizer.train([_cased(text, config) for text in texts], config.tokens, config.vocabulary), config)

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts:
        cased = [_cased(text, self.config) for text in texts]
        return encode_texts(cased, targets, self.tokenizer, self.config.max_tokens, self.config.read_from)

    def read(self, text: str) -> tuple[Int64[Tensor, " time"], list[str]]:
        """The tokens that a model reads of a text, and their labels."""
        tokens = self.encode([text], torch.zeros(1, dtype=torch.int64)).inputs.padded(torch.zeros(1, dtype=torch.int64))[0]
        return tokens, self.tokenizer.tokens(tokens.tolist())


def _cased(text: str, config: ReadingConfig) -> str:
    return text.lower() if config.lowercase else text


@dataclass(frozen=True)
class TextClassifier:
    """A trained model with what it needs to read: from texts to classes."""

    model: nn.Module
    reader: Reader
    classes: tuple[str, ...]
    columns: TextColumns

    def predict(self, inputs: str | Sequence[str]) -> Predictions:
        """Of a text, or of several."""
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        numbered = self.reader.encode(texts, torch.arange(len(texts)))
        return Predictions(scores_of(self.model, numbered, len(self.classes)), self.classes)

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
            raise InputError("labelled texts are one file", got=f"{len(paths)}")
        found, _ = read_labelled_texts(paths[0], self.columns, self.classes)
        encoded = self.reader.encode(found.texts, found.targets)
        return evaluate(Classification(self.model), held_out_batches(encoded, self._device))

    @torch.no_grad()
    def develop(self, text: str) -> tuple[list[str], Float[Tensor, "time class"]]:
        """The tokens of a text, and what the model thinks of its class after each of them."""
        tokens, labels = self.reader.read(text)
        beginnings = tokens.expand(len(tokens), len(tokens)).tril()  # the rest is padding
        return labels, self.model(beginnings.to(self._device)).softmax(-1).cpu()

    @torch.no_grad()
    def judge_tokens(self, tokens: Int64[Tensor, " token"]) -> Float[Tensor, "token class"]:
        """What the model thinks of texts of a single token."""
        return torch.cat([self.model(part[:, None].to(self._device)).softmax(-1).cpu() for part in tokens.split(1024)])

    def passage(self, text: str) -> Passage:
        tokens, labels = self.reader.read(text)
        return Passage(lambda: self.model(tokens.unsqueeze(0).to(self._device)), lambda _: labels)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


@torch.no_grad()
def scores_of(model: nn.Module, encoded: EncodedTexts, num_classes: int) -> Float[Tensor, "text class"]:
    """Probabilities in the order of the texts, whose targets are their numbers."""
    scores = torch.zeros(len(encoded), num_classes)
    for batch in held_out_batches(encoded, next(model.parameters()).device).epoch(0):
        scores[batch["target"].cpu()] = model(batch["input"]).softmax(-1).float().cpu()
    return scores


class TextClassification(TextExperiment):
    """The experiment: a model that reads a text and names its class."""

    def __init__(
        self,
        model: nn.Module,
        model_config: Config,
        splits: LabelledTextSplits,
        reader: Reader,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        objective: TextObjective,
        parameters: Sequence[ParameterRow],
        columns: TextColumns,
    ):
        self.splits, self.reader, self.columns = splits, reader, columns
        self.classifier = TextClassifier(model, reader, splits.train.classes, columns)
        super().__init__(
            model,
            model_config,
            Classification(model, objective.label_smoothing),
            {part: reader.encode(texts.texts, texts.targets) for part, texts in self.parts.items()},
            training,
            seed=seed,
            name=name,
            parameters=parameters,
            change=hide_tokens(objective.word_dropout),
        )

    @property
    def parts(self) -> dict[str, LabelledTexts]:
        return {part: getattr(self.splits, part) for part in PARTS}

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "reading": self.reader.config.to_dict(),
            "classes": list(self.splits.train.classes),
            "columns": list(self.columns),
            "source": self.splits.train.source,
            "vocabulary": len(self.reader.tokenizer),
            "notes": self.notes,
            "fingerprint": fingerprint(tensor for part in self.encoded.values() for tensor in part.tensors),
        }

    @property
    def notes(self) -> list[str]:
        config, count = self.reader.config, self.encoded["train"].too_long
        have, side = "text has" if count == 1 else "texts have", "last" if config.read_from == "end" else "first"
        limit = f"more than {config.max_tokens:,} tokens, of which only the {side} {config.max_tokens:,} are read"
        cut = f"{count:,} of {len(self.splits.train):,} training {have} {limit}."
        return [*self.splits.notes, *([cut] if count else [])]

    def save(self, folder: Path) -> None:
        self.reader.tokenizer.save(folder / TOKENIZER_FILE)

    def own_result(self) -> Result:
        return Result(self.name, evaluate(self.learner, held_out_batches(self.encoded["test"], self.device)))

    def baselines(self) -> list[Result]:
        return classifiers(self.splits, self.reader.config.tokens)

    @cached_property
    def test_scores(self) -> Float[Tensor, "text class"]:
        """Probabilities of the classes for each text of the test part, by the trained model."""
        numbered = dataclasses.replace(self.encoded["test"], targets=torch.arange(len(self.splits.test)))
        return scores_of(self.model, numbered, len(self.classifier.classes))

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return text_classification_report.sections(self, history)


def restore_classifier(model: nn.Module, facts: Mapping[str, Any], folder: Path) -> TextClassifier:
    reader = Reader(Tokenizer.load(folder / TOKENIZER_FILE), ReadingConfig.from_dict(facts["reading"]))
    return TextClassifier(model, reader, tuple(facts["classes"]), TextColumns(*facts["columns"]))
