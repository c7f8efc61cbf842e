"""Forecasts of a series with their bands, from any origin, after a history whose points can be dragged; beside them
baselines and what came then."""

import math
from dataclasses import dataclass
from typing import Any, cast

from neuropil.config import Config, option
from neuropil.data.series.dataset import SeriesTable
from neuropil.errors import InputError
from neuropil.lab.bounds import require_length
from neuropil.lab.sessions import Sessions, key_of
from neuropil.models.forecaster import BANDS
from neuropil.runs.run import Run
from neuropil.tasks.forecasting.baselines import Autoregressions
from neuropil.tasks.forecasting.origins import first_origin, forecast_from

MOST_CHANGES = 100
SHOWN_WINDOWS = 2
"""Windows of history that are drawn: the forecast is made from the last, the bands also from what came before."""
MOST_SERIES = 500


class ForecastRequest(Config):
    series: int = option(0, "number of the series", low=0, high=1_000_000)
    origin: int | None = option(
        None, "step that the forecast begins at; by default the last with a whole truth", low=0, high=10**9
    )
    share: float = option(0.8, "share of the truth that the band should hold", low=0, high=1)
    steps: tuple[int, ...] = option((), "steps of the history that are changed", low=0)
    values: tuple[float, ...] = option((), "their values", low=-1e12, high=1e12)

    def validate(self) -> None:
        require_length("steps", self.steps, MOST_CHANGES)
        if len(self.steps) != len(self.values):
            rule = "there must be a value for each changed step"
            raise InputError(rule, got=f"{len(self.values)} for {len(self.steps)}")


@dataclass(frozen=True)
class KnownSeries:
    table: SeriesTable
    test_begin: int
    autoregressions: Autoregressions


opened: Sessions[KnownSeries] = Sessions(4)


def open_view(run: Run) -> dict[str, Any]:
    known, forecaster = series_of(run), run.predictor
    series = known.table.series[:MOST_SERIES]
    return {
        "system": run.name,
        "series": [each.name or known.table.target for each in series],
        "origins": [[first_origin(forecaster, each), each.end] for each in series],
        "test_begin": known.test_begin,
        "season": forecaster.season,
        "window": forecaster.window,
        "horizon": forecaster.horizon,
        "step": str(known.table.step),
        "target": known.table.target,
        "source": known.table.source,
        "shares": list(BANDS),
        "shown": read(run, ForecastRequest()),
    }


def read(run: Run, request: ForecastRequest) -> dict[str, Any]:
    known, forecaster = series_of(run), run.predictor
    table = known.table
    if request.series >= len(table.series):
        raise InputError(f"a series must have a number from 0 to {len(table.series) - 1}", got=f"{request.series}")
    series = table.series[request.series]
    latest = max(first_origin(forecaster, series), series.end - forecaster.horizon)
    origin = latest if request.origin is None else request.origin
    changes = dict(zip(request.steps, request.values, strict=True))
    found = forecast_from(
        forecaster, table, request.series, origin, changes=changes, autoregressions=known.autoregressions
    )
    begin = max(series.start, origin - SHOWN_WINDOWS * forecaster.window)
    history = series.values[begin - series.start : origin - series.start].tolist()
    low, high = (each[0].tolist() for each in found.forecasts.band(request.share))
    median = found.forecasts.median[0]
    inside, of = found.inside(request.share)
    return {
        "origin": origin,
        "date": table.label(origin),
        "begin": begin,
        "dates": [table.label(step) for step in range(begin, origin + forecaster.horizon)],
        "history": [changes.get(begin + place, value) for place, value in enumerate(history)],
        "was": history,
        "median": median.tolist(),
        "low": low,
        "high": high,
        "truth": [None if math.isnan(value) else value for value in found.truth.tolist()],
        "baselines": {name: each.tolist() for name, each in found.baselines.items()},
        "mase": {"forecaster": found.mase(median)} | {name: found.mase(each) for name, each in found.baselines.items()},
        "inside": inside,
        "of": of,
        "held_out": origin >= known.test_begin,
    }


def series_of(run: Run) -> KnownSeries:
    """Kept, since the data is read and the autoregressions are fitted once."""

    def begin() -> KnownSeries:
        splits = cast(Any, run.experiment()).splits
        fitted = Autoregressions.fit(splits.panel, splits.season, splits.test_begin)
        return KnownSeries(splits.table, splits.test_begin, fitted)

    return opened.get(key_of(run), begin)


ACTIONS = {"open": open_view, "read": read}
