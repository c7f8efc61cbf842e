"""What a report shows of a forecaster: its forecasts, errors by horizon, the future, what it learned from."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from neuropil.data.series.dataset import SeriesTable, step_names
from neuropil.data.series.files import SeriesSplits
from neuropil.data.series.windows import Panel, SeriesWindows
from neuropil.errors import InputError
from neuropil.inspection.pictures.forecasts import Forecast, coverage_by_step, error_by_step, forecasts
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.metrics import find_metric
from neuropil.models.forecaster import BANDS, MEDIAN
from neuropil.tasks import report
from neuropil.tasks.forecasting.linear import LinearStart
from neuropil.tasks.forecasting.predictor import SeriesForecaster
from neuropil.tasks.forecasting.scores import Rolled, band_of
from neuropil.training.history import Row

DRAWN = 4
LEAST_SHARE = 0.05
"""A recursion that counts for less in the linear start is not named."""
MOST_ROWS = 24
HORIZONS_OF_HISTORY = 4
"""Of the history before a forecast, so much is drawn, or a window of it where that is longer."""


def forecasts_section(test: SeriesWindows, rolled: Rolled, target: str) -> Section:
    chosen = torch.linspace(0, len(test) - 1, min(DRAWN, len(test))).round().long()
    quantiles = test.restored(rolled.quantiles)
    shown = [_forecast(test.take(index.reshape(1)), quantiles[index], truth=True) for index in chosen]
    words = (
        f"The test part is the last of the data. {len(test):,} forecasts were made, each from an origin of its own "
        f"with what was known by then; here are some, with prediction intervals of {_percents(BANDS)}."
    )
    figure = Picture.of(forecasts(shown, ylabel=target), alt="forecasts from several origins of the test part")
    return Section("Forecasts", [Text(words), figure])


def horizon_section(by_method: Mapping[str, Rolled], uncalibrated: Rolled, step: str) -> Section:
    """Errors and coverage by how far ahead; the first method is the forecaster."""
    step, rolled = step if step[0].isalpha() else "step", next(iter(by_method.values()))
    errors = error_by_step({name: each.mase_by_step() for name, each in by_method.items()}, step=step)
    coverage = coverage_by_step({share: rolled.coverage_by_step(band) for band, share in enumerate(BANDS)}, step=step)
    rows = [
        [f"{100 * share:g} %", f"{100 * before:.1f} %", f"{100 * after:.1f} %"]
        for share, before, after in zip(BANDS, uncalibrated.coverage(), rolled.coverage(), strict=True)
    ]
    words = (
        "MASE is the mean absolute error in units of that of the seasonal naive forecast on the training part. The "
        "intervals of a baseline are the quantiles of its own recent errors."
    )
    calibrated = (
        "Calibrated intervals (adaptive conformal inference) are stretched by a factor that grows after forecasts "
        "whose interval missed the truth, and shrinks after others, as far as outcomes were known at the origin."
    )
    return Section(
        "Error by horizon",
        [
            Text(words),
            Picture.of(errors, alt="error by how many steps ahead, for the forecaster and the baselines"),
            Text(calibrated),
            Table(["interval", "coverage, uncalibrated", "coverage, calibrated"], rows),
            Picture.of(coverage, alt="coverage of each interval by how many steps ahead"),
        ],
    )


def start_section(start: LinearStart, history: Sequence[Row], monitor: str) -> Section:
    """What the networks began with, and whether they became better than it."""
    parts = [f"{name} {100 * share:.0f} %" for name, share in start.shares.items() if share >= LEAST_SHARE]
    words = (
        "Training begins with a linear forecast, the mean of recursions that are weighed by their errors from "
        f"rolling origins in the training and the validation part: {', '.join(parts)}."
    )
    found = [(row["step"], row[monitor]) for row in history if row["kind"] == "validation"]
    if found:
        metric, (_, before) = find_metric(monitor), found[0]
        step, after = (max if metric.better == "higher" else min)(found, key=lambda each: each[1])
        became = f"{metric.text(after)} after {step:,} updates" if step else "no update made it better: it is kept"
        words += f" On the validation part its {metric.title} is {metric.text(before)}, and {became}."
    refitted = "Then the linear forecast is fitted anew, to the validation part too."
    return Section("Linear start", [Text(f"{words} {refitted}")])


def future_section(forecaster: SeriesForecaster, table: SeriesTable, panel: Panel) -> Section:
    """What follows the end of the data, where what must be known of it is."""
    try:
        following = forecaster.forecast(table)
    except InputError as missing:
        return Section("Future", [Text(f"There is no forecast after the end of the data: {missing}")])
    last, chosen = panel.last_windows(), range(min(DRAWN, len(table.series)))
    shown = [_forecast(last.take(torch.tensor([index])), following.quantiles[index], truth=False) for index in chosen]
    bands = [[part.flatten().tolist() for part in following.band(share)] for share in BANDS]
    names, digits = step_names(following.series, following.dates), following.digits
    rows = [
        [name, f"{median:.{digits}g}", *(f"{low[place]:.{digits}g} to {high[place]:.{digits}g}" for low, high in bands)]
        for place, (name, median) in enumerate(zip(names, following.median.flatten().tolist(), strict=True))
    ]
    figure = Picture.of(forecasts(shown, ylabel=table.target), alt="the forecast that follows the end of the data")
    header = ["", "median", *(f"{100 * share:g} % interval" for share in BANDS)]
    return Section("Future", [figure, Table(header, rows[:MOST_ROWS])])


def data_section(splits: SeriesSplits) -> Section:
    table = splits.table
    borders = (min(series.start for series in table.series), splits.train_end, splits.test_begin, table.end)
    parts = (("training", splits.train), ("validation", splits.validation), ("test", splits.test))
    rows = [
        [name, table.label(borders[place]), table.label(borders[place + 1] - 1), len(windows)]
        for place, (name, windows) in enumerate(parts)
        if borders[place] < borders[place + 1]
    ]
    return report.data_section(table.source, ["part", "from", "to", "origins"], rows, table.notes)


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
