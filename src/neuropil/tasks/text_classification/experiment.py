"""Text classification: a model that reads a text and predicts its class."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import option
from neuropil.data.batches import LengthBatches
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.splits import PartName, Splits
from neuropil.data.weights import ClassWeightsConfig, class_weights, class_weights_note, weights_note
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Classification
from neuropil.protocols import Batch, Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.text_classification import report
from neuropil.tasks.text_classification.predictor import MaskedTextClassifier, TextClassifier
from neuropil.tasks.text_classification.scores import classifiers
from neuropil.tasks.texts import in_order, too_long_note
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview
from neuropil.training.weights import save_model


class TextObjective(ClassWeightsConfig):
    label_smoothing: float = option(0.0, "label smoothing of the training loss", low=0, high=0.9)
    word_dropout: float = option(
        0.1, "probability that a training token is made unknown, or [MASK] for BERT", low=0, high=0.9
    )


class Voting(Protocol):
    """A model of two, a network and a bag of words, which vote."""

    share: Tensor
    """Of the network."""

    def fit_share(self, batches: Iterable[Batch]) -> None: ...


def votes(model: nn.Module) -> TypeGuard[Voting]:
    """By its buffer, which `isinstance` does not find since Python 3.12."""
    return isinstance(getattr(model, "share", None), Tensor)


class TextClassificationExperiment(TrainableExperiment[Float[Tensor, "text class"]]):
    """`predictions` are probabilities of the classes."""

    def __init__(
        self,
        classifier: TextClassifier,
        splits: Splits[LabelledTexts],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        objective: TextObjective,
    ):
        self.splits, self.classifier, self.encoder = splits, classifier, classifier.encoder
        self.change = self.encoder.hide(objective.word_dropout)
        self.texts = splits.parts
        self.encoded = {part: self.encoder.encode(each.texts, each.targets) for part, each in self.texts.items()}
        weighing = self._weigh(objective.class_weights)
        limit, side = self.encoder.config.max_tokens, self.encoder.config.read_from
        which = {"beginning": f"the first {limit:,}", "end": f"the last {limit:,}", "both": f"{limit:,} at both ends"}
        consequence = f", of which only {which[side]} are read"
        cut = too_long_note(self.encoded["train"].too_long, len(splits.train), "text", limit, consequence)
        learner = Classification(classifier.model, objective.label_smoothing, answer=classifier.logits)
        super().__init__(
            learner, self.encoded, training, seed, name, splits.train.source, [*splits.notes, *weighing, *cut]
        )

    def _weigh(self, words: Sequence[str]) -> list[str]:
        """The texts of the training and the validation part by their own weights, times those of their classes; notes
        on both. Scores of the test part count each text once."""
        train, classes, notes = self.splits.train, self.classifier.classes, list[str]()
        counts = torch.bincount(train.targets, weights=train.weights, minlength=len(classes))
        of_class = class_weights(words, classes, counts)
        if train.weights is not None:
            notes.append(weights_note(train.weights))
        if of_class is not None:
            notes.append(class_weights_note(of_class, classes, words))
        for part in ("train", "validation"):
            own, targets = self.texts[part].weights, self.texts[part].targets
            factors = [each for each in (own, None if of_class is None else of_class[targets]) if each is not None]
            if factors:
                weights = torch.stack(factors).prod(0)
                self.encoded[part] = dataclasses.replace(self.encoded[part], weights=weights)
        return notes

    def own_facts(self) -> dict[str, Any]:
        return {
            "tokens": self.encoder.config.to_dict(),
            "classes": list(self.classifier.classes),
            "columns": list(self.classifier.columns),
            "vocabulary_size": len(self.encoder.tokenizer),
        }

    def training_keys(self) -> list[str]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        return (tensor for part in self.encoded.values() for tensor in part.tensors)

    def save(self, folder: Path) -> None:
        self.encoder.save(folder)

    def calibrate(self, folder: Path) -> None:
        """How much the network's vote counts, beside that of a bag of words."""
        model = self.model
        if votes(model) and len(self.encoded["validation"]):
            model.fit_share(self.batches("validation").epoch(0))
            save_model(folder / "model.safetensors", self.model)

    def batches(self, part: PartName) -> LengthBatches:
        if part != "train":
            return in_order(self.encoded[part], self.device)
        size, seed = self.training.batch_size, self.seed
        return LengthBatches(self.encoded[part], size, seed, shuffle=True, change=self.change, device=self.device)

    def predict_test(self, learner: Learner) -> Float[Tensor, "text class"]:
        numbered = dataclasses.replace(self.encoded["test"], targets=torch.arange(len(self.splits.test)))
        return self.classifier.probabilities(numbered)

    def preview(self) -> Preview:
        part = self.texts[self.watched_part]
        few, classes = part.texts[: preview.SHOWN], self.classifier.classes
        said = [line[0] for line in self.classifier.classify(few).lines()]
        rows = [[text, answer, classes[target]] for text, answer, target in zip(few, said, part.targets, strict=False)]
        return preview.pairs(["text", "predicted", "class"], rows)

    def score(self, learner: Learner, predictions: Float[Tensor, "text class"]) -> dict[str, float]:
        return evaluate(learner, self.batches("test"))

    def ablation_results(self) -> list[Result]:
        """Of a model that votes, what each of the two predicts alone."""
        if not votes(self.model):
            return []
        share, found = self.model.share.clone(), list[Result]()
        for name, alone in (("its network alone", 1), ("its bag of n-grams alone", 0)):
            self.model.share.fill_(alone)
            found.append(Result(name, evaluate(self.learner, self.batches("test"))))
        self.model.share.copy_(share)
        return found

    def baselines(self) -> list[Result]:
        return classifiers(self.splits, self.encoder.kind)

    def own_sections(self) -> list[Section]:
        test, lengths = self.splits.test, self.encoded["test"].inputs.lengths
        if isinstance(
            self.classifier, MaskedTextClassifier
        ):  # it reads all at once, and no token did anything by itself
            return [report.errors_section(test, self.predictions, lengths, None)]
        counts = self.encoded["train"].inputs.tokens.bincount()
        return [
            report.errors_section(test, self.predictions, lengths, self.classifier),
            report.reading_section(test, lengths, self.classifier),
            report.words_section(counts, self.classifier),
        ]

    def data_section(self) -> Section:
        return report.data_section(self.texts, self.encoder, self.notes)
