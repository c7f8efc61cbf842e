"""A generative adversarial network that learns to make pictures or rows, like the embedded digits or the user's own."""

import dataclasses

from neuropil.config import Config
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.inspection.report.gan import gan_sections
from neuropil.models.gan import GAN, AdversarialGame, GameConfig, GANConfig
from neuropil.randomness import initialised
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.generation.predictor import LatentSampler
from neuropil.tasks.generation.sample_scorer import SampleScoringConfig
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class GANOptions(Config):
    data: ImageDataConfig = ImageDataConfig()
    model: GANConfig = GANConfig(network="convolutional")
    game: GameConfig = GameConfig()
    scoring: SampleScoringConfig = SampleScoringConfig()
    # Momentum overshoots in a game of two, so that the optimiser has none. Weights that decay cannot tell narrow modes.
    # Samples differ from one update to the next; the mean of the weights is better than any of them.
    training: TrainingConfig = TrainingConfig(
        updates=4_000,
        batch_size=64,
        optimizer="rmsprop",
        learning_rate=1e-3,
        weight_decay=0.0,
        average=0.995,
        monitor="energy_distance",
        keep="last",
    )


def build(options: GANOptions, seed: int) -> GenerationExperiment:
    splits = prepare_unlabelled(options.data, seed)
    config = dataclasses.replace(options.model, shape=splits.train.schema.shape)
    model = initialised(lambda: GAN(config), seed)
    model.unit_range.fit(splits.train.inputs)
    learner, schema = AdversarialGame(model, options.game), splits.train.schema
    return GenerationExperiment(
        learner,
        splits,
        options.training,
        options.scoring,
        lambda trained: LatentSampler(trained, schema),
        seed=seed,
        name="gan",
        inside=lambda: gan_sections(model, learner, splits.test),
    )


RECIPE = Recipe(GANOptions(), build, GAN, LatentSampler)
