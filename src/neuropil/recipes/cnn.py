"""A CNN that classifies pictures: the embedded digits, or the user's own."""

import dataclasses

from neuropil.adversarial.defences import DefenceConfig
from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.inspection.report.cnn import activation_section
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification import report
from neuropil.tasks.classification.experiment import ClassificationExperiment, ObjectiveConfig, require_pictures
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class CNNOptions(Config):
    data: ClassificationDataConfig = ClassificationDataConfig()
    model: CNNConfig = CNNConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    defence: DefenceConfig = DefenceConfig()
    augment: Augment = Augment(shift=1, rotate=10, zoom=0.1)
    # A rate that ends at zero ends at good weights; which epoch looks best on a small validation part is mostly luck.
    training: TrainingConfig = TrainingConfig(updates=630, learning_rate=3e-3, keep="last")


def build(options: CNNOptions, seed: int) -> ClassificationExperiment:
    splits = prepare(options.data, seed, lazily=True)
    schema = require_pictures("the cnn", splits, several_labels=True)
    config = dataclasses.replace(options.model, shape=schema.shape, classes=schema.num_outputs)
    model = initialised(lambda: CNN(config), seed)
    model.standardize.fit(splits.train.sample.inputs)
    return ClassificationExperiment(
        model,
        splits,
        options,
        seed=seed,
        name="cnn",
        objective=options.objective,
        defence=options.defence,
        inside=lambda: [
            report.inside_section(model, schema),
            activation_section(model, splits.test.inputs[0], report.label_of(splits.test, 0)),
        ],
    )


RECIPE = Recipe(CNNOptions(), build, CNN, ExamplePredictor)
