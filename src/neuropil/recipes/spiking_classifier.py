"""Spiking classifier trained by surrogate gradients on images or table rows: the embedded digits, or your own.

The report follows one input through the layers, spike by spike, and shows how soon the answer is there.
"""

import dataclasses

from neuropil.adversarial.defences import DefenceConfig
from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.errors import InputError
from neuropil.inspection.report.spiking_classifier import spiking_sections
from neuropil.models.spiking.classifier import SpikingClassifier, SpikingClassifierConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ClassificationExperiment, ObjectiveConfig
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.classification.report import inside_section
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class SpikingClassifierOptions(Config):
    data: ClassificationDataConfig = ClassificationDataConfig()
    model: SpikingClassifierConfig = SpikingClassifierConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    defence: DefenceConfig = DefenceConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(updates=1_200, learning_rate=5e-3, keep="last")


OWN_DATA = SpikingClassifierOptions(
    model=SpikingClassifierConfig(hidden_sizes=(512, 512)),
    augment=Augment(shift=1, rotate=10, zoom=0.1),
    training=TrainingConfig(updates=5_000, batch_size=128, learning_rate=3e-3, keep="last"),
)
"""More and larger pictures than the digits fill a larger network."""


def build(options: SpikingClassifierOptions, seed: int) -> ClassificationExperiment:
    splits = prepare(options.data, seed)
    schema = splits.train.schema
    if not schema.classes:
        raise InputError("the spiking classifier learns classes", got=splits.train.source, fix="train the mlp on it")
    config = dataclasses.replace(options.model, shape=schema.shape, classes=schema.num_outputs)
    model = initialised(lambda: SpikingClassifier(config), seed)
    model.encode.fit(splits.train.inputs)
    return ClassificationExperiment(
        model,
        splits,
        options,
        seed=seed,
        name="spiking_classifier",
        objective=options.objective,
        defence=options.defence,
        inside=lambda: [*spiking_sections(model, splits.test), inside_section(model, schema)],
    )


RECIPE = Recipe(SpikingClassifierOptions(), build, SpikingClassifier, ExamplePredictor, own_data=OWN_DATA)
