"""Predictive coding that learns classes or numbers by local rules alone: from the embedded digits, or the user's own pictures or tables.

Beside it, an MLP of the same layers learns by back-propagation from the same batches. The report shows the energy while the network
settles, how near its weight changes come to back-propagation's, what it generates for each class, and what it makes of covered pictures.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Schema, Splits
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.inspection.report.predictive_coding import inside_sections
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.predictive_coding import PredictiveCoding, PredictiveCodingConfig, SettledEnergy
from neuropil.protocols import Batch, Batches
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ObjectiveConfig, Supervised, SupervisedModel
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.recipe import Recipe, Result
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit

NAME, PEER = "predictive_coding", "back-propagation"


class LearningConfig(Config):
    incremental: bool = option(False, "weights change in every step of settling, and not only after the last")


class PredictiveCodingOptions(Config):
    data: DataConfig = DataConfig()
    model: PredictiveCodingConfig = PredictiveCodingConfig()
    learning: LearningConfig = LearningConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(updates=1260, learning_rate=2e-3, keep="last")


class Lingering:
    """Each batch as often in a row as it has steps to settle; `visit` counts them."""

    def __init__(self, batches: Batches, visits: int):
        self.batches, self.visits = batches, visits

    def __len__(self) -> int:
        return len(self.batches) * self.visits

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        first, visit = divmod(start, self.visits)
        for batch in self.batches.epoch(number, first):
            for count in range(visit, self.visits):
                yield {**batch, "visit": torch.full_like(batch["target"], count, dtype=torch.int64)}
            visit = 0


class Settling:
    """The experiment: one network that settles and learns, and an MLP of the same layers that learns by back-propagation."""

    def __init__(self, model: PredictiveCoding, splits: Splits, options: PredictiveCodingOptions, seed: int):
        self.options, self.seed, self.splits = options, seed, splits
        self.own = self._supervised(model, options.training, NAME, lambda: inside_sections(model, splits.test))
        self.model, self.model_config = model, model.config
        self.learner = SettledEnergy(model)
        self.peer: Supervised | None = None

    def _supervised(
        self,
        model: MLP | PredictiveCoding,
        training: TrainingConfig,
        name: str,
        inside: Callable[[], Sequence[Section]] | None = None,
    ) -> Supervised:
        """All that does not depend on the learning rule: data, batches, scores."""
        return Supervised(
            model,
            self.splits,
            training,
            seed=self.seed,
            name=name,
            augment=self.options.augment,
            objective=ObjectiveConfig(),
            inside=inside,
        )

    def facts(self) -> dict[str, Any]:
        return self.own.facts()

    @property
    def training_batches(self) -> Batches:
        batches = self.own.training_batches
        return Lingering(batches, self.model.config.steps) if self.options.learning.incremental else batches

    @property
    def validation_batches(self) -> Batches:
        return self.own.validation_batches

    def train(self, folder: Path, *, show_progress: bool) -> None:
        validation = self.validation_batches if len(self.splits.validation) else None
        training = self.options.training
        rows = fit(
            self.learner,
            self.training_batches,
            validation,
            training,
            seed=self.seed,
            folder=folder,
            title=NAME,
            show_progress=show_progress,
        )
        passes = math.ceil(
            max(row["epoch"] for row in rows if row["kind"] == "train")
        )  # as many for the other, however long they took
        self.peer = self._peer(dataclasses.replace(training, epochs=passes, minutes=None, patience=None))
        self.peer.train(folder / PEER, show_progress=show_progress)

    def _peer(self, training: TrainingConfig) -> Supervised:
        own = self.model.config
        config = MLPConfig(
            hidden_sizes=own.hidden_sizes, activation=own.activation, dropout=0.0, shape=own.shape, outputs=own.outputs
        )
        model = initialised(lambda: MLP(config), self.seed)
        model.standardize.fit(self.splits.train.inputs)
        if not self.splits.train.schema.classes:
            model.target_scale.fit(self.splits.train.targets)
        return self._supervised(model, training, f"{PEER}, the same layers")

    def own_result(self) -> Result:
        return self.own.own_result()

    def evaluate(self) -> list[Result]:
        first, *others = baselines(self.splits)
        peers = [] if self.peer is None else [self.peer.own_result()]
        return [self.own_result(), first, *peers, *others]

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return self.own.sections(history)


def build(options: PredictiveCodingOptions, seed: int) -> Settling:
    if options.training.precision != "float32":  # errors are small differences of large numbers
        raise InputError(
            "predictive coding settles in float32", got=f"precision={options.training.precision!r}", fix="leave it out"
        )
    splits = prepare(options.data, seed)
    schema = splits.train.schema
    config = dataclasses.replace(
        options.model,
        shape=schema.shape,
        outputs=schema.num_outputs,
        answers="classes" if schema.classes else "numbers",
    )
    model = initialised(lambda: PredictiveCoding(config), seed)
    model.standardize.fit(splits.train.inputs)
    if not schema.classes:
        model.target_scale.fit(splits.train.targets)
    return Settling(model, splits, options, seed)


def restore(facts: Mapping[str, Any], folder: Path) -> SupervisedModel:
    return SupervisedModel(
        PredictiveCoding(PredictiveCodingConfig.from_dict(facts["model"])), Schema.from_dict(facts["schema"])
    )


RECIPE = Recipe(PredictiveCodingOptions(), build, restore)
