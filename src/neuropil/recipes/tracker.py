"""A tracker that learns to follow an object through frames that hide it at times: hand-written digits on the move, or the user's own films.

Beside it stand the same network without a memory, which sees each frame alone, and that network carried on in a straight line.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config, option
from neuropil.data.films.dataset import Films
from neuropil.data.films.files import FilmDataConfig, prepare_films
from neuropil.models.tracker import SIZES, Tracker, TrackerConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.tracking.experiment import FilmTracker, FollowingFilms
from neuropil.training.loop import TrainingConfig


class TrackingConfig(Config):
    window: int = option(
        64, "frames that are learned from at once; longer films are cut into pieces for training", low=2
    )
    compare: bool = option(True, "also train the same network without a memory")


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


def build(options: TrackerOptions, seed: int) -> FollowingFilms:
    splits = prepare_films(options.data, seed)
    config = dataclasses.replace(options.model, shape=splits.train.shape)
    alone = dataclasses.replace(config, cell="none")
    compared = options.tracking.compare and config.cell != "none"
    return FollowingFilms(
        new_tracker(config, splits.train, seed),
        splits,
        options.training,
        seed=seed,
        name="tracker",
        window=options.tracking.window,
        rival=("each frame alone", new_tracker(alone, splits.train, seed)) if compared else None,
    )


def new_tracker(config: TrackerConfig, train: Films, seed: int) -> Tracker:
    """For these films, before training."""
    model = initialised(lambda: Tracker(config), seed)
    model.standardize.fit(train.frames)
    model.target_scale.fit(train.positions[train.known])
    return model


def restore(facts: Mapping[str, Any], folder: Path) -> FilmTracker:
    height, width = facts["size"]
    return FilmTracker(Tracker(TrackerConfig.from_dict(facts["model"])), (height, width))


RECIPE = Recipe(TrackerOptions(), build, restore, own_data=OWN_DATA)
