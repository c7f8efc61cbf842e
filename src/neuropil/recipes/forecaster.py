"""A recurrent network that forecasts series with prediction intervals: sunspots, carbon dioxide, or the user's own
table."""

import dataclasses

from neuropil.config import Config
from neuropil.data.series.files import SeriesDataConfig, prepare_series
from neuropil.models.forecaster import Forecaster, ForecasterConfig, choose_lags
from neuropil.randomness import initialised
from neuropil.tasks.forecasting.experiment import ForecastingExperiment
from neuropil.tasks.forecasting.predictor import SeriesForecaster
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig

MOST_FOR_LEAST_SQUARES = 5_000
"""Windows that the linear part is fitted to at first, evenly spaced."""


class ForecasterOptions(Config):
    data: SeriesDataConfig = SeriesDataConfig()
    model: ForecasterConfig = ForecasterConfig()
    training: TrainingConfig = TrainingConfig(updates=300, batch_size=32, learning_rate=3e-3, clip=1.0)


def build(options: ForecasterOptions, seed: int) -> ForecastingExperiment:
    splits = prepare_series(options.data)
    windows = splits.train.thinned(MOST_FOR_LEAST_SQUARES).batch()
    sizes = {"features": splits.table.num_features, "steps": splits.panel.horizon}
    config = dataclasses.replace(options.model, lags=choose_lags(windows), **sizes)
    model = initialised(lambda: Forecaster(config), seed).fit(windows)
    gap = options.data.longest_gap
    return ForecastingExperiment(model, splits, options.training, seed=seed, name="forecaster", longest_gap=gap)


RECIPE = Recipe(ForecasterOptions(), build, Forecaster, SeriesForecaster)
