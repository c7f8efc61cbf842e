"""From a text to its class: what the recipes of all models that classify texts have in common."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.labelled_texts.dataset import LabelledTexts, LabelledTextSplits, read_labelled_texts
from neuropil.data.labelled_texts.files import TextColumns
from neuropil.data.text_batches import EncodedTexts, Side, encode_texts, hide_tokens
from neuropil.data.tokenizers.learned import Kind, Tokenizer
from neuropil.data.tokenizers.published import AnyTokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Classification
from neuropil.parts.parameters import ParameterRow
from neuropil.protocols import PADDING
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Predictions, Result
from neuropil.tasks.text_classification import report as text_classification_report
from neuropil.tasks.text_classification.scores import classifiers
from neuropil.tasks.text_experiment import TextExperiment, held_out_batches
from neuropil.tasks.translation.translating import texts_of
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig

PARTS = ("train", "validation", "test")
TOKENIZER_FILE = "tokenizer.json"


class ReadingConfig(Config):
    tokens: Kind = option("words", "what a text is cut into; bpe learns frequent pieces of words")
    vocabulary_size: int = option(10_000, "maximum vocabulary size; rarer ones are one unknown token", low=8)
    lowercase: bool = option(True, "read capitals as small letters")
    max_tokens: int = option(256, "tokens of a longer text that are read; the report counts such texts", low=1)
    read_from: Side = option("end", "which side of a longer text is read")


class TextObjective(Config):
    label_smoothing: float = option(
        0.0, "share of the target's probability that is spread over all classes", low=0, high=0.9
    )
    word_dropout: float = option(
        0.1, "share of the tokens of a training text that are made unknown at random", low=0, high=0.9
    )


@runtime_checkable
class TextReader(Protocol):
    """How texts become tokens."""

    @property
    def tokenizer(self) -> AnyTokenizer: ...

    @property
    def config(self) -> Config: ...

    @property
    def words(self) -> Kind:
        """What simpler models should count."""
        ...

    @property
    def limit(self) -> tuple[int, Side]:
        """Tokens of a longer text that are read, and from which side."""
        ...

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts: ...

    def read(self, text: str) -> tuple[Int64[Tensor, " time"], list[str]]:
        """The tokens that a model reads of a text, and their labels."""
        ...

    def save(self, folder: Path) -> None: ...


@dataclass(frozen=True)
class Reader:
    """With a tokenizer of ours, learned from the texts."""

    tokenizer: Tokenizer
    config: ReadingConfig

    @classmethod
    def learn(cls, texts: Sequence[str], config: ReadingConfig) -> "Reader":
        return cls(
            Tokenizer.train([_cased(text, config) for text in texts], config.tokens, config.vocabulary_size), config
        )

    def encode(self, texts: Sequence[str], targets: Int64[Tensor, " text"]) -> EncodedTexts:
        cased = [_cased(text, self.config) for text in texts]
        return encode_texts(cased, targets, self.tokenizer, self.config.max_tokens, self.config.read_from)

    @property
    def words(self) -> Kind:
        return self.config.tokens

    @property
    def limit(self) -> tuple[int, Side]:
        return self.config.max_tokens, self.config.read_from

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER_FILE)

    def read(self, text: str) -> tuple[Int64[Tensor, " time"], list[str]]:
        tokens = self.encode([text], torch.zeros(1, dtype=torch.int64)).inputs.padded(
            torch.zeros(1, dtype=torch.int64)
        )[0]
        return tokens, self.tokenizer.tokens(tokens.tolist())


def _cased(text: str, config: ReadingConfig) -> str:
    return text.lower() if config.lowercase else text


@dataclass(frozen=True)
class TextClassifier:
    """A trained model with what it needs to read: from texts to classes."""

    model: nn.Module
    reader: TextReader
    classes: tuple[str, ...]
    columns: TextColumns
    masked: bool = False
    """Whether the model must be told where there are tokens, and does not know padding by itself."""

    def logits(self, tokens: Int64[Tensor, "text time"]) -> Float[Tensor, "text class"]:
        return self.model(tokens, tokens != PADDING) if self.masked else self.model(tokens)

    def predict(self, inputs: str | Sequence[str]) -> Predictions:
        """Of a text, or of several."""
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        numbered = self.reader.encode(texts, torch.arange(len(texts)))
        return Predictions(self.scores_of(numbered), self.classes)

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
        return evaluate(Classification(self.model, answer=self.logits), held_out_batches(encoded, self._device))

    @torch.no_grad()
    def scores_of(self, encoded: EncodedTexts) -> Float[Tensor, "text class"]:
        """Probabilities in the order of the texts, whose targets are their numbers."""
        scores = torch.zeros(len(encoded), len(self.classes))
        for batch in held_out_batches(encoded, self._device).epoch(0):
            scores[batch["target"].cpu()] = self.logits(batch["input"]).softmax(-1).float().cpu()
        return scores

    @torch.no_grad()
    def develop(self, text: str) -> tuple[list[str], Float[Tensor, "time class"]]:
        """The tokens of a text, and what the model thinks of its class after each of them."""
        tokens, labels = self.reader.read(text)
        beginnings = tokens.expand(len(tokens), len(tokens)).tril()  # the rest is padding
        return labels, self.logits(beginnings.to(self._device)).softmax(-1).cpu()

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


class TextClassification(TextExperiment):
    """The experiment: a model that reads a text and names its class."""

    def __init__(
        self,
        model: nn.Module,
        model_config: Config,
        splits: LabelledTextSplits,
        reader: TextReader,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        objective: TextObjective,
        parameters: Sequence[ParameterRow],
        columns: TextColumns,
        masked: bool = False,
    ):
        """`masked` is as in `TextClassifier`."""
        self.splits, self.reader, self.columns = splits, reader, columns
        self.classifier = TextClassifier(model, reader, splits.train.classes, columns, masked)
        super().__init__(
            model,
            model_config,
            Classification(model, objective.label_smoothing, answer=self.classifier.logits),
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
        (most, side), count = self.reader.limit, self.encoded["train"].too_long
        have = "text has" if count == 1 else "texts have"
        limit = f"more than {most:,} tokens, of which only the {'last' if side == 'end' else 'first'} {most:,} are read"
        cut = f"{count:,} of {len(self.splits.train):,} training {have} {limit}."
        return [*self.splits.notes, *([cut] if count else [])]

    def save(self, folder: Path) -> None:
        self.reader.save(folder)

    def own_result(self) -> Result:
        return Result(self.name, evaluate(self.learner, held_out_batches(self.encoded["test"], self.device)))

    def baselines(self) -> list[Result]:
        return classifiers(self.splits, self.reader.words)

    @cached_property
    def test_scores(self) -> Float[Tensor, "text class"]:
        """Probabilities of the classes for each text of the test part, by the trained model."""
        numbered = dataclasses.replace(self.encoded["test"], targets=torch.arange(len(self.splits.test)))
        return self.classifier.scores_of(numbered)

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return text_classification_report.sections(self, history)


def restore_classifier(model: nn.Module, facts: Mapping[str, Any], folder: Path) -> TextClassifier:
    reader = Reader(Tokenizer.load(folder / TOKENIZER_FILE), ReadingConfig.from_dict(facts["reading"]))
    return TextClassifier(model, reader, tuple(facts["classes"]), TextColumns(*facts["columns"]))
