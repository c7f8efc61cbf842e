"""A multi-layer perceptron that learns classes or numbers from pictures or tables: the embedded digits, or the user's own."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ObjectiveConfig, Supervised, SupervisedModel
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig


class MLPOptions(Config):
    data: DataConfig = DataConfig()
    model: MLPConfig = MLPConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(updates=1260, learning_rate=2e-3)


def build(options: MLPOptions, seed: int) -> Supervised:
    splits = prepare(options.data, seed)
    schema = splits.train.schema
    config = dataclasses.replace(options.model, shape=schema.shape, outputs=schema.num_outputs)
    model = initialised(lambda: MLP(config), seed)
    model.standardize.fit(splits.train.inputs)
    if not schema.classes:
        model.target_scale.fit(splits.train.targets)
    return Supervised(
        model, splits, options.training, seed=seed, name="mlp", augment=options.augment, objective=options.objective
    )


def restore(facts: Mapping[str, Any], folder: Path) -> SupervisedModel:
    return SupervisedModel(MLP(MLPConfig.from_dict(facts["model"])), Schema.from_dict(facts["schema"]))


RECIPE = Recipe(MLPOptions(), build, restore)
