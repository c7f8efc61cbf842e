"""A recurrent network that forecasts series with prediction intervals: sunspots, carbon dioxide, or the user's own
table."""

import dataclasses

from neuropil.config import Config, option
from neuropil.data.series.files import SEASONS_IN_WINDOW, SHORTEST_WINDOW, SeriesDataConfig, prepare_series
from neuropil.models.forecaster import Forecaster, ForecasterConfig
from neuropil.randomness import initialised
from neuropil.tasks.forecasting.experiment import ForecastingExperiment
from neuropil.tasks.forecasting.linear import LinearStart
from neuropil.tasks.forecasting.predictor import SeriesForecaster
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig

MOST_WINDOWS = 5_000
"""Evenly spaced, from which what is known in advance is scaled."""


class HorizonConfig(Config):
    horizon_weights: tuple[float, ...] = option(
        (), "weights of the steps of a forecast in the loss, one for each, the next step first"
    )


class ForecasterOptions(Config):
    data: SeriesDataConfig = SeriesDataConfig()
    model: ForecasterConfig = ForecasterConfig()
    objective: HorizonConfig = HorizonConfig()
    training: TrainingConfig = TrainingConfig(updates=300, batch_size=32, learning_rate=3e-3, clip=1.0)


def build(options: ForecasterOptions, seed: int) -> ForecastingExperiment:
    splits = prepare_series(options.data)
    panel = splits.panel
    start = LinearStart.fit(panel, splits.seasons, splits.train_end, splits.test_begin)
    read = min(panel.window, max(SEASONS_IN_WINDOW * splits.season, SHORTEST_WINDOW))
    sizes = {"lags": panel.window, "context": read, "features": splits.table.num_features, "steps": panel.horizon}
    model = initialised(lambda: Forecaster(dataclasses.replace(options.model, **sizes)), seed)
    model.fit(splits.train.thinned(MOST_WINDOWS).batch(), start.learned, start.rolled)
    own = {"seed": seed, "name": "forecaster", "longest_gap": options.data.longest_gap, "start": start}
    own["horizon_weights"] = options.objective.horizon_weights
    return ForecastingExperiment(model, splits, options.training, **own)


RECIPE = Recipe(ForecasterOptions(), build, Forecaster, SeriesForecaster)
