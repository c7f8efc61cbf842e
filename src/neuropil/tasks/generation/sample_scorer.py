"""One measure for generated examples of any model: what they are compared with, and the scores of both."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.randomness import seeded
from neuropil.tasks.experiment import Result
from neuropil.tasks.generated_examples import as_data
from neuropil.tasks.generation.features import FeatureExtractor, train_feature_extractor
from neuropil.tasks.generation.scores import (
    class_coverage,
    frechet_distance,
    gaussian_examples,
    memorised_share,
    nearest,
    precision_and_recall,
    spread_labels,
)

MOST_REFERENCES = 10_000
"""Training examples with which generated ones are compared."""


class SampleScoringConfig(Config):
    scored_samples: int = option(2_000, "samples to score, at most as many as there are test examples", low=2)
    classifier_updates: int = option(
        400, "updates of the classifier in whose features samples are scored; at least a pass", low=1
    )


@dataclass(frozen=True)
class SampleScorer:
    """The same for the same data and seed, whatever model made the samples."""

    splits: Splits[Examples]
    config: SampleScoringConfig
    seed: int
    device: torch.device

    def require_examples(self) -> None:
        if len(self.splits.test) < 2:
            rule, fix = "samples are scored beside at least 2 test examples", "give more examples or a larger --test"
            raise InputError(rule, got=f"{len(self.splits.test)}", fix=fix)

    @property
    def count(self) -> int:
        return min(self.config.scored_samples, len(self.splits.test))

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
    def extractor(self) -> FeatureExtractor:
        return train_feature_extractor(self.splits.train, self.config.classifier_updates, self.seed, self.device)

    @cached_property
    def real_features(self) -> Float[Tensor, "example feature"]:
        return self.extractor.features(self.real.inputs)

    @cached_property
    def reference_features(self) -> Float[Tensor, "other feature"]:
        return self.extractor.features(self.references.inputs)

    @cached_property
    def labels(self) -> Int64[Tensor, " sample"]:
        """Classes to ask for, in the proportions of the training part."""
        train = self.splits.train
        return spread_labels(train.targets, len(train.schema.classes), self.count)

    def score(self, samples: Tensor, labels: Int64[Tensor, " sample"] | None = None) -> dict[str, float]:
        """With the classes that were asked for, how many samples are of theirs, as the classifier sees them."""
        features, classify = self.extractor.features(samples), self.extractor.classify
        precision, recall = precision_and_recall(features, self.real_features)
        found = {
            "frechet_distance": frechet_distance(features, self.reference_features),
            "precision": precision,
            "recall": recall,
        }
        distances, _ = nearest(samples, self.references.inputs)
        if classify is not None:
            seen, classes = classify(samples), len(self.splits.train.schema.classes)
            found["class_coverage"] = class_coverage(seen, self.real.targets, classes)
            found |= {} if labels is None else {"class_accuracy": float((seen == labels).double().mean())}
        return found | {"memorised": memorised_share(distances, self.real_distances)}

    def score_of_real(self) -> dict[str, float]:
        """The scores of the test examples themselves; to be within their own manifold would be no art, so that they
        are compared with as many training examples there."""
        precision, recall = precision_and_recall(self.real_features, self.reference_features[: self.count])
        return self.score(self.real.inputs) | {"precision": precision, "recall": recall}

    @cached_property
    def real_distances(self) -> Tensor:
        return nearest(self.real.inputs, self.references.inputs)[0]

    def compared(self) -> list[Result]:
        """Random examples with the mean and covariance of the data; and real ones, with which nothing competes."""
        drawn = gaussian_examples(self.references.inputs, self.count, seeded(self.seed, "gaussian"))
        random = as_data(drawn, self.splits.train.schema)
        return [
            Result("a Gaussian fitted to the data", self.score(random)),
            Result("real examples, held out", self.score_of_real(), limit=True),
        ]
