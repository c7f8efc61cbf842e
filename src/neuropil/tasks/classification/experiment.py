"""Classification of pictures or table rows; regression, where the targets are numbers."""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import eq
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.adversarial.defences import DefenceConfig, DefenceName, DefendedLearner
from neuropil.adversarial.threat_model import ThreatModel
from neuropil.config import option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches, RepeatedBatches
from neuropil.data.examples.dataset import Examples, Schema, restored
from neuropil.data.formats.picture_files import PictureFiles
from neuropil.data.splits import PartName, Splits
from neuropil.data.weights import ClassWeightsConfig, class_weights, class_weights_note, weights_note
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Classification
from neuropil.parts.standardize import Standardize
from neuropil.protocols import Batches, Learner
from neuropil.tasks import preview
from neuropil.tasks.classification import report
from neuropil.tasks.classification.predictor import UNITS, ExamplePredictor, in_order
from neuropil.tasks.classification.robustness import RobustnessTest, robustness_section
from neuropil.tasks.classification.scores import baselines, final_scores, scorer_for
from neuropil.tasks.classification.threats import feature_units, threat_model
from neuropil.tasks.experiment import Ablation, Result, TrainableExperiment
from neuropil.tasks.predictor import Predictions
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview


class ObjectiveConfig(ClassWeightsConfig):
    label_smoothing: float = option(0.0, "label smoothing of the training loss", low=0, high=0.9)
    l1: float = option(0.0, "weight of the L1 penalty on weight matrices, which makes them sparse", low=0)


OTHER_TERMS = ["label_smoothing", "l1", "class_weights", "weight_column"]
IDLE: Mapping[DefenceName, tuple[Iterable[str], str]] = {
    "none": ([each.name for each in DefenceConfig().options() if each.name != "defence"], "training without --defence"),
    "adversarial": (["beta"], "adversarial training"),
    "trades": (OTHER_TERMS, "the loss of TRADES"),
    "binary_trades": (OTHER_TERMS, "the loss of TRADES"),
}
"""Options that have no effect on each defence."""


@runtime_checkable
class Standardized(Protocol):
    """A model that standardises its inputs and, for regression, its targets."""

    standardize: Standardize
    target_scale: Standardize


M = TypeVar("M", bound=Standardized)


@runtime_checkable
class ExampleOptions(Protocol):
    @property
    def augment(self) -> Augment: ...

    @property
    def training(self) -> TrainingConfig: ...


class ClassificationExperiment(TrainableExperiment[Float[Tensor, "example output"]]):
    """`predictions` are probabilities of the classes, or values."""

    def __init__(
        self,
        model: nn.Module,
        splits: Splits,
        options: ExampleOptions,
        *,
        seed: int,
        name: str,
        objective: ObjectiveConfig | None = None,
        defence: DefenceConfig | None = None,
        learner: Learner | None = None,
        repeats: int = 1,
        inside: Callable[[], Sequence[Section]] | None = None,
        ablation: Ablation | None = None,
        calibration: Callable[[Path], None] | None = None,
    ):
        """The model learns by cross-entropy or squared error, or as the `learner` has it, from each batch `repeats`
        times; a `defence` attacks the examples that it learns from. Only pictures are augmented. `inside` makes the
        report's sections on what is in the model; without it, its first weights are drawn. `calibration` writes what a
        predictor needs of the trained model into the run's folder."""
        objective = objective or ObjectiveConfig()
        splits = weighted_splits(splits, objective.class_weights)
        self.splits, self.schema, self.repeats = splits, splits.train.schema, repeats
        self.augment = options.augment if self.schema.kind == "image" else None
        self.examples, self.calibration, self.units = splits.parts, calibration, feature_units(splits.train)
        self.inside = inside or (lambda: [report.inside_section(self.model, self.schema)])
        learner = learner or scorer_for(model, self.schema, objective.label_smoothing, objective.l1)
        source, training = splits.train.source, options.training
        self.defence, self.robustness = defence or DefenceConfig(), None
        if self.defence.defence != "none":
            require_no_weights(self.defence.defence, splits)
            norm, eps, without = self.defence.norm, self.defence.eps, DefenceConfig()
            self.robustness = RobustnessTest(splits.test, self.units, norm, eps, seed)
            threat = threat_model(splits.train, self.units, norm, eps)
            learner = defended(learner, threat, self.defence, self.schema)
            other = scorer_for(copy.deepcopy(model), self.schema, objective.label_smoothing, objective.l1)
            undefended = Ablation("the same model without a defence", other) if ablation is None else ablation
            ablation = dataclasses.replace(undefended, learner=DefendedLearner(undefended.learner, threat, without))
            if training.monitor == "loss":  # which is that of clean examples, and lowest before ε has grown
                training = dataclasses.replace(training, monitor="robust_accuracy")
        super().__init__(learner, self.examples, training, seed, name, source, splits.notes, ablation=ablation)

    def own_facts(self) -> dict[str, Any]:
        units = {} if self.units is None or not self.schema.classes else {UNITS: self.units.to_dict()}
        return {"schema": self.schema.to_dict(), **units}

    def idle_options(self) -> dict[str, str]:
        augmentation = [each.name for each in Augment().options()] if self.schema.kind == "table" else []
        idle = {"classification": [], "multi_label": ["class_weights"]}.get(
            self.schema.task, ["label_smoothing", "class_weights"]
        )
        what = "several labels" if self.schema.labels else "a regression"
        return {
            **dict.fromkeys(augmentation, "a table"),
            **dict.fromkeys(idle, what),
            **dict.fromkeys(*IDLE[self.defence.defence]),
        }

    def training_keys(self) -> list[bytes]:
        return self.splits.train.sample.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        values = (each for part in self.examples.values() for each in part.named.values())
        return (each.fingerprint if isinstance(each, PictureFiles) else each for each in values)

    def batches(self, part: PartName) -> ExampleBatches:
        if part != "train":
            return in_order(self.examples[part], self.device)
        size, augment = self.training.batch_size, self.augment
        return ExampleBatches(self.splits.train, size, self.seed, shuffle=True, augment=augment, device=self.device)

    @property
    def training_batches(self) -> Batches:
        return RepeatedBatches(self.batches("train"), self.repeats) if self.repeats > 1 else self.batches("train")

    def calibrate(self, folder: Path) -> None:
        if self.calibration is not None:
            self.calibration(folder)

    def predict_test(self, learner: Learner) -> Float[Tensor, "example output"]:
        return ExamplePredictor(learner.model, self.schema).predict_examples(self.splits.test.inputs).scores

    def score(self, learner: Learner, predictions: Float[Tensor, "example output"]) -> dict[str, float]:
        measured = evaluate(scorer_for(learner.model, self.schema), self.batches("test"))
        risks = {} if self.robustness is None else self.robustness.risks(learner.model)
        return measured | final_scores(predictions, self.splits.test) | risks

    def preview(self) -> Preview:
        """Predictions beside the labels."""
        shown = preview.spread(self.examples[self.watched_part])
        found = ExamplePredictor(self.model, self.schema).predict_examples(shown.inputs)
        said = [line[0] for line in found.lines()]
        labels = [report.label_of(shown, index) for index in range(len(shown))]
        if self.schema.kind == "image":
            right = [*map(eq, found.labels, labels)] if isinstance(found, Predictions) and found.classes else []
            return preview.pictures(shown.inputs, captions=said, right=right)
        names = preview.feature_names(self.schema)[: preview.MOST_COLUMNS]
        rows = restored(shown.inputs, self.schema)[:, : preview.MOST_COLUMNS].tolist()
        both = [[*row, *answers] for row, *answers in zip(rows, said, labels, strict=True)]
        return preview.pairs([*names, "predicted", self.schema.target or "label"], both)

    def scoring_seconds(self) -> float:
        return 0.0 if self.robustness is None else self.robustness.seconds(self.model)

    def baselines(self) -> list[Result]:
        return baselines(self.splits)

    def own_sections(self) -> list[Section]:
        sections = [report.mistakes_section(self.splits.test, self.predictions), *self.inside()]
        if self.robustness is None:
            return sections
        models = {"this model": self.model}
        if self.ablation is not None:
            models[self.ablation.name] = self.ablation.learner.model
        return [robustness_section(self.robustness, models), *sections]

    def data_section(self) -> Section:
        return report.data_section(self.examples, self.augment, self.notes)


def weighted_splits(splits: Splits[Examples], words: Sequence[str]) -> Splits[Examples]:
    """With the weights of classes multiplied into those of examples, in the training and the validation part; scores of
    the test part count each example once."""
    train, notes = splits.train, list(splits.notes)
    if train.weights is not None:
        notes.append(weights_note(train.weights))
    of_class = None
    if train.schema.classes:
        counts = torch.bincount(train.targets, weights=train.weights, minlength=len(train.schema.classes))
        of_class = class_weights(words, train.schema.classes, counts)
    if of_class is not None:
        notes.append(class_weights_note(of_class, train.schema.classes, words))

    def weighted(part: Examples) -> Examples:
        if of_class is None:
            return part
        own = of_class[part.targets]
        return dataclasses.replace(part, weights=own if part.weights is None else own * part.weights)

    test = dataclasses.replace(splits.test, weights=None)
    return Splits(weighted(train), weighted(splits.validation), test, notes)


def require_no_weights(defence: DefenceName, splits: Splits[Examples]) -> None:
    if defence in ("trades", "binary_trades") and splits.train.weights is not None:
        rule, fix = "the loss of TRADES counts every example the same", "take --defence adversarial"
        raise InputError(rule, got="weights", fix=fix)


def defended(learner: Learner, threat: ThreatModel, config: DefenceConfig, schema: Schema) -> DefendedLearner:
    if config.defence != "adversarial" and not isinstance(learner, Classification):
        rule, fix = "the second term of TRADES is back-propagated", "take --defence adversarial"
        raise InputError(rule, got="a model with a learning rule of its own", fix=fix)
    if config.defence == "binary_trades" and schema.num_outputs != 2:
        got = f"{schema.num_outputs}"
        raise InputError("--defence binary_trades is for two classes", got=got, fix="take --defence trades")
    return DefendedLearner(learner, threat, config)


def require_one_label(name: str, splits: Splits) -> None:
    if splits.train.schema.labels:
        rule = f"{name} learns one answer for each example"
        raise InputError(rule, got=splits.train.source, fix="train the mlp on it")


def require_pictures(name: str, splits: Splits, *, several_labels: bool = False) -> Schema:
    schema = splits.train.schema
    if schema.kind != "image" or not (schema.classes or (several_labels and schema.labels)):
        rule = f"{name} learns from pictures with class labels"
        raise InputError(rule, got=splits.train.source, fix="train the mlp on it")
    return schema


def fit_scales(model: M, train: Examples) -> M:
    """Mean and standard deviation of the inputs, and of the targets where they are numbers."""
    model.standardize.fit(train.sample.inputs)
    if train.schema.task == "regression":
        model.target_scale.fit(train.targets)
    return model
