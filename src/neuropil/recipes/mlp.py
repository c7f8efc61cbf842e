"""A multi-layer perceptron for classification or regression of pictures or tables: the embedded digits, or the user's
own."""

import dataclasses

from neuropil.adversarial.defences import DefenceConfig
from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ClassificationExperiment, ObjectiveConfig, fit_scales
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class MLPOptions(Config):
    data: ClassificationDataConfig = ClassificationDataConfig()
    model: MLPConfig = MLPConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    defence: DefenceConfig = DefenceConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(updates=1260, learning_rate=2e-3)


def build(options: MLPOptions, seed: int) -> ClassificationExperiment:
    splits = prepare(options.data, seed, lazily=True)
    schema = splits.train.schema
    config = dataclasses.replace(options.model, shape=schema.shape, outputs=schema.num_outputs)
    config = config.sized(len(splits.train))
    model = fit_scales(initialised(lambda: MLP(config), seed), splits.train)
    return ClassificationExperiment(
        model, splits, options, seed=seed, name="mlp", objective=options.objective, defence=options.defence
    )


OWN_DATA = MLPOptions(training=TrainingConfig(updates=1260, learning_rate=2e-3, weight_decay=0.3, keep="last"))
"""Few rows want more weight decay. Which epoch looks best on a small validation part is mostly luck; a rate that ends
at zero ends at good weights."""

RECIPE = Recipe(MLPOptions(), build, MLP, ExamplePredictor, own_data=OWN_DATA)
