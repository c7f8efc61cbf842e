"""After how many steps a series repeats itself, and the scale that MASE measures errors in."""

from itertools import compress

import numpy as np
from jaxtyping import Float64

from neuropil.data.series.dataset import SeriesTable, SeriesUnits, series_name
from neuropil.data.series.steps import DAY
from neuropil.errors import InputError

FEWEST_SEASONS = 3
"""A season that does not fit so often into the training part is not believed, wherever it comes from."""
LEAST_CORRELATION = 0.3
MOST_LAGS = 400
MOST_SERIES = 50
COARSEST = 100
"""Times that a change must be larger than what double precision rounds off."""


def find_season(table: SeriesTable, end: int) -> int:
    """Of the calendar where the step has one; otherwise the lag of the highest autocorrelation before `end`; else 1."""
    parts = [series.values[: max(0, end - series.start)] for series in table.series]
    longest = max(map(len, parts), default=0)
    if table.step.season is not None and table.step.season * FEWEST_SEASONS <= longest:
        return table.step.season
    lags = min(longest // FEWEST_SEASONS, MOST_LAGS)
    enough = [len(part) > lags and np.count_nonzero(~np.isnan(part)) > 2 * FEWEST_SEASONS for part in parts]
    chosen = [*compress(parts, enough)][:MOST_SERIES]
    if lags < 2 or not chosen:
        return 1
    correlation = np.mean([autocorrelation(part, lags) for part in chosen], axis=0)
    # A peak: higher than both neighbours. A slow series is most like itself one step later, which is no season.
    peaks = [lag for lag in range(2, lags) if correlation[lag] > max(correlation[lag - 1], correlation[lag + 1])]
    best = max(peaks, key=lambda lag: correlation[lag], default=1)
    return best if best > 1 and correlation[best] > LEAST_CORRELATION else 1


def find_week(table: SeriesTable, season: int, end: int) -> int | None:
    """The week in steps, where a season is a day and the series before `end` is more like itself a week ago than a day
    earlier or later."""
    week = 7 * season
    parts = [series.values[: max(0, end - series.start)] for series in table.series]
    long = [part for part in parts if len(part) > FEWEST_SEASONS * week][:MOST_SERIES]
    if table.step.unit != "second" or season * table.step.count != DAY or not long:
        return None
    correlation = np.mean([autocorrelation(part, week + season) for part in long], axis=0)
    return week if correlation[week] > max(correlation[week - season], correlation[week + season]) else None


def autocorrelation(values: Float64[np.ndarray, " time"], lags: int) -> Float64[np.ndarray, " lag"]:
    """Of the series without its straight trend, for the lags from 0 to `lags`; gaps are left out."""
    time, valid = np.arange(len(values)), ~np.isnan(values)
    trend = np.polynomial.Polynomial.fit(time[valid], values[valid], 1)
    rest = np.where(valid, values - trend(time), 0.0)
    power = np.dot(rest, rest)
    if power <= 1e-12 * np.nansum(values**2):
        return np.zeros(lags + 1)
    return np.array([np.dot(rest[lag:], rest[: len(rest) - lag]) for lag in range(lags + 1)]) / power


def find_units(table: SeriesTable, season: int, end: int) -> list[SeriesUnits]:
    """For each series before `end` the median, and the mean error of the forecast "as a season ago": what MASE divides
    errors by.

    scale = mean |y_t − y_{t−m}|
    """
    units = []
    for series in table.series:
        part = series.values[: max(0, end - series.start)]
        errors = np.abs(part[season:] - part[:-season])
        errors = errors[~np.isnan(errors)]
        scale = float(errors.mean()) if len(errors) else 0.0
        level = float(np.nanmedian(part)) if len(part) else 0.0
        if 0 < scale < COARSEST * np.spacing(abs(level)):
            where = f"the values of {series_name(series)}"
            rule = f"{where} must differ by more than the rounding of double precision"
            got = f"a mean change of {scale:g} around {level:.17g}"
            raise InputError(rule, got=got, fix="subtract a constant from all values in your table")
        units.append(SeriesUnits(level, scale if scale > 0 else 1.0))
    return units
