"""A denoising diffusion model that learns to make pictures, of each class or of any: like the embedded digits, or the
user's own."""

import dataclasses

from neuropil.config import Config, option
from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.errors import InputError
from neuropil.inspection.report.diffusion import schedule_section, strip_section
from neuropil.inspection.report.page import Section
from neuropil.models.diffusion import SIZES, Denoising, Diffusion, DiffusionConfig
from neuropil.randomness import initialised, seeded
from neuropil.tasks.generation.diffusion import DiffusionSampler
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.generation.sample_scorer import SampleScoringConfig
from neuropil.tasks.generation.scores import spread_labels
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.time_limit import Ladder, Size
from neuropil.training.config import TrainingConfig

FOLLOWED = 4
"""Samples that are shown on their way from noise."""


class ClassesConfig(Config):
    conditional: bool = option(True, "class-conditional, where the data has labels")


class DiffusionOptions(Config):
    data: ImageDataConfig = ImageDataConfig()
    model: DiffusionConfig = SIZES["tiny"]
    classes: ClassesConfig = ClassesConfig()
    scoring: SampleScoringConfig = SampleScoringConfig()
    training: TrainingConfig = TrainingConfig(
        updates=3_000, batch_size=64, learning_rate=1e-3, clip=1.0, average=0.995, keep="last"
    )


OWN_DATA = dataclasses.replace(DiffusionOptions(), model=dataclasses.replace(SIZES["small"], prediction="v"))
"""Pictures of a user's are mostly larger than digits of 8×8. At the first steps of sampling, where x_t is all noise, an
error of ε̂ is a large error of x_0, and after few updates samples drift to grey or white; an error of v is not."""

LADDER = Ladder(
    sizes=(
        Size({"channels": (16, 32, 32)}),
        Size({"channels": (32, 64, 64)}, updates=2_000),
        Size({"channels": (64, 128, 128)}, updates=10_000),
    )
)
"""Below some thousand updates a small U-Net is further than a large one."""


def build(options: DiffusionOptions, seed: int) -> GenerationExperiment:
    splits = prepare_unlabelled(options.data, seed)
    schema = splits.train.schema
    if schema.kind != "image":
        raise InputError("diffusion learns from pictures", got=splits.train.source, fix="train the vae or gan on it")
    classes = len(schema.classes) if options.classes.conditional else 0
    config = dataclasses.replace(options.model, shape=schema.shape, classes=classes)
    model = initialised(lambda: Diffusion(config), seed)
    model.unit_range.fit(splits.train.inputs)

    def inside() -> list[Section]:
        labels = spread_labels(splits.train.targets, classes, FOLLOWED) if classes else None
        way = list(DiffusionSampler(model, schema).way(FOLLOWED, seeded(seed, "strip"), labels))
        names = [""] * FOLLOWED if labels is None else [schema.classes[number] for number in labels.tolist()]
        strip = strip_section(model, [each.t for each in way], [each.x for each in way], names)
        return [strip, schedule_section(model)]

    return GenerationExperiment(
        Denoising(model),
        splits,
        options.training,
        options.scoring,
        lambda trained: DiffusionSampler(trained, schema),
        seed=seed,
        name="diffusion",
        inside=inside,
    )


RECIPE = Recipe(DiffusionOptions(), build, Diffusion, DiffusionSampler, own_data=OWN_DATA, ladder=LADDER)
