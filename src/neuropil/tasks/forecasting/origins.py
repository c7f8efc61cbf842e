"""A forecast from any origin of a series, beside baselines and what came then; values of the history may be others than
they were, to see what the forecast makes of them.

    MASE = mean_h |y_{o+h} − ŷ_{o+h}| / scale          the scale of the series' own units, as in scores.py
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from neuropil.data.series.dataset import Series, SeriesTable, series_name
from neuropil.errors import InputError
from neuropil.tasks.forecasting.baselines import Autoregressions, persistence, seasonal_naive
from neuropil.tasks.forecasting.predictor import SeriesForecaster, SeriesForecasts


@dataclass(frozen=True)
class OriginForecast:
    forecasts: SeriesForecasts
    """Of the one series."""
    baselines: Mapping[str, Float64[Tensor, " horizon"]]
    truth: Float64[Tensor, " horizon"]
    """NaN where nothing is known."""
    scale: float

    def mase(self, forecast: Float64[Tensor, " horizon"]) -> float | None:
        """None where there is no truth to compare with."""
        error = ((self.truth - forecast).abs() / self.scale)[~self.truth.isnan()]
        return float(error.mean()) if len(error) else None

    def inside(self, share: float) -> tuple[int, int]:
        """How many values of the truth lie in the band, and of how many."""
        low, high = (each[0] for each in self.forecasts.band(share))
        known = ~self.truth.isnan()
        return int(((self.truth >= low) & (self.truth <= high) & known).sum()), int(known.sum())


def first_origin(forecaster: SeriesForecaster, series: Series) -> int:
    """With a whole window before it."""
    return series.start + forecaster.window


def forecast_from(
    forecaster: SeriesForecaster,
    table: SeriesTable,
    number: int,
    origin: int,
    *,
    changes: Mapping[int, float] | None = None,
    autoregressions: Autoregressions | None = None,
) -> OriginForecast:
    """From the series of that number at a step; `changes` are other values of its history, by their steps."""
    series = table.series[number]
    low = first_origin(forecaster, series)
    if not low <= origin <= series.end:
        raise InputError(
            f"an origin of {series_name(series)} must be a step from {low} to {series.end}", got=f"{origin}"
        )
    values = series.values[: origin - series.start].copy()
    for step, value in (changes or {}).items():
        if not series.start <= step < origin:
            rule = f"values are changed at steps from {series.start} to {origin - 1}"
            raise InputError(rule, got=f"step {step}")
        values[step - series.start] = value
    known = replace(table, series=(replace(series, values=_to_last(values)),))
    windows = forecaster.panel(known).last_windows()
    points = {"persistence": persistence(windows)}
    if forecaster.season > 1:
        points["seasonal naive"] = seasonal_naive(windows, forecaster.season)
    if autoregressions is not None:
        own = Autoregressions([autoregressions.coefficients[number]])
        points[f"AR{own.order}"] = own.forecast(windows)
    truth = np.full(forecaster.horizon, np.nan)
    after = series.values[origin - series.start :][: forecaster.horizon]
    truth[: len(after)] = after
    return OriginForecast(
        forecaster.forecast(known),
        {name: windows.restored(each)[0] for name, each in points.items()},
        torch.from_numpy(truth),
        windows.panel.units[0].scale,
    )


def _to_last(values: Float64[np.ndarray, " time"]) -> Float64[np.ndarray, " time"]:
    """A series ends with a value: in a gap, the last one before it is carried on."""
    valid = np.flatnonzero(~np.isnan(values))
    values[valid[-1] + 1 :] = values[valid[-1]]
    return values
