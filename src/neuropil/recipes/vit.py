"""A Vision Transformer that learns to tell pictures apart: the embedded digits, or the user's own.

The run's folder opens in Hugging Face's library as it is. The report shows by roll-out which patches each answer was drawn from.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples, Schema, Splits
from neuropil.data.examples.files import DataConfig, format_of, prepare
from neuropil.data.patch_sizes import choose_patch, filled_shape, resized_examples, usual_patch
from neuropil.errors import InputError
from neuropil.inspection.pictures.rollout import head_looks, rollouts
from neuropil.inspection.report.page import Picture, Section, Text
from neuropil.inspection.rollout import PatchLooks, patch_looks
from neuropil.models.vit import ViT, ViTConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ObjectiveConfig, Supervised, SupervisedModel
from neuropil.tasks.classification.report import pixels
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig

SHOWN = 15


class ViTOptions(Config):
    data: DataConfig = DataConfig()
    model: ViTConfig = ViTConfig(width=64, heads=4, layers=4, patch=None, shape=())
    objective: ObjectiveConfig = ObjectiveConfig(label_smoothing=0.1)
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(
        updates=2_000, learning_rate=2e-3, weight_decay=0.05, warmup=0.1, clip=1.0, keep="last"
    )


OWN_DATA = ViTOptions(
    augment=Augment(shift=2, rotate=10, zoom=0.1),
    training=TrainingConfig(updates=6_000, learning_rate=1e-3, weight_decay=0.05, warmup=0.1, clip=1.0, keep="last"),
)
"""Larger pictures can be moved by more pixels, and more of them take more updates."""


def build(options: ViTOptions, seed: int) -> Supervised:
    splits = prepare(options.data, seed)
    schema = splits.train.schema
    if schema.kind != "image" or not schema.classes:
        raise InputError(
            "the vit learns from pictures with class labels", got=splits.train.source, fix="train the mlp on it"
        )
    splits, patch = cut_into_patches(splits, options)
    schema = splits.train.schema
    config = dataclasses.replace(options.model, patch=patch, shape=schema.shape, classes=schema.num_outputs)
    model = initialised(lambda: ViT(config), seed)
    model.standardize.fit(splits.train.inputs)
    return Supervised(
        model,
        splits,
        options.training,
        seed=seed,
        name="vit",
        augment=options.augment,
        objective=options.objective,
        inside=lambda: [looking_section(model, splits.test)],
    )


def cut_into_patches(splits: Splits, options: ViTOptions) -> tuple[Splits, int]:
    """The side of a patch; where patches would not fill the pictures, those that come from image files are resized a little."""
    shape, given = splits.train.schema.shape, options.model.patch
    patch = given or choose_patch(shape) or usual_patch(shape)
    filled = filled_shape(shape, patch)
    if filled == shape:
        return splits, patch
    if options.data.data is None or format_of(options.data.data) != "image folder":
        height, width = filled[1:]
        raise InputError(
            f"pictures must have sides that patches of {patch} pixels fill",
            got=f"{shape[1]}×{shape[2]}",
            fix=f"resize them to {height}×{width} or give another --patch",
        )
    return resized_examples(splits, filled), patch


def restore(facts: Mapping[str, Any], folder: Path) -> SupervisedModel:
    return SupervisedModel(ViT(ViTConfig.from_dict(facts["model"])), Schema.from_dict(facts["schema"]))


# --- the report ------------------------------------------------------------------------------------------------------------------


def looking_section(model: ViT, test: Examples) -> Section:
    shown = test.take(_some_of_each_class(test)[:SHOWN])
    looks = looks_of(model, shown.inputs)
    images = [pixels(shown, index) for index in range(len(shown))]
    titles = [shown.schema.classes[int(target)] for target in shown.targets]
    rolled = rollouts(images, looks.rollout, titles)
    first = head_looks(images[0], {name: weights[0] for name, weights in looks.heads.items()})
    rows, columns = looks.rollout.shape[1:]
    side = model.config.patch
    words = (
        f"A picture is {rows} × {columns} patches of {side} × {side} pixels, and a vector that stands for the whole. Roll-out multiplies "
        "the weights of all layers: the brighter a patch is lit, from the least to the most, the more of it can have reached the vector "
        "that the answer is read from."
    )
    return Section(
        "Where it looks",
        [
            Text(words),
            Picture.of(rolled, alt="pictures, and beside each the same lit where the answer was drawn from"),
            Text(f"Where each head of each layer looks from there, on a picture of class {titles[0]}:"),
            Picture.of(
                first,
                alt="one picture, lit where each head of each layer looks",
                caption="Weights show where information may flow from; they do not say by themselves why an answer was given.",
            ),
        ],
    )


def looks_of(model: ViT, pictures: Tensor) -> PatchLooks:
    was_training = model.training
    model.eval()
    looks = patch_looks(model, pictures.to(next(model.parameters()).device))
    model.train(was_training)
    return looks


def _some_of_each_class(test: Examples) -> Tensor:
    """Examples in an order that goes round the classes."""
    round_of = torch.zeros_like(test.targets)
    for number in test.targets.unique():
        own = (test.targets == number).nonzero().flatten()
        round_of[own] = torch.arange(len(own))
    return (round_of * (int(test.targets.max()) + 1) + test.targets).argsort()


RECIPE = Recipe(ViTOptions(), build, restore, own_data=OWN_DATA)
