"""A recurrent net that forecasts series with bands: sunspots, carbon dioxide, or the user's own table of dates and values."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuropil.config import Config
from neuropil.data.series.files import SeriesDataConfig, prepare_series
from neuropil.models.forecaster import Forecaster, ForecasterConfig, choose_lags
from neuropil.randomness import initialised
from neuropil.tasks.forecasting.experiment import Forecasting, TrainedForecaster, load_factors, trained_forecaster
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig

MOST_FOR_LEAST_SQUARES = 5_000
"""Windows that the linear part is fitted to at first, evenly spaced."""


class ForecasterOptions(Config):
    data: SeriesDataConfig = SeriesDataConfig()
    model: ForecasterConfig = ForecasterConfig()
    training: TrainingConfig = TrainingConfig(updates=300, batch_size=32, learning_rate=3e-3, clip=1.0)


def build(options: ForecasterOptions, seed: int) -> Forecasting:
    splits = prepare_series(options.data)
    windows = splits.train.thinned(MOST_FOR_LEAST_SQUARES).batch()
    config = dataclasses.replace(
        options.model, lags=choose_lags(windows), features=splits.table.num_features, steps=splits.panel.horizon
    )
    model = initialised(lambda: Forecaster(config), seed).fit(windows)
    return Forecasting(
        model,
        config,
        splits,
        options.training,
        seed=seed,
        name="forecaster",
        longest_gap=options.data.longest_gap,
        parameters=model.parameter_table(),
    )


def restore(facts: Mapping[str, Any], folder: Path) -> TrainedForecaster:
    model = Forecaster(ForecasterConfig.from_dict(facts["model"]))
    return trained_forecaster(model, facts["series"], load_factors(folder))


RECIPE = Recipe(ForecasterOptions(), build, restore)
