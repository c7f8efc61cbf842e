"""A restricted Boltzmann machine that learns pictures or rows by contrastive divergence: the embedded digits, or the
user's own."""

import dataclasses
from typing import cast

from torch import nn

from neuropil.config import Config, option
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.inspection.report.page import Section
from neuropil.inspection.report.rbm import SHOWN, rbm_sections, updates_section
from neuropil.models.rbm import RBM, ContrastiveDivergence, RBMConfig
from neuropil.randomness import initialised, seeded
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.generation.gibbs import ANNEALED, GibbsSampler, energies_of_updates, log_likelihood
from neuropil.tasks.generation.sample_scorer import SampleScoringConfig
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig

LARGEST_ERROR = 0.3
"""Standard error of ln Z, in nats, from which on a few of the walks carry the estimate."""


class PartitionConfig(Config):
    walks: int = option(100, "walks of annealed importance sampling, by which ln Z is estimated", low=2)
    annealing_steps: int = option(1_000, "steps of each of them", low=1)


class RBMOptions(Config):
    data: ImageDataConfig = ImageDataConfig()
    # The more chains, the less the gradient is that of where a few of them happen to be.
    model: RBMConfig = RBMConfig(chains=500)
    partition: PartitionConfig = PartitionConfig()
    scoring: SampleScoringConfig = SampleScoringConfig()
    # The last weights are kept: the pseudo-likelihood, which is all that can be measured on the way, is highest before
    # the learning rate has fallen and the chains have come to rest, and the likelihood is not.
    training: TrainingConfig = TrainingConfig(
        updates=4_000, batch_size=64, optimizer="momentum", learning_rate=0.02, weight_decay=1e-4, keep="last"
    )


OWN_DATA = dataclasses.replace(
    RBMOptions(), training=dataclasses.replace(RBMOptions().training, updates=10_000, batch_size=100)
)
"""Data of a user's are mostly more than the digits."""


def build(options: RBMOptions, seed: int) -> GenerationExperiment:
    splits = prepare_unlabelled(options.data, seed)
    schema, test = splits.train.schema, splits.test
    config = dataclasses.replace(options.model, shape=schema.shape)
    model = initialised(lambda: RBM(config), seed)
    model.fit_marginals(splits.train.inputs)

    def likelihood(trained: RBM) -> tuple[float, float | None]:
        sizes = {"walks": options.partition.walks, "steps": options.partition.annealing_steps}
        return log_likelihood(trained, test.inputs, seeded(seed, "likelihood"), **sizes)

    def measure(trained: nn.Module) -> dict[str, float]:
        return {"log_likelihood": likelihood(cast(RBM, trained))[0]}

    def inside() -> list[Section]:
        value, error = likelihood(model)
        how = "ln Z is a sum over all states of the hidden units"
        if error is not None:
            how = f"ln Z is estimated by annealed importance sampling, with a standard error of {error:.2g} nats"
            if error > LARGEST_ERROR:
                how += ": a few walks carry it, and the likelihood may be too high; raise --annealing-steps"
        words = f"The mean log-likelihood of the test examples is {value:.2f} nats; {how}."
        made = GibbsSampler(model, schema).reconstruct(test.inputs[:SHOWN]).values
        sections, paths = rbm_sections(model, test, made, words), energies_of_updates(model, seeded(seed, "updates"))
        if paths is not None:
            stuck = paths.stuck(paths.deterministic), paths.stuck(paths.stochastic)
            sections.append(updates_section(*paths, lowest=paths.lowest, stuck=stuck, temperatures=ANNEALED))
        return sections

    return GenerationExperiment(
        ContrastiveDivergence(model),
        splits,
        options.training,
        options.scoring,
        lambda trained: GibbsSampler(trained, schema),
        seed=seed,
        name="rbm",
        inside=inside,
        measure=measure,
    )


RECIPE = Recipe(RBMOptions(), build, RBM, GibbsSampler, own_data=OWN_DATA)
