"""An autoencoder that learns short codes of pictures or rows, beside PCA: of the embedded digits, or the user's own."""

import dataclasses
import math
from functools import partial

from neuropil.config import Config
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.errors import InputError
from neuropil.models.autoencoder import Autoencoder, AutoencoderConfig, ReconstructionConfig, ReconstructionLoss
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.reconstruction.experiment import ReconstructionExperiment
from neuropil.tasks.reconstruction.predictor import Reconstructor
from neuropil.training.config import TrainingConfig


class AutoencoderOptions(Config):
    data: ImageDataConfig = ImageDataConfig()
    model: AutoencoderConfig = AutoencoderConfig()
    objective: ReconstructionConfig = ReconstructionConfig()
    training: TrainingConfig = TrainingConfig(updates=3_000, batch_size=64, learning_rate=2e-3)


def build(options: AutoencoderOptions, seed: int) -> ReconstructionExperiment:
    splits = prepare_unlabelled(options.data, seed)
    config = dataclasses.replace(options.model, shape=splits.train.schema.shape)
    model = initialised(lambda: Autoencoder(config), seed)
    model.unit_range.fit(splits.train.inputs)
    learner = ReconstructionLoss(model, options.objective)
    naming = {"latent": config.latent_size, "seed": seed, "name": "autoencoder"}
    require = partial(require_bottleneck, config)
    return ReconstructionExperiment(learner, splits, options.training, **naming, require=require)


def require_bottleneck(config: AutoencoderConfig) -> None:
    """A code as long as its input could be the input itself, unless noise has to be taken away."""
    numbers = math.prod(config.shape)
    if config.latent_size >= numbers and config.corruption == "none":
        rule = f"codes of inputs of {numbers} numbers must be shorter"
        fix = f"choose --latent-size {max(1, numbers // 2)}, or denoise with --corruption gaussian"
        raise InputError(rule, got=f"{config.latent_size} latent dimensions", fix=fix)


RECIPE = Recipe(AutoencoderOptions(), build, Autoencoder, Reconstructor)
