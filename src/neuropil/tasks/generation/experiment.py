"""Generation: a model that learns to make examples like those of the training part, and is judged by what it makes."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import PartName, Splits
from neuropil.inspection.report.page import Section
from neuropil.protocols import Learner
from neuropil.randomness import seeded
from neuropil.tasks.classification.predictor import in_order
from neuropil.tasks.classification.report import data_section
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.generated_examples import as_data
from neuropil.tasks.generation import report
from neuropil.tasks.generation.judge import Judge, train_judge
from neuropil.tasks.generation.predictor import ExampleSampler
from neuropil.tasks.generation.scores import (
    class_coverage,
    frechet_distance,
    gaussian_examples,
    memorised_share,
    nearest,
    precision_and_recall,
    spread_labels,
)
from neuropil.training.evaluation import evaluate
from neuropil.training.loop import TrainingConfig

MOST_REFERENCES = 10_000
"""Training examples with which generated ones are compared."""


class JudgementConfig(Config):
    judged_samples: int = option(2_000, "samples to score, at most as many as there are test examples", low=2)
    judge_updates: int = option(400, "updates of the classifier in whose features samples are scored", low=1)


class GenerationExperiment(TrainableExperiment[Tensor]):
    """`predictions` are samples, as the training data has its examples."""

    def __init__(
        self,
        learner: Learner,
        splits: Splits[Examples],
        training: TrainingConfig,
        judgement: JudgementConfig,
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
        self.splits, self.schema, self.judgement, self.inside = splits, splits.train.schema, judgement, inside
        self.make_sampler, self.augment = sampler, augment if self.schema.kind == "image" else None
        super().__init__(learner, splits.parts, training, seed, name, splits.train.source, splits.notes)

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

    # --- what is made, and how it is judged ---------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return min(self.judgement.judged_samples, len(self.splits.test))

    @cached_property
    def labels(self) -> Int64[Tensor, " sample"] | None:
        """The classes that are asked for, in the proportions of the training part, where a model knows classes."""
        if not self.make_sampler(self.model).conditional:
            return None
        return spread_labels(self.splits.train.targets, len(self.schema.classes), self.count)

    @cached_property
    def real(self) -> Examples:
        """Of the test part, as many as samples."""
        chosen = torch.randperm(len(self.splits.test), generator=seeded(self.seed, "judged"))[: self.count]
        return self.splits.test.take(chosen)

    @cached_property
    def references(self) -> Examples:
        train = self.splits.train
        return train.take(torch.randperm(len(train), generator=seeded(self.seed, "references"))[:MOST_REFERENCES])

    @cached_property
    def judge(self) -> Judge:
        return train_judge(self.splits.train, self.judgement.judge_updates, self.seed, self.device)

    def predict_test(self, learner: Learner) -> Tensor:
        sampler = self.make_sampler(learner.model)
        return sampler.sample_labels(self.count, seeded(self.seed, "samples"), self.labels)

    def score(self, learner: Learner, predictions: Tensor) -> dict[str, float]:
        found = self.judged(predictions) | self._of_classes(predictions)
        return found | evaluate(learner, self.batches("test")) | self.measure(learner.model)

    def judged(self, samples: Tensor) -> dict[str, float]:
        judge, references = self.judge, self.references.inputs
        features = judge.features(samples)
        precision, recall = precision_and_recall(features, judge.features(self.real.inputs))
        found = {
            "frechet_distance": frechet_distance(features, judge.features(references)),
            "precision": precision,
            "recall": recall,
        }
        if judge.classify is not None:
            classes = len(self.schema.classes)
            found["class_coverage"] = class_coverage(judge.classify(samples), self.real.targets, classes)
        distances, _ = nearest(samples.float(), references.float())
        return found | {"memorised": memorised_share(distances, self.real_distances)}

    def judged_real(self) -> dict[str, float]:
        """The scores of the test examples themselves; to be within their own manifold would be no art, so that they
        are compared with as many training examples there."""
        features = self.judge.features(self.real.inputs)
        precision, recall = precision_and_recall(features, self.judge.features(self.references.inputs[: self.count]))
        return self.judged(self.real.inputs) | {"precision": precision, "recall": recall}

    @cached_property
    def real_distances(self) -> Tensor:
        return nearest(self.real.inputs.float(), self.references.inputs.float())[0]

    def _of_classes(self, samples: Tensor) -> dict[str, float]:
        """How many samples are of the class that was asked for, as the judge sees them."""
        if self.labels is None or self.judge.classify is None:
            return {}
        return {"class_accuracy": float((self.judge.classify(samples) == self.labels).double().mean())}

    def baselines(self) -> list[Result]:
        """Random examples with the mean and covariance of the data; and real ones, which no model is expected to
        beat."""
        drawn = gaussian_examples(self.references.inputs.float(), self.count, seeded(self.seed, "gaussian"))
        random = as_data(drawn, self.schema)
        return [
            Result("a Gaussian fitted to the data", self.judged(random)),
            Result("real examples, held out", self.judged_real(), limit=True),
        ]

    # --- report -------------------------------------------------------------------------------------------------------

    def own_sections(self) -> list[Section]:
        samples, labels = self.predictions, self.labels
        _, neighbours = nearest(samples[: report.NEAREST].float(), self.references.inputs.float())
        seen = self.judge.classify(samples) if self.judge.classify is not None else None
        return [
            report.samples_section(samples, self.schema, labels),
            report.nearest_section(samples, self.references.inputs[neighbours], self.schema),
            *([] if seen is None else [report.classes_section(seen, self.real.targets, self.schema.classes)]),
            report.judge_section(self.judge.about, self.count),
            *self.inside(),
        ]

    def data_section(self) -> Section:
        return data_section(self.splits.parts, self.augment, self.notes)
