"""A Vision Transformer that learns to tell pictures apart: the embedded digits, or the user's own.

The run's folder opens in Hugging Face's library as it is. The report shows by roll-out which patches each answer was
drawn from."""

import dataclasses
from pathlib import Path

from neuropil.adversarial.defences import DefenceConfig
from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.files import ClassificationDataConfig, DataConfig, format_of, prepare
from neuropil.data.patches import choose_patch, filled_shape, resized_examples, usual_patch
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.report.vit import rollout_section
from neuropil.models.vit import ViT, ViTConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ClassificationExperiment, ObjectiveConfig, require_pictures
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class ViTOptions(Config):
    data: ClassificationDataConfig = ClassificationDataConfig()
    model: ViTConfig = ViTConfig(width=64, heads=4, layers=4, patch=None, shape=())
    objective: ObjectiveConfig = ObjectiveConfig(label_smoothing=0.1)
    defence: DefenceConfig = DefenceConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(
        updates=2_000, learning_rate=2e-3, weight_decay=0.05, warmup=0.1, clip=1.0, keep="last"
    )


OWN_DATA = ViTOptions(
    augment=Augment(shift=2, rotate=10, zoom=0.1),
    training=TrainingConfig(updates=6_000, learning_rate=1e-3, weight_decay=0.05, warmup=0.1, clip=1.0, keep="last"),
)
"""Larger pictures can be moved by more pixels, and more of them take more updates."""


def build(options: ViTOptions, seed: int) -> ClassificationExperiment:
    splits = prepare(options.data, seed, lazily=True)
    require_pictures("the vit", splits)
    splits, patch = cut_into_patches(splits, options.data, options.model.patch)
    schema = splits.train.schema
    config = dataclasses.replace(options.model, patch=patch, shape=schema.shape, classes=schema.num_outputs)
    model = initialised(lambda: ViT(config), seed)
    model.standardize.fit(splits.train.sample.inputs)
    return ClassificationExperiment(
        model,
        splits,
        options,
        seed=seed,
        name="vit",
        objective=options.objective,
        defence=options.defence,
        inside=lambda: [rollout_section(model, splits.test)],
    )


def cut_into_patches(splits: Splits, data: DataConfig, given: int | None) -> tuple[Splits, int]:
    """The side of a patch; where patches would not fill the pictures, those that come from image files are resized a
    little."""
    shape = splits.train.schema.shape
    patch = given or choose_patch(shape) or usual_patch(shape)
    filled = filled_shape(shape, patch)
    if filled == shape:
        return splits, patch
    if not isinstance(data.data, Path) or format_of(data.data) != "image folder":
        height, width = filled[1:]
        raise InputError(
            f"pictures must have sides that patches of {patch} pixels fill",
            got=f"{shape[1]}×{shape[2]}",
            fix=f"resize them to {height}×{width} or give another --patch",
        )
    return resized_examples(splits, filled), patch


RECIPE = Recipe(ViTOptions(), build, ViT, ExamplePredictor, own_data=OWN_DATA)
