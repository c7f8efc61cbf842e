"""The forecaster on eight series, hourly to yearly, beside AR, seasonal naive, ETS and Theta (statsmodels), from the
same origins and over the horizons of the M4 competition. Goals: no more than 1.1 times the best of the four on each;
below the best on six of eight, and 0.95 of it in the mean.

python -m benchmarks.forecasting
"""

import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64
from statsmodels.datasets import co2, elec_equip, elnino, macrodata, nile, sunspots
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.forecasting.theta import ThetaModel
from torch import Tensor

import neuropil
from neuropil.data.series.windows import SeriesWindows
from neuropil.models.forecaster import MEDIAN
from neuropil.tasks.forecasting.baselines import Autoregressions, seasonal_naive
from neuropil.tasks.forecasting.experiment import ForecastingExperiment
from neuropil.tasks.forecasting.predictor import SeriesForecaster

MOST_ORIGINS = 120
"""Of the test part, evenly spaced: ETS and Theta read all of the series again for each."""
LONGEST_ESTIMATED = 24
"""Of a longer season the first values are not estimated by ETS, which would take hours, but taken from the data."""
Values = Float64[np.ndarray, " time"]


@dataclass(frozen=True)
class Eight:
    """One of them: its values, and the dates of the first and of the step, as pandas writes them."""

    load: Callable[[], Values]
    first: str
    step: str
    horizon: int


def column(data: Any, name: str | None = None) -> Values:
    """The one of this name, or the first."""
    table = data.load_pandas().data
    return table[name or table.columns[0]].to_numpy(np.float64)


def elnino_months() -> Values:
    """A row for each year, with a column for it and one for each month."""
    table: Any = elnino.load_pandas().data
    return table.to_numpy(np.float64)[:, 1:].ravel()


def hourly_load() -> Values:
    """Twelve weeks: a daily swing that is smaller at weekends, and noise that lasts for hours."""
    rng, time = np.random.default_rng(0), np.arange(24 * 7 * 12)
    hour, weekend = time % 24, time // 24 % 7 >= 5
    day = 12 * np.sin(2 * np.pi * (hour - 8) / 24) * np.where(weekend, 0.4, 1) + 6 * np.sin(4 * np.pi * hour / 24)
    return 50 + day - 5 * weekend + lasting(rng, len(time), 0.9)


def daily_sales() -> Values:
    """Two years of sales that grow, with a week whose swing grows with them, and a year."""
    rng, time = np.random.default_rng(1), np.arange(700)
    week = 1 + 0.4 * np.array([0, 0.1, 0.15, 0.2, 0.6, 1, 0.3])[time % 7]
    return (100 + 0.05 * time + 10 * np.sin(2 * np.pi * time / 365.25)) * week + 3 * lasting(rng, len(time), 0.6)


def lasting(rng: np.random.Generator, length: int, share: float) -> Values:
    """Noise of which this share is left a step later."""
    noise = rng.normal(size=length)
    for place in range(1, length):
        noise[place] += share * noise[place - 1]
    return noise


SERIES = {
    "load, made (hourly)": Eight(hourly_load, "2020-01-01", "h", 48),
    "sales, made (daily)": Eight(daily_sales, "2020-01-01", "D", 14),
    "co2 (weekly)": Eight(lambda: column(co2, "co2"), "1958-03-29", "7D", 13),
    "elec_equip (monthly)": Eight(lambda: column(elec_equip), "1995-01-01", "MS", 18),
    "elnino (monthly)": Eight(elnino_months, "1950-01-01", "MS", 18),
    "macrodata, unemp (quarterly)": Eight(lambda: column(macrodata, "unemp"), "1959-01-01", "QS", 8),
    "sunspots (yearly)": Eight(lambda: column(sunspots, "SUNACTIVITY"), "1700-01-01", "YS", 6),
    "nile (yearly)": Eight(lambda: column(nile, "volume"), "1871-01-01", "YS", 6),
}


def compare(name: str, *, show_progress: bool = False, **options: Any) -> dict[str, float]:
    """MASE of each method; the forecaster first."""
    chosen = SERIES[name]
    values = chosen.load()
    with tempfile.TemporaryDirectory() as folder:
        dates = pd.date_range(chosen.first, periods=len(values), freq=chosen.step, unit="s")
        pd.DataFrame({"date": dates, "value": values}).to_csv(data := Path(folder) / "series.csv", index=False)
        options = {"data": data, "horizon": chosen.horizon, "out": Path(folder) / "run", "report": False, **options}
        run = neuropil.train("forecaster", show_progress=show_progress, **options)
        splits, predictor = cast(ForecastingExperiment, run.experiment()).splits, cast(SeriesForecaster, run.predictor)
    windows, season = splits.test.thinned(MOST_ORIGINS), splits.season
    forecasts = {
        "forecaster": predictor.quantiles(windows)[..., MEDIAN],
        "AR": Autoregressions.fit(splits.panel, season, splits.test_begin).forecast(windows),
        "seasonal naive": seasonal_naive(windows, season),
        "ETS": ets(windows, season, splits.test_begin),
        "Theta": theta(windows, season),
    }
    batch = windows.batch()
    errors = {method: (forecast - batch["target"]).abs() for method, forecast in forecasts.items()}
    return {method: float(error[batch["valid_mask"]].mean()) for method, error in errors.items()}


def before_each(windows: SeriesWindows) -> list[Values]:
    """All values before each origin, as they were known there, in the units of the table."""
    each = [windows.take(torch.tensor([place])) for place in range(len(windows))]
    return [one.restored(one.history(int(one.origins)))[0].numpy() for one in each]


def in_units(windows: SeriesWindows, forecasts: list[Any]) -> Float[Tensor, "window horizon"]:
    (units,) = windows.panel.units
    return torch.from_numpy(units.standardised(np.stack([np.asarray(each) for each in forecasts]))).float()


def ets(windows: SeriesWindows, season: int, test_begin: int) -> Float[Tensor, "window horizon"]:
    """Trend and season by AIC, parameters by likelihood, both from all before the test part; the states go on to each
    origin."""
    histories = before_each(windows)
    seasonals = [None, "add", *["mul"] * bool(min(map(np.min, histories)) > 0)] if season > 1 else [None]
    start = {"initialization_method": "heuristic" if season > LONGEST_ESTIMATED else "estimated"}
    fitted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kinds that do not converge, and lose
        for trend, damped in ((None, False), ("add", False), ("add", True)):
            for seasonal in seasonals:
                kind = {"trend": trend, "damped_trend": damped, "seasonal": seasonal, **start}
                kind["seasonal_periods"] = season if seasonal else None
                result: Any = ETSModel(histories[-1][:test_begin], **kind).fit(disp=False, maxiter=200)
                fitted.append((result.aic, kind, result.params))
        _, kind, parameters = min(fitted, key=lambda each: each[0] if math.isfinite(each[0]) else math.inf)
        models = [cast(Any, ETSModel(history, **kind)) for history in histories]
        return in_units(windows, [each.smooth(parameters).forecast(windows.panel.horizon) for each in models])


def theta(windows: SeriesWindows, season: int) -> Float[Tensor, "window horizon"]:
    """Fitted anew at each origin."""
    histories = before_each(windows)
    kind = {"period": season, "deseasonalize": season > 1}
    kind["method"] = "auto" if min(map(np.min, histories)) > 0 else "additive"
    models = [cast(Any, ThetaModel(history, **kind)) for history in histories]
    return in_units(windows, [each.fit().forecast(windows.panel.horizon) for each in models])


def rows(**options: Any) -> list[list[str]]:
    """One for each series, and what the ratios to the best of the others come to."""
    found, ratios = [], []
    for name in SERIES:
        scores = compare(name, **options)
        own, *others = scores.values()
        ratios.append(own / min(others))
        found.append([name, f"{SERIES[name].horizon}", *(f"{score:.3f}" for score in scores.values())])
        found[-1].append(f"{ratios[-1]:.2f}")
        print(*found[-1], sep="\t", flush=True)
    below = sum(ratio < 1 for ratio in ratios)
    summary = f"mean; below the best on {below} of {len(ratios)}, at most {max(ratios):.2f}"
    return [*found, [summary, *[""] * 6, f"{np.mean(ratios):.2f}"]]


HEADER = ["series", "steps ahead", "forecaster", "AR", "seasonal naive", "ETS", "Theta", "forecaster / best other"]


def main() -> None:
    print(*HEADER, sep="\t")
    print(*rows()[-1], sep="\t")


if __name__ == "__main__":
    main()
