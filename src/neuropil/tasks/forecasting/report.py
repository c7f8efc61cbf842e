"""What a report shows of a forecaster: what it foretold, how far ahead it sees, what comes next, how it learned and from what."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from neuropil.data.series.dataset import SeriesTable, step_names
from neuropil.data.series.windows import SeriesWindows
from neuropil.errors import InputError
from neuropil.inspection.pictures.forecasts import Forecast, coverage_by_step, error_by_step, forecasts
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.models.forecaster import BANDS, MEDIAN
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.tasks.forecasting.scores import band_of
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.forecasting.experiment import Forecasting, Forecasts

DRAWN = 4
MOST_ROWS = 24
HORIZONS_OF_HISTORY = 4
"""Of the history before a forecast, so much is drawn, or a window of it where that is longer."""


def sections(experiment: "Forecasting", history: Sequence[Row]) -> list[Section]:
    return [
        foretold_section(experiment),
        ahead_section(experiment),
        next_section(experiment),
        learning_section(history, experiment.training),
        model_section(experiment.parameters, experiment.model),
        data_section(experiment),
    ]


def foretold_section(experiment: "Forecasting") -> Section:
    windows, rolled = experiment.splits.test, experiment.rolled
    chosen = torch.linspace(0, len(windows) - 1, min(DRAWN, len(windows))).round().long()
    shown = [_forecast(windows.take(index.reshape(1)), rolled.quantiles[index], truth=True) for index in chosen]
    words = (
        f"The test part is the last of the data, and nothing of it was learned from. {len(windows):,} forecasts were made, each from an "
        "origin of its own with what was known by then; here are some, with bands that should hold "
        f"{_percents(BANDS)} of the truth."
    )
    figure = forecasts(shown, ylabel=experiment.splits.table.target)
    return Section(
        "What it foretold", [Text(words), Picture.of(figure, alt="forecasts from several origins of the test part")]
    )


def ahead_section(experiment: "Forecasting") -> Section:
    rolled, step = experiment.rolled, str(experiment.splits.table.step)
    step = step if step[0].isalpha() else "step"
    errors = {experiment.name: rolled, **experiment.baselines}
    figure = error_by_step({name: each.mase_by_step() for name, each in errors.items()}, step=step)
    coverage = coverage_by_step({share: rolled.coverage_by_step(band) for band, share in enumerate(BANDS)}, step=step)
    rows = [
        [f"{100 * share:g} %", f"{100 * before:.1f} %", f"{100 * after:.1f} %"]
        for share, before, after in zip(BANDS, experiment.uncalibrated.coverage(), rolled.coverage(), strict=True)
    ]
    words = (
        "MASE is the error in units of what it would have cost to repeat the season before, in the training part. The bands of a baseline "
        "are the quantiles of its own recent errors."
    )
    calibrated = (
        "Bands are stretched by the one factor with which they would have held their share of the latest forecasts whose outcome was known "
        f"at the origin, over {experiment.splits.table.step.of(experiment.forecaster.calibration)}."
    )
    return Section(
        "How far ahead it sees",
        [
            Text(words),
            Picture.of(figure, alt="error by how many steps ahead, for the forecaster and what it is compared with"),
            Text(calibrated),
            Table(["band", "holds, as the net gives it", "holds, calibrated"], rows),
            Picture.of(coverage, alt="share of the truth inside each band by how many steps ahead"),
        ],
    )


def next_section(experiment: "Forecasting") -> Section:
    """What follows the end of the data, where what must be known of it is."""
    table = experiment.splits.table
    try:
        following = experiment.forecaster.predict(table)
    except InputError as missing:
        return Section("What comes next", [Text(f"There is no forecast after the end of the data: {missing}")])
    last = experiment.splits.panel.last_windows()
    chosen = range(min(DRAWN, len(table.series)))
    shown = [_forecast(last.take(torch.tensor([index])), following.quantiles[index], truth=False) for index in chosen]
    names = step_names(following.series, following.dates)
    rows = [[name, *cells] for name, cells in list(zip(names, _cells(following), strict=True))[:MOST_ROWS]]
    blocks: list[Block] = [
        Picture.of(forecasts(shown, ylabel=table.target), alt="the forecast that follows the end of the data"),
        Table(["", "median", *(f"band of {100 * share:g} %" for share in BANDS)], rows),
    ]
    return Section("What comes next", blocks)


def _cells(following: "Forecasts") -> list[list[str]]:
    bands = [[part.flatten().tolist() for part in following.band(share)] for share in BANDS]
    return [
        [f"{median:.4g}", *(f"{low[place]:.4g} to {high[place]:.4g}" for low, high in bands)]
        for place, median in enumerate(following.median.flatten().tolist())
    ]


def data_section(experiment: "Forecasting") -> Section:
    splits, table = experiment.splits, experiment.splits.table
    borders = (min(series.start for series in table.series), splits.train_end, splits.test_begin, table.end)
    parts = (("training", splits.train), ("validation", splits.validation), ("test", splits.test))
    rows = [
        [name, table.label(borders[place]), table.label(borders[place + 1] - 1), len(windows)]
        for place, (name, windows) in enumerate(parts)
        if borders[place] < borders[place + 1]
    ]
    return Section(
        "Data", [Text(f"{table.source}."), Table(["part", "from", "to", "origins"], rows), *map(Text, table.notes)]
    )


def _forecast(one: SeriesWindows, quantiles: torch.Tensor, *, truth: bool) -> Forecast:
    """A single window, as a picture shows it: gaps stay gaps."""
    panel, origin = one.panel, int(one.origins)
    series = panel.table.series[int(one.series)]
    length = min(max(panel.window, HORIZONS_OF_HISTORY * panel.horizon), origin - series.start)
    values = np.concatenate([series.values, np.full(panel.horizon, np.nan)])[: origin - series.start + panel.horizon]
    return Forecast(
        x=_places(panel.table, origin - length, origin + panel.horizon),
        history=values[-panel.horizon - length : -panel.horizon],
        median=quantiles[:, MEDIAN],
        bands={f"{100 * share:g} %": band_of(quantiles, band) for band, share in enumerate(BANDS)},
        truth=values[-panel.horizon :] if truth else None,
        title=" ".join(part for part in (series.name, f"from {panel.table.label(origin)}") if part),
    )


def _places(table: SeriesTable, begin: int, end: int) -> np.ndarray:
    steps = np.arange(begin, end)
    dates = table.dates(steps)
    return steps + 1 if dates is None else dates


def _percents(shares: Sequence[float]) -> str:
    *some, last = [f"{100 * share:g} %" for share in shares]
    return f"{', '.join(some)} and {last}"
