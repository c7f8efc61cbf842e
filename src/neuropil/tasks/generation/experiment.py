"""Generation: a model that learns to make examples like those of the training part, and is scored by what it makes."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import PartName, Splits
from neuropil.inspection.report.page import Section
from neuropil.protocols import Learner
from neuropil.randomness import seeded
from neuropil.tasks import preview
from neuropil.tasks.classification.predictor import in_order
from neuropil.tasks.classification.report import data_section
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.generation import report
from neuropil.tasks.generation.predictor import ExampleSampler
from neuropil.tasks.generation.sample_scorer import SampleScorer, SampleScoringConfig
from neuropil.tasks.generation.scores import nearest
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview

TIMED = 32
"""Samples by which the time of all is estimated."""


class GenerationExperiment(TrainableExperiment[Tensor]):
    """`predictions` are samples, as the training data has its examples."""

    def __init__(
        self,
        learner: Learner,
        splits: Splits[Examples],
        training: TrainingConfig,
        scoring: SampleScoringConfig,
        sampler: Callable[[torch.nn.Module], ExampleSampler],
        *,
        seed: int,
        name: str,
        augment: Augment | None = None,
        inside: Callable[[], Sequence[Section]] = list,
        measure: Callable[[torch.nn.Module], dict[str, float]] = lambda _: {},
    ):
        """`inside` makes the report's sections on what is in the model, and `measure` finds what else is known of a
        trained one, such as its likelihood."""
        self.measure = measure
        self.splits, self.schema, self.inside = splits, splits.train.schema, inside
        self.make_sampler, self.augment = sampler, augment if self.schema.kind == "image" else None
        super().__init__(learner, splits.parts, training, seed, name, splits.train.source, splits.notes)
        self.scorer = SampleScorer(splits, scoring, seed, self.device)

    # --- data ---------------------------------------------------------------------------------------------------------

    def own_facts(self) -> dict[str, Any]:
        return {"schema": self.schema.to_dict()}

    def training_keys(self) -> list[bytes]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        return (tensor for part in self.splits.parts.values() for tensor in (part.inputs, part.targets))

    def batches(self, part: PartName) -> ExampleBatches:
        if part != "train":
            return in_order(self.splits.parts[part], self.device)
        size, augment = self.training.batch_size, self.augment
        return ExampleBatches(self.splits.train, size, self.seed, shuffle=True, augment=augment, device=self.device)

    # --- what is made, and how it is scored ---------------------------------------------------------------------------

    @cached_property
    def labels(self) -> Int64[Tensor, " sample"] | None:
        """The classes that are asked for, where a model knows classes."""
        return self.scorer.labels if self.make_sampler(self.model).conditional else None

    def predict_test(self, learner: Learner) -> Tensor:
        sampler = self.make_sampler(learner.model)
        return sampler.sample_labels(self.scorer.count, seeded(self.seed, "samples"), self.labels)

    def preview(self) -> Preview:
        """Samples, always from the same random numbers; a row of each class, where the model knows classes."""
        sampler = self.make_sampler(self.model)
        labels = torch.arange(preview.SHOWN) % len(self.schema.classes) if sampler.conditional else None
        made = sampler.sample_labels(preview.SHOWN, seeded(self.seed, "preview"), labels)
        names = [] if labels is None else [self.schema.classes[label] for label in labels.tolist()]
        return preview.examples(made, self.schema, names=names)

    def require_scorable(self) -> None:
        self.scorer.require_examples()

    def scoring_seconds(self) -> float:
        """Of the samples, by a few of them."""
        count = min(TIMED, self.scorer.count)
        labels = None if self.labels is None else self.labels[:count]
        began = time.monotonic()
        self.make_sampler(self.model).sample_labels(count, seeded("timed"), labels)
        return (time.monotonic() - began) * self.scorer.count / count

    def score(self, learner: Learner, predictions: Tensor) -> dict[str, float]:
        found = self.scorer.score(predictions, self.labels)
        return found | evaluate(learner, self.batches("test")) | self.measure(learner.model)

    def baselines(self) -> list[Result]:
        return self.scorer.compared()

    # --- report -------------------------------------------------------------------------------------------------------

    def own_sections(self) -> list[Section]:
        samples, extractor, references = self.predictions, self.scorer.extractor, self.scorer.references.inputs
        _, neighbours = nearest(samples[: report.NEAREST], references)
        seen, real = extractor.classify(samples) if extractor.classify is not None else None, self.scorer.real.targets
        return [
            report.samples_section(samples, self.schema, self.labels),
            report.nearest_section(samples, references[neighbours], self.schema),
            *([] if seen is None else [report.classes_section(seen, real, self.schema.classes)]),
            report.scoring_section(extractor.about, self.scorer.count),
            *self.inside(),
        ]

    def data_section(self) -> Section:
        return data_section(self.splits.parts, self.augment, self.notes)
