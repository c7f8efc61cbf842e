"""Predictive coding that learns classes or numbers by local rules alone: from the embedded digits, or the user's own
pictures or tables.

Beside it, an MLP of the same layers learns by back-propagation from the same batches. The report shows the energy while
the network settles, the cosine of its weight changes to back-propagation's, what it generates for each class and how
that is scored, and how it completes covered pictures."""

import dataclasses

from neuropil.adversarial.defences import DefenceConfig
from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.inspection.report.predictive_coding import inside_sections
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.models.predictive_coding.settled_energy import SettledEnergy
from neuropil.randomness import initialised
from neuropil.sampling.predictive_coding import LayerNoise
from neuropil.tasks.classification.experiment import ClassificationExperiment, fit_scales, require_one_label
from neuropil.tasks.classification.scores import scorer_for
from neuropil.tasks.experiment import Ablation
from neuropil.tasks.generation.predictive_coding import (
    GenerativeClassifier,
    measured_noise,
    samples_sections,
    save_noise,
)
from neuropil.tasks.generation.sample_scorer import SampleScorer, SampleScoringConfig
from neuropil.tasks.predictor import device_of
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig


class LearningConfig(Config):
    incremental: bool = option(False, "incremental predictive coding: update the weights in every step of settling")


class PredictiveCodingOptions(Config):
    data: ClassificationDataConfig = ClassificationDataConfig()
    model: PredictiveCodingConfig = PredictiveCodingConfig()
    learning: LearningConfig = LearningConfig()
    defence: DefenceConfig = DefenceConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    scoring: SampleScoringConfig = SampleScoringConfig()
    training: TrainingConfig = TrainingConfig(updates=1260, learning_rate=2e-3, keep="last")


def build(options: PredictiveCodingOptions, seed: int) -> ClassificationExperiment:
    if options.training.precision != "float32":  # errors are small differences of large numbers
        got = f"precision={options.training.precision!r}"
        raise InputError("predictive coding settles in float32", got=got, fix="leave it out")
    splits = prepare(options.data, seed)
    require_one_label("predictive coding", splits)
    schema = splits.train.schema
    answers = "classes" if schema.classes else "numbers"
    config = dataclasses.replace(options.model, shape=schema.shape, outputs=schema.num_outputs, answers=answers)
    model = fit_scales(initialised(lambda: PredictiveCoding(config), seed), splits.train)
    same = {name: getattr(config, name) for name in ("hidden_sizes", "activation", "shape", "outputs")}
    mlp = fit_scales(initialised(lambda: MLP(MLPConfig(**same, dropout=0.0)), seed), splits.train)

    def noise() -> list[LayerNoise]:
        return measured_noise(model, splits.train, seed)

    def inside() -> list[Section]:
        sections = inside_sections(model, splits.test)
        if len(splits.test) < 2:  # nothing to score samples by
            return sections
        scorer = SampleScorer(splits, options.scoring, seed, device_of(model))
        return [*sections, *samples_sections(model, scorer, noise())]

    return ClassificationExperiment(
        model,
        splits,
        options,
        seed=seed,
        name="predictive_coding",
        defence=options.defence,
        learner=SettledEnergy(model),
        repeats=config.steps if options.learning.incremental else 1,
        inside=inside,
        calibration=lambda folder: save_noise(folder, noise()),
        ablation=Ablation("back-propagation, the same layers", scorer_for(mlp, schema)),
    )


RECIPE = Recipe(PredictiveCodingOptions(), build, PredictiveCoding, GenerativeClassifier)
