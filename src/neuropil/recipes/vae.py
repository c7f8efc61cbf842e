"""A variational autoencoder that learns to make pictures or rows: like the embedded digits, or the user's own."""

import dataclasses
from typing import cast

from torch import nn

from neuropil.config import Config, option
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.errors import InputError
from neuropil.inspection.report.vae import vae_sections
from neuropil.models.vae import VAE, ELBOConfig, EvidenceLowerBound, VAEConfig
from neuropil.randomness import initialised, seeded
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.generation.predictor import CodeSampler
from neuropil.tasks.generation.sample_scorer import SampleScoringConfig
from neuropil.tasks.predictor import device_of
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig

MOST_MEASURED = 1_000
"""Test examples whose likelihood is estimated."""


class LikelihoodConfig(Config):
    importance_samples: int = option(500, "importance samples for the likelihood of a test example", low=1, high=5_000)


class VAEOptions(Config):
    data: ImageDataConfig = ImageDataConfig()
    # Grey values are no probabilities: as such they would say little, and most of the code would collapse.
    model: VAEConfig = VAEConfig(likelihood="gaussian", latent_size=8)
    objective: ELBOConfig = ELBOConfig()
    likelihood: LikelihoodConfig = LikelihoodConfig()
    scoring: SampleScoringConfig = SampleScoringConfig()
    training: TrainingConfig = TrainingConfig(updates=3_000, batch_size=64, learning_rate=1e-3)


OWN_DATA = dataclasses.replace(VAEOptions(), model=VAEConfig(likelihood="gaussian"))
"""Pictures of a user's are mostly larger than digits of 8×8, and have more to say."""


def build(options: VAEOptions, seed: int) -> GenerationExperiment:
    if options.objective.binarize and options.model.likelihood != "bernoulli":
        rule = "binarised pixels are 0 or 1, and have a Bernoulli likelihood"
        raise InputError(rule, got=f"--likelihood {options.model.likelihood}", fix="add --likelihood bernoulli")
    splits = prepare_unlabelled(options.data, seed)
    config = dataclasses.replace(options.model, shape=splits.train.schema.shape)
    model = initialised(lambda: VAE(config), seed)
    model.unit_range.fit(splits.train.inputs)
    learner, schema = EvidenceLowerBound(model, options.objective), splits.train.schema

    def measure(trained: nn.Module) -> dict[str, float]:
        """ln p(x) of test examples, in nats."""
        generator, samples = seeded(seed, "likelihood"), options.likelihood.importance_samples
        x = learner.observed(splits.test.inputs[:MOST_MEASURED].to(device_of(trained)), generator)
        found = cast(VAE, trained).log_likelihood(x, samples, generator=generator)
        return {"log_likelihood": float(found.double().mean())}

    return GenerationExperiment(
        learner,
        splits,
        options.training,
        options.scoring,
        lambda trained: CodeSampler(trained, schema),
        seed=seed,
        name="vae",
        inside=lambda: vae_sections(model, splits.test),
        measure=measure,
    )


RECIPE = Recipe(VAEOptions(), build, VAE, CodeSampler, own_data=OWN_DATA)
