"""An autoencoder that learns short codes of pictures or rows, beside PCA: of the embedded digits, or the user's own."""

import dataclasses

from neuropil.config import Config
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.models.autoencoder import Autoencoder, AutoencoderConfig, ReconstructionConfig, ReconstructionLoss
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.reconstruction.experiment import ReconstructionExperiment
from neuropil.tasks.reconstruction.predictor import Reconstructor
from neuropil.training.loop import TrainingConfig


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
    return ReconstructionExperiment(learner, splits, options.training, **naming)


RECIPE = Recipe(AutoencoderOptions(), build, Autoencoder, Reconstructor)
