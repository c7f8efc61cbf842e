"""Series in three parts of time, one after another: to learn from, to choose and calibrate by, and to score.

They are embedded, or the user's own, from a table of text with a row for each date and one or many series in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from neuropil.config import Config, option
from neuropil.data.formats.columns import Cells, numbers_in, read_numbers
from neuropil.data.formats.delimited import Block, CellTable, DelimitedFile, is_delimited
from neuropil.data.formats.memory import InMemory, MemoryTable
from neuropil.data.formats.paths import require_file
from neuropil.data.formats.values import Values
from neuropil.data.series.clocks import Dates, date_text
from neuropil.data.series.dataset import Series, SeriesTable, SeriesUnits, gap_notes, mean_of_each, series_name
from neuropil.data.series.dates import read_dates, recognise_dates
from neuropil.data.series.embedded import EMBEDDED, DatasetName
from neuropil.data.series.season import find_season, find_units, find_week
from neuropil.data.series.steps import FEWEST_PRESENT, TimeStep, find_step, is_weekend
from neuropil.data.series.windows import Panel, SeriesWindows
from neuropil.data.splits import SplitConfig, Splits, scoring_share, validation_share
from neuropil.errors import InputError, listed

SEASONS_IN_WINDOW = 3
SHORTEST_WINDOW = 12
LONGEST_WINDOW = 336
LEAST_KEPT = 0.99
"""Share of the different values that single precision should keep apart; chance alone lets a few in a million meet."""
MOST_ORIGINS = 2_000
"""More origins would make scores slower but not surer; those that are taken are evenly spaced."""
VALUE, SERIES = "value", "series"
"""Columns of an array."""
MOST_REPEATED = 0.5
"""Share of the rows that may repeat a date; with as many, the table has several series and does not say so."""
REPEATED_BY_CHANCE = 0.1
SHORTEST_BLOCK = 5
"""Rows of one text, one after another, that may be a series of their own."""
MOST_STEPS_OF_FEW = 1_000
"""Steps from the first to the last date that few rows may be spread over."""


class SeriesColumns(Config):
    """Which columns of a table are what. A trained model keeps them, with its step, to read more of the same kind."""

    target: str | None = None
    date: str | None = None
    series: str | None = None
    known: tuple[str, ...] = ()


class SeriesDataConfig(SplitConfig):
    for_embedded = ("dataset",)
    data: Path | InMemory | None = option(None, "CSV or TSV with a row for each date; without it, an embedded data set")
    dataset: DatasetName = option("sunspots", "the embedded data set to use where there is no data of your own")
    target: str | None = option(None, "the column to forecast; not needed if only one column holds numbers")
    date: str | None = option(None, "column of dates; default found, and where there is none, a row is a step")
    series: str | None = option(None, "the column whose texts tell several series apart")
    known: tuple[str, ...] = option((), "columns that are known in advance, such as a price or a holiday")
    horizon: int | None = option(None, "steps to forecast; without it, a season, or 12 where there is none", low=1)
    season: int | None = option(None, "steps of a season; without it, found from the dates or the data", low=1)
    window: int | None = option(None, "steps of history that a forecast is made from; without it, three seasons", low=2)
    longest_gap: int = option(6, "longest gap, in steps, that is filled by interpolation to be read", low=0)
    validation: float = validation_share(0.15, "share of the time before the test part to choose and calibrate by")
    test: float = scoring_share(0.2, "share of the time, the last, that forecasts are scored on", high=0.8)

    def validate(self) -> None:
        named = [name for name in ("target", "date", "series", "known") if getattr(self, name)]
        if self.data is None and named:
            got = f"{named[0]} for embedded data"
            raise InputError("columns are named in a CSV or TSV of your own", got=got, fix="leave it out")


@dataclass(frozen=True, kw_only=True)
class SeriesSplits(Splits[SeriesWindows]):
    """Windows by where their targets lie: before `train_end` to learn from, before `test_begin` for validation."""

    seasons: tuple[int, ...]
    """The one that MASE is measured by, and a longer one where there is one: a day and a week."""
    train_end: int
    test_begin: int
    columns: SeriesColumns

    @property
    def season(self) -> int:
        return self.seasons[0]

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
    week = None if config.season else find_week(table, season, train_end)
    window = config.window or min(max(SEASONS_IN_WINDOW * season, SHORTEST_WINDOW), LONGEST_WINDOW)
    if week is not None and config.window is None:
        window = max(window, week + 2 * season)
    table = _with_long_series(table, train_end, window + horizon)
    notes = [*_season_notes(config, table, (season, week), window, horizon), *gap_notes(table, config.longest_gap)]
    units = find_units(table, season, train_end)
    notes += _precision_notes(table, units)
    panel = Panel.of(table.with_notes(notes), window, horizon, config.longest_gap, units)
    train = panel.windows(0, train_end)
    validation = panel.windows(train_end, test_begin).thinned(MOST_ORIGINS)
    test = panel.windows(test_begin, length).thinned(MOST_ORIGINS)
    for name, windows in (("learn from", train), ("score", test)):
        if not len(windows):
            rule = f"series must have {table.step.of(window + horizon)} without a long gap to {name}"
            raise InputError(rule, got="none", fix="give a shorter --window or --horizon, or a larger --longest-gap")
    parts, seasons = (train, validation, test), (season, week) if week else (season,)
    return SeriesSplits(*parts, seasons=seasons, train_end=train_end, test_begin=test_begin, columns=columns)


def cuts(length: int, horizon: int | None, validation: float, test: float) -> tuple[int, int]:
    """Where training and validation end: each later part is as long as its share, and long enough for one forecast."""
    shortest = horizon or 1
    test_begin = length - max(round(test * length), shortest)
    return test_begin - (max(round(validation * test_begin), shortest) if validation else 0), test_begin


def _read(config: SeriesDataConfig) -> tuple[SeriesTable, SeriesColumns, int | None]:
    if isinstance(config.data, InMemory) and config.data.parts:
        got, fix = f"the parts {listed([*config.data.parts])}", "give it whole, with --test and --validation as shares"
        raise InputError("a series is divided by time", got=got, fix=fix)
    if config.data is None:
        embedded = EMBEDDED[config.dataset]
        return embedded.load(), SeriesColumns(), config.horizon or embedded.horizon
    columns = SeriesColumns(target=config.target, date=config.date, series=config.series, known=config.known)
    return *read_series(config.data, columns), config.horizon


def _with_long_series(table: SeriesTable, train_end: int, needed: int) -> SeriesTable:
    """Those whose training part has room for a window; the others are left out, and it is said."""
    long = [series for series in table.series if min(train_end, series.end) - series.start > needed]
    if not long:
        most, length = max((max(0, min(train_end, each.end) - each.start), len(each.values)) for each in table.series)
        both = f"a window of history and a horizon, together {table.step.of(needed)}"
        rule, got = f"the training part must be longer than {both}", f"{most:,} of {table.step.of(length)}"
        raise InputError(rule, got=got, fix="give a longer series, or a shorter --horizon or --window")
    short = [series.name for series in table.series if series not in long]
    if not short:
        return table
    are = "is" if len(short) == 1 else "are"
    which = f"{len(short):,} of {len(table.series):,} series {are} too short before the validation part"
    return replace(table, series=tuple(long)).with_notes([f"{which}, and {are} left out: {listed(short, 5)}."])


def _precision_notes(table: SeriesTable, units: Sequence[SeriesUnits]) -> list[str]:
    """How many values single precision cannot tell apart even in the units of their series, where that is many."""
    notes = []
    for series, own in zip(table.series, units, strict=True):
        different = np.unique(series.values[~np.isnan(series.values)])
        kept = len(np.unique(own.standardised(different).astype(np.float32)))
        if kept < LEAST_KEPT * len(different):
            name = series_name(series)
            notes.append(f"{len(different):,} different values of {name} are {kept:,} in single precision.")
    return notes


def _season_notes(
    config: SeriesDataConfig, table: SeriesTable, seasons: tuple[int, int | None], window: int, horizon: int
) -> list[str]:
    season, week = seasons
    if config.season is not None:
        how = "as given"
    elif season == 1:
        how = "as none was found"
    else:
        how = "from the calendar" if season == table.step.season else "found by autocorrelation in the training part"
    each = f"A step is {'one ' if str(table.step)[0].isalpha() else ''}{table.step}"
    each = "A row is a step" if table.step.unit == "row" else each
    how += "" if week is None else f"; a week, of {week:,}, by autocorrelation"
    return [f"{each}; a season has {season:,} ({how}); {window:,} are read to forecast {horizon:,}."]


def read_series(
    source: Path | InMemory, columns: SeriesColumns, step: TimeStep | None = None
) -> tuple[SeriesTable, SeriesColumns]:
    """The series, and the columns that they came from, those that were not named found. Gaps stay gaps.

    With a `step`, dates must be that far apart; a series of rows is given the step of rows, whatever its table holds.
    """
    table, columns = table_in(source, columns) if isinstance(source, InMemory) else (_file_table(source), columns)
    trained = None if step is None else [name for name in (columns.target, columns.date, columns.series) if name]
    blocks = list(table.blocks(None if trained is None else [*trained, *columns.known]))
    columns = _find_columns(table, blocks[0], columns, with_dates=step is None or step.unit != "row")
    if columns.date is None and step is not None and step.unit != "row":
        raise InputError(
            f"{table.name} must have a column of dates, as the training data had", got=listed(table.header)
        )
    rows = _read_rows(blocks, columns, step.clock if step else "")
    if columns.series is None:
        _require_one_series(blocks, columns, rows, table.name)
    notes = list(rows.notes)
    if columns.date is None and step is None:
        notes.append(f"No column of {table.name} holds dates, so each row is a step.")
    parts = rows.by_series()
    step = replace(step or _step_of(parts, columns, table.name), clock=rows.clock)
    first = None if rows.dates is None else min(part.dates.min() for part in parts.values() if part.dates is not None)
    placed: list[Series] = []
    repeated = 0
    for name, part in parts.items():
        numbers = np.arange(len(part.values))
        if first is not None and part.dates is not None:
            numbers = _numbers(part.dates, first, step, f"column {columns.date!r} of {table.name}")
        repeated += len(numbers) - len(np.unique(numbers))
        placed += _place(name, numbers, part, f"column {columns.date!r} of {table.name}", step)
    notes += _order_notes(parts.values(), columns.series is not None, repeated, len(rows.values), table.name)
    if not placed:
        raise InputError(f"column {columns.target!r} of {table.name} must hold numbers", got="only empty cells")
    phrase = _source(placed, step, columns, table.name)
    return SeriesTable(tuple(placed), step, first, columns.target or "", columns.known, phrase, tuple(notes)), columns


def _file_table(path: Path) -> CellTable:
    if not is_delimited(require_file(path, "series")):
        fix = "rename it if it is one of these"
        raise InputError("series are read from a CSV or TSV, plain or gzip", got=path.name, fix=fix)
    return DelimitedFile(path)


def table_in(memory: InMemory, columns: SeriesColumns) -> tuple[CellTable, SeriesColumns]:
    """A table of named columns as it is, with the dates of its index; of an array [time] or [time series], or of
    several windows of values, one whose rows are steps."""
    (values, *others) = memory.columns.values()
    if not others and ((isinstance(values, np.ndarray) and values.ndim == 2) or _are_windows(values)):
        if columns.series not in (None, SERIES):
            rule = "--series names a column of a table"
            raise InputError(rule, got=f"{columns.series!r} for the {memory.name}", fix="leave it out")
        each = [*values.T] if isinstance(values, np.ndarray) else values
        names = [str(number) for number, window in enumerate(each) for _ in window]
        return MemoryTable(memory, {VALUE: np.concatenate(each), SERIES: names}), replace(columns, series=SERIES)
    named = dict(memory.columns)
    if memory.unnamed:
        named = {columns.target or VALUE: values}
    date = columns.date or next(name for name in ("date", "index", "date of the index") if name not in named)
    if memory.dates is not None and date not in named:
        named, columns = {date: memory.dates, **named}, replace(columns, date=date)
    return MemoryTable(memory, named), columns


def _are_windows(values: Values) -> bool:
    return isinstance(values, list) and all(isinstance(each, np.ndarray) and each.ndim == 1 for each in values)


@dataclass(frozen=True)
class SeriesRows:
    """The columns that matter, row by row."""

    values: Float64[np.ndarray, " row"]
    known: Float64[np.ndarray, "row feature"]
    dates: Dates | None
    names: list[str]
    clock: str = ""
    notes: tuple[str, ...] = ()

    def take(self, index: Int64[np.ndarray, " chosen"]) -> "SeriesRows":
        dates = None if self.dates is None else self.dates[index]
        return SeriesRows(self.values[index], self.known[index], dates, [self.names[i] for i in index.tolist()])

    def by_series(self) -> Mapping[str, "SeriesRows"]:
        """In the order in which they first occur."""
        numbers: dict[str, int] = {}
        which = np.array([numbers.setdefault(name, len(numbers)) for name in self.names])
        borders = np.cumsum(np.bincount(which))[:-1]
        rows = np.split(np.argsort(which, kind="stable"), borders)
        return {name: self.take(own) for name, own in zip(numbers, rows, strict=True)}


def _find_columns(table: CellTable, block: Block, columns: SeriesColumns, *, with_dates: bool) -> SeriesColumns:
    target, date, series = (name and table.column(name) for name in (columns.target, columns.date, columns.series))
    known = tuple(map(table.column, columns.known))
    named = [name for name in (target, series, *known) if name is not None]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise InputError("target, series and known must be different columns", got=f"{twice!r} twice")
    if date is None and with_dates:
        date = recognise_dates({name: cells for name, cells in block.items() if name not in named})
    if target is None:
        left = [
            name for name, cells in block.items() if name not in (*named, date) and numbers_in(cells.texts) is not None
        ]
        if len(left) != 1:
            choices = listed(left) if left else "none of its columns holds numbers"
            fix = f"choose from {choices}" if left else choices
            raise InputError(f"the table {table.name} needs a target, the column to forecast", fix=fix)
        target = left[0]
    return SeriesColumns(target=target, date=date, series=series, known=known)


def _read_rows(blocks: Sequence[Block], columns: SeriesColumns, clock: str) -> SeriesRows:
    target = _whole(blocks, columns.target or "")
    read = None if columns.date is None else read_dates(_whole(blocks, columns.date), clock)
    names = [""] * len(target.texts)
    if columns.series is not None:
        names = [text.strip() for text in _whole(blocks, columns.series).texts]
    values = read_numbers(target, gaps=True)
    known = [read_numbers(_whole(blocks, name), gaps=True) for name in columns.known]
    for name, column in zip(columns.known, known, strict=True):
        if np.isnan(column).any():
            where = _whole(blocks, name).where(int(np.isnan(column).argmax()))
            rule = f"{where} must hold a value, as it is known in advance"
            raise InputError(rule, got="an empty cell", fix="fill it in")
    matrix = np.stack(known, axis=1) if known else np.zeros((len(values), 0))
    if read is None:
        return SeriesRows(values, matrix, None, names)
    return SeriesRows(values, matrix, read.dates, names, read.clock, (read.note,) if read.note else ())


def _require_one_series(blocks: Sequence[Block], columns: SeriesColumns, rows: SeriesRows, file: str) -> None:
    """A column that tells several series apart, where none was named: with it dates no longer repeat, or, where there
    are no dates, its texts stand in blocks."""
    count = len(rows.values)
    others = [name for name in blocks[0] if name not in (columns.target, columns.date, *columns.known)]
    if rows.dates is not None:
        if len(np.unique(rows.dates)) > (1 - REPEATED_BY_CHANCE) * count:
            return
        dates = rows.dates.tolist()
        ids = [name for name in others if len(set(zip(_whole(blocks, name).texts, dates, strict=True))) == count]
        ids = [name for name in ids if 2 * len(set(_whole(blocks, name).texts)) <= count]
    else:
        ids = [name for name in others if _stands_in_blocks(_whole(blocks, name).texts)]
    if ids:
        how = "dates that repeat" if rows.dates is not None else "texts in blocks"
        fix = f"give --series {ids[0]}, or remove the column if all rows are one series"
        got = f"{how}, and {len(set(_whole(blocks, ids[0]).texts)):,} different values of {ids[0]!r}"
        raise InputError(f"{file} must say which column tells its series apart", got=got, fix=fix)


def _stands_in_blocks(texts: Sequence[str]) -> bool:
    lengths = [len(list(block)) for _, block in groupby(texts)]
    return 1 < len(lengths) == len(set(texts)) and min(lengths) >= SHORTEST_BLOCK and numbers_in(texts) is None


def _whole(blocks: Sequence[Block], name: str) -> Cells:
    pieces = [block[name] for block in blocks]
    rows, texts = [row for piece in pieces for row in piece.rows], [text for piece in pieces for text in piece.texts]
    return Cells(pieces[0].file, name, rows, texts)


def _step_of(parts: Mapping[str, SeriesRows], columns: SeriesColumns, file: str) -> TimeStep:
    if columns.date is None:
        return TimeStep()
    each = [np.unique(part.dates) for part in parts.values() if part.dates is not None]
    repeated = 1 - sum(map(len, each)) / sum(len(part.values) for part in parts.values())
    if repeated >= MOST_REPEATED and columns.series is None:
        rule = f"column {columns.date!r} of {file} must hold each date once for each series"
        fix = "name the column that tells the series apart with --series"
        raise InputError(rule, got="most of them several times", fix=fix)
    return find_step(each, f"column {columns.date!r} of {file}")


def _numbers(dates: Dates, first: np.datetime64, step: TimeStep, column: str) -> Int64[np.ndarray, " row"]:
    rule = f"the dates in {column} must be steps of one {step} apart"
    if step.unit == "business day" and is_weekend(dates).any():
        stray = dates[int(is_weekend(dates).argmax())]
        raise InputError(f"{rule}, as in the training data", got=f"{step.text(stray)}, a day of a weekend")
    numbers = step.numbers(dates, first)
    back = step.dates(numbers, first)
    if (back != dates).any() and not (step.unit == "month" and (back.astype("M8[M]") == dates.astype("M8[M]")).all()):
        stray = dates[int((back != dates).argmax())]
        text = date_text(stray, step.clock, "s").removesuffix(" 00:00:00")
        raise InputError(f"{rule}, from the first of all series on", got=f"{text}, which is between two of them")
    return numbers


def _place(
    name: str, numbers: Int64[np.ndarray, " row"], part: SeriesRows, column: str, step: TimeStep
) -> list[Series]:
    """Rows on the axis of time: the mean of those with one date, gaps where there is none; nothing if all are gaps."""
    start, length = int(numbers.min()), int(np.ptp(numbers)) + 1
    if length > max(MOST_STEPS_OF_FEW, len(numbers) / FEWEST_PRESENT) and part.dates is not None:
        first, last = (step.text(date) for date in (part.dates.min(), part.dates.max()))
        rule = f"{column} must hold at least half of the dates from its first to its last, {first} to {last}"
        raise InputError(rule, got=f"{len(np.unique(numbers)):,} of {step.of(length)}", fix="look for a wrong date")
    values = mean_of_each(numbers - start, part.values, length)
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        return []
    begin, end = int(present[0]), int(present[-1]) + 1
    known = np.zeros((end - begin, 0))
    if part.known.size:
        known = np.stack([mean_of_each(numbers - start, column, length) for column in part.known.T], axis=1)[begin:]
        # A gap in the dates is a gap in what was known: the row before holds on.
        known = known[np.maximum.accumulate(np.where(np.isnan(known).any(1), 0, np.arange(len(known))))]
    return [Series(name, start + begin, values[begin:end], known)]


def _order_notes(parts: Iterable[SeriesRows], named: bool, repeated: int, rows: int, file: str) -> list[str]:
    notes = []
    if any(part.dates is not None and bool((np.diff(part.dates) < np.timedelta64(0)).any()) for part in parts):
        notes.append(f"The rows of {file} are not in the order of their dates, and are put into it.")
    if repeated:
        hint = "" if named else " (if they are different series, name their column with --series)"
        verb = "repeats" if repeated == 1 else "repeat"
        notes.append(f"{repeated:,} of {rows:,} rows {verb} a date; the mean of the same date is taken{hint}.")
    return notes


def _source(placed: Sequence[Series], step: TimeStep, columns: SeriesColumns, file: str) -> str:
    if len(placed) == 1:
        return f"{step.of(len(placed[0].values))} of {columns.target} ({file})"
    total = sum(len(series.values) for series in placed)
    return f"{len(placed):,} series of {columns.target}, together {step.of(total)} ({file})"
