"""A tracker that follows an object through frames that hide it at times: hand-written digits on the move, or the user's
own films.

Beside it stand the same network without a memory, which sees each frame alone, and that network carried on in a
straight line."""

import dataclasses

from neuropil.config import Config, option
from neuropil.data.films.files import FilmDataConfig, prepare_films
from neuropil.models.tracker import SIZES, Tracker, TrackerConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.tracking.experiment import TrackingExperiment
from neuropil.tasks.tracking.predictor import FilmTracker
from neuropil.training.config import TrainingConfig


class TrackingConfig(Config):
    window: int = option(64, "frames of a training window; longer films are cut into several", low=2)
    compare: bool = option(True, "ablation: also train the same network without recurrence")


class TrackerOptions(Config):
    data: FilmDataConfig = FilmDataConfig()
    model: TrackerConfig = dataclasses.replace(SIZES["base"], width=8)
    tracking: TrackingConfig = TrackingConfig()
    training: TrainingConfig = TrainingConfig(
        epochs=8, batch_size=16, learning_rate=4e-3, warmup=0.05, clip=1.0, keep="last"
    )


OWN_DATA = TrackerOptions(
    model=dataclasses.replace(SIZES["base"], dropout=0.1),
    tracking=TrackingConfig(compare=False),
    training=TrainingConfig(updates=2_000, batch_size=8, learning_rate=2e-3, warmup=0.1, clip=1.0),
)
"""Frames of a user's are larger, and films are fewer."""


def build(options: TrackerOptions, seed: int) -> TrackingExperiment:
    splits = prepare_films(options.data, seed)
    config = dataclasses.replace(options.model, shape=splits.train.shape)

    def initial_model(config: TrackerConfig) -> Tracker:
        model = initialised(lambda: Tracker(config), seed)
        model.standardize.fit(splits.train.frames)
        model.target_scale.fit(splits.train.positions[splits.train.known])
        return model

    alone = dataclasses.replace(config, cell="none")
    compared = options.tracking.compare and config.cell != "none"
    return TrackingExperiment(
        initial_model(config),
        splits,
        options.training,
        seed=seed,
        name="tracker",
        window=options.tracking.window,
        ablation=("each frame alone", initial_model(alone)) if compared else None,
    )


RECIPE = Recipe(TrackerOptions(), build, Tracker, FilmTracker, own_data=OWN_DATA)
