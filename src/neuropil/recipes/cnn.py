"""A CNN that learns to tell pictures apart: the embedded digits, or the user's own."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.errors import InputError
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ObjectiveConfig, Supervised, SupervisedModel
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig


class CNNOptions(Config):
    data: DataConfig = DataConfig()
    model: CNNConfig = CNNConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    augment: Augment = Augment(shift=1, rotate=10, zoom=0.1)
    # A rate that ends at zero ends at good weights; which epoch looks best on a small validation part is mostly luck.
    training: TrainingConfig = TrainingConfig(updates=630, learning_rate=3e-3, keep="last")


def build(options: CNNOptions, seed: int) -> Supervised:
    splits = prepare(options.data, seed)
    schema = splits.train.schema
    if schema.kind != "image" or not schema.classes:
        raise InputError(
            "the cnn learns from pictures with class labels", got=splits.train.source, fix="train the mlp on it"
        )
    config = dataclasses.replace(options.model, shape=schema.shape, classes=schema.num_outputs)
    model = initialised(lambda: CNN(config), seed)
    model.standardize.fit(splits.train.inputs)
    return Supervised(
        model, splits, options.training, seed=seed, name="cnn", augment=options.augment, objective=options.objective
    )


def restore(facts: Mapping[str, Any], folder: Path) -> SupervisedModel:
    return SupervisedModel(CNN(CNNConfig.from_dict(facts["model"])), Schema.from_dict(facts["schema"]))


RECIPE = Recipe(CNNOptions(), build, restore)
