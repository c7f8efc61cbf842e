"""Series in three parts of time, one after another: to learn from, to choose and calibrate by, and to score."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from neuropil.config import Config, option
from neuropil.data.messages import listed
from neuropil.data.series.dataset import SeriesTable, gap_notes
from neuropil.data.series.embedded import EMBEDDED, DatasetName
from neuropil.data.series.files import Columns, read_series
from neuropil.data.series.season import find_season, naive_scales
from neuropil.data.series.windows import Panel, Windows
from neuropil.errors import InputError

SEASONS_IN_WINDOW = 3
SHORTEST_WINDOW = 12
LONGEST_WINDOW = 336
MOST_ORIGINS = 2_000
"""More origins would make scores slower but not surer; those that are taken are evenly spaced."""


class SeriesDataConfig(Config):
    data: Path | None = option(
        None, "your own series: a CSV or TSV with a row for each date; without it, an embedded data set"
    )
    dataset: DatasetName = option("sunspots", "the embedded data set to use where there is no data of your own")
    target: str | None = option(None, "the column to forecast; not needed if only one column holds numbers")
    date: str | None = option(
        None, "the column of dates; without it, it is recognised, and where there is none, a row is a step"
    )
    series: str | None = option(None, "the column whose texts tell several series apart")
    known: tuple[str, ...] = option(
        (), "columns that are known in advance, also for the steps to forecast, such as a price or a holiday"
    )
    horizon: int | None = option(
        None, "steps to forecast; without it, a season, or 12 steps where there is none", low=1
    )
    season: int | None = option(
        None, "steps after which the series repeats itself; without it, found from the dates or the data", low=1
    )
    window: int | None = option(None, "steps of history that a forecast is made from; without it, three seasons", low=2)
    longest_gap: int = option(6, "longest gap, in steps, that is filled by interpolation to be read", low=0)
    validation: float = option(
        0.15, "share of the time before the test part by which weights are chosen and bands calibrated", low=0, high=0.5
    )
    test: float = option(0.2, "share of the time, the last, that forecasts are scored on", low=0.01, high=0.8)

    def validate(self) -> None:
        named = [name for name in ("target", "date", "series") if getattr(self, name) is not None] + ["known"] * bool(
            self.known
        )
        if self.data is None and named:
            raise InputError(
                "columns are named in a CSV or TSV of your own", got=f"{named[0]} for embedded data", fix="leave it out"
            )


@dataclass(frozen=True)
class SeriesSplits:
    """Windows by where their targets lie. The time before `train_end` is learned from, that before `test_begin` is for validation."""

    train: Windows
    validation: Windows
    test: Windows
    season: int
    train_end: int
    test_begin: int
    columns: Columns

    @property
    def panel(self) -> Panel:
        return self.train.panel

    @property
    def table(self) -> SeriesTable:
        return self.panel.table


def prepare_series(config: SeriesDataConfig) -> SeriesSplits:
    """Nothing is drawn at random: the future is what comes last."""
    table, columns, horizon = _read(config)
    length = table.end
    train_end, test_begin = cuts(length, horizon, config.validation, config.test)
    season = config.season or find_season(table, train_end)
    horizon = horizon or (season if season > 1 else SHORTEST_WINDOW)
    train_end, test_begin = cuts(length, horizon, config.validation, config.test)
    window = config.window or min(max(SEASONS_IN_WINDOW * season, SHORTEST_WINDOW), LONGEST_WINDOW)
    table = _with_long_series(table, train_end, window + horizon)
    notes = [*_season_notes(config, table, season, window, horizon), *gap_notes(table, config.longest_gap)]
    scales = naive_scales(table, season, train_end)
    panel = Panel.of(table.with_notes(notes), window, horizon, config.longest_gap, scales)
    train = panel.windows(0, train_end)
    validation, test = (
        panel.windows(*part).thinned(MOST_ORIGINS) for part in ((train_end, test_begin), (test_begin, length))
    )
    for name, windows in (("learn from", train), ("score", test)):
        if not len(windows):
            rule = f"series must have {table.step.of(window + horizon)} without a long gap to {name}"
            raise InputError(rule, got="none", fix="give a shorter --window or --horizon, or a larger --longest-gap")
    return SeriesSplits(train, validation, test, season, train_end, test_begin, columns)


def cuts(length: int, horizon: int | None, validation: float, test: float) -> tuple[int, int]:
    """Where training and validation end: each later part is as long as its share, and long enough for one forecast."""
    shortest = horizon or 1
    test_begin = length - max(round(test * length), shortest)
    return test_begin - (max(round(validation * test_begin), shortest) if validation else 0), test_begin


def _read(config: SeriesDataConfig) -> tuple[SeriesTable, Columns, int | None]:
    if config.data is None:
        embedded = EMBEDDED[config.dataset]
        return embedded.load(), Columns(), config.horizon or embedded.horizon
    columns = Columns(target=config.target, date=config.date, series=config.series, known=config.known)
    return *read_series(config.data, columns), config.horizon


def _with_long_series(table: SeriesTable, train_end: int, needed: int) -> SeriesTable:
    """Those whose training part has room for a window; the others are left out, and it is said."""
    long = [
        series
        for series in table.series
        if train_end - series.start >= needed + 1 and series.end >= series.start + needed + 1
    ]
    if not long:
        most = max(max(0, min(train_end, series.end) - series.start) for series in table.series)
        raise InputError(
            f"the training part must be longer than a window of history and a horizon, together {table.step.of(needed)}",
            got=f"{most:,}",
            fix="give a longer series, or a shorter --horizon or --window",
        )
    short = [series.name for series in table.series if series not in long]
    if not short:
        return table
    note = f"{len(short):,} of {len(table.series):,} series are too short before the validation part, and are left out: {listed(short, 5)}."
    return dataclasses.replace(table, series=tuple(long)).with_notes([note])


def _season_notes(config: SeriesDataConfig, table: SeriesTable, season: int, window: int, horizon: int) -> list[str]:
    if config.season is not None:
        how = "as given"
    elif season == 1:
        how = "as none was found"
    else:
        how = "from the calendar" if season == table.step.season else "found by autocorrelation in the training part"
    each = (
        "A row is a step"
        if table.step.unit == "row"
        else f"A step is one {table.step}"
        if str(table.step)[0].isalpha()
        else f"A step is {table.step}"
    )
    return [f"{each}; a season has {season:,} ({how}); {window:,} are read to forecast {horizon:,}."]
