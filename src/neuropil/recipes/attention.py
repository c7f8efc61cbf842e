"""Self-attention over patches that classifies pictures: the embedded digits, or the user's own.

The report shows the attention weights: the m × m matrix of each layer below its picture, the weights of every query
patch of one picture, the patches that receive most attention in each class, and the entropy of the weights."""

import dataclasses

from neuropil.adversarial.defences import DefenceConfig
from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.inspection.report.patch_attention import entropy_section, weights_section
from neuropil.models.attention import PatchAttention, PatchAttentionConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ClassificationExperiment, ObjectiveConfig, require_pictures
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class AttentionOptions(Config):
    data: ClassificationDataConfig = ClassificationDataConfig()
    model: PatchAttentionConfig = PatchAttentionConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    defence: DefenceConfig = DefenceConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(updates=2000, learning_rate=2e-3, clip=1.0, keep="last")


def build(options: AttentionOptions, seed: int) -> ClassificationExperiment:
    splits = prepare(options.data, seed)
    require_pictures("attention over patches", splits)
    model = new_patch_attention(options.model, splits.train, seed)
    return ClassificationExperiment(
        model,
        splits,
        options,
        seed=seed,
        name="attention",
        objective=options.objective,
        defence=options.defence,
        inside=lambda: [weights_section(model, splits.test), entropy_section(model, splits.test)],
    )


def new_patch_attention(config: PatchAttentionConfig, train: Examples, seed: int) -> PatchAttention:
    """For these pictures, before training."""
    config = dataclasses.replace(config, shape=train.schema.shape, classes=train.schema.num_outputs)
    model = initialised(lambda: PatchAttention(config), seed)
    model.standardize.fit(train.inputs)
    return model


RECIPE = Recipe(AttentionOptions(), build, PatchAttention, ExamplePredictor, about="parts.attention")
