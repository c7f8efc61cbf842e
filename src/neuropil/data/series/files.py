"""Series from a table of text: a row for each date, one or many series in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from neuropil.config import Config
from neuropil.data.examples.table import MISSING_NUMBERS, are_numbers, is_missing
from neuropil.data.formats.delimited import Block, Cells, DelimitedFile, is_delimited, is_number
from neuropil.data.messages import did_you_mean, listed
from neuropil.data.series.dataset import Series, SeriesTable
from neuropil.data.series.dates import read_dates, recognise_dates
from neuropil.data.series.steps import Dates, Step, find_step
from neuropil.errors import InputError

MOST_REPEATED = 0.5
"""Share of the rows that may repeat a date; with more, the table has several series and does not say so."""


class Columns(Config):
    """Which columns of a table are what. A trained model keeps them, with its step, to read more of the same kind."""

    target: str | None = None
    date: str | None = None
    series: str | None = None
    known: tuple[str, ...] = ()


def read_series(path: Path, columns: Columns, step: Step | None = None) -> tuple[SeriesTable, Columns]:
    """The series of a file and the columns that they came from, those that were not named found. Gaps stay gaps.

    With a `step`, dates must be that far apart; a series of rows is given the step of rows, whatever its table holds.
    """
    table = DelimitedFile(_existing(path))
    blocks = list(table.blocks())
    columns = _find_columns(table, blocks[0], columns, with_dates=step is None or step.unit != "row")
    if columns.date is None and step is not None and step.unit != "row":
        raise InputError(f"{path.name} must have a column of dates, as the training data had", got=listed(table.header))
    rows = _read_rows(blocks, columns)
    notes = list(rows.notes)
    if columns.date is None and step is None:
        notes.append(f"No column of {path.name} holds dates, so each row is a step.")
    parts = rows.by_series()
    step = step or _step_of(parts, columns, path.name)
    first = None if rows.dates is None else min(part.dates.min() for part in parts.values() if part.dates is not None)
    placed: list[Series] = []
    repeated = 0
    for name, part in parts.items():
        numbers = (
            np.arange(len(part.values))
            if first is None or part.dates is None
            else _numbers(part.dates, first, step, columns, path)
        )
        repeated += len(numbers) - len(np.unique(numbers))
        placed += _place(name, numbers, part, path.name)
    notes += _order_notes(parts, columns, repeated, len(rows.values), path.name)
    if not placed:
        raise InputError(f"column {columns.target!r} of {path.name} must hold numbers", got="only empty cells")
    source = _source(placed, step, columns, path.name)
    return SeriesTable(tuple(placed), step, first, columns.target or "", columns.known, source, tuple(notes)), columns


@dataclass(frozen=True)
class Rows:
    """The columns that matter, row by row."""

    values: Float64[np.ndarray, " row"]
    known: Float64[np.ndarray, "row feature"]
    dates: Dates | None
    names: list[str]
    notes: tuple[str, ...] = ()

    def take(self, index: Int64[np.ndarray, " chosen"]) -> "Rows":
        dates = None if self.dates is None else self.dates[index]
        return Rows(self.values[index], self.known[index], dates, [self.names[i] for i in index.tolist()])

    def by_series(self) -> Mapping[str, "Rows"]:
        """In the order in which they first occur."""
        numbers: dict[str, int] = {}
        which = np.array([numbers.setdefault(name, len(numbers)) for name in self.names])
        borders = np.cumsum(np.bincount(which))[:-1]
        return {
            name: self.take(rows)
            for name, rows in zip(numbers, np.split(np.argsort(which, kind="stable"), borders), strict=True)
        }


def _find_columns(table: DelimitedFile, block: Block, columns: Columns, *, with_dates: bool) -> Columns:
    for name in (columns.target, columns.date, columns.series, *columns.known):
        if name is not None:
            table.require_column(name)
    named = [name for name in (columns.target, columns.series, *columns.known) if name is not None]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise InputError("target, series and known must be different columns", got=f"{twice!r} twice")
    date = columns.date
    if date is None and with_dates:
        date = recognise_dates({name: cells for name, cells in block.items() if name not in named})
    target = columns.target
    if target is None:
        left = [name for name, cells in block.items() if name not in (*named, date) and are_numbers(cells.texts)]
        if len(left) != 1:
            choices = listed(left) if left else "none of its columns holds numbers"
            fix = f"choose from {choices}" if left else choices
            raise InputError(f"the table {table.path.name} needs a target, the column to forecast", fix=fix)
        target = left[0]
    return Columns(target=target, date=date, series=columns.series, known=columns.known)


def _read_rows(blocks: Sequence[Block], columns: Columns) -> Rows:
    target = _whole(blocks, columns.target or "")
    dates, doubt = (None, None) if columns.date is None else read_dates(_whole(blocks, columns.date))
    names = (
        [""] * len(target.texts)
        if columns.series is None
        else [text.strip() for text in _whole(blocks, columns.series).texts]
    )
    values = _numbers_or_gaps(target)
    known = [_numbers_or_gaps(_whole(blocks, name)) for name in columns.known]
    for name, column in zip(columns.known, known, strict=True):
        if np.isnan(column).any():
            cells = _whole(blocks, name)
            where = cells.where(int(np.isnan(column).argmax()))
            raise InputError(
                f"{where} must hold a value, as it is known in advance", got="an empty cell", fix="fill it in"
            )
    matrix = np.stack(known, axis=1) if known else np.zeros((len(values), 0))
    return Rows(values, matrix, dates, names, (doubt,) if doubt else ())


def _whole(blocks: Sequence[Block], name: str) -> Cells:
    pieces = [block[name] for block in blocks]
    return Cells(
        pieces[0].file,
        name,
        [row for piece in pieces for row in piece.rows],
        [text for piece in pieces for text in piece.texts],
    )


def _numbers_or_gaps(cells: Cells) -> Float64[np.ndarray, " row"]:
    """NaN where a cell says that there is no value."""
    numbers = np.full(len(cells.texts), np.nan)
    for index, text in enumerate(cells.texts):
        if is_number(text):
            numbers[index] = float(text)
        elif not is_missing(text, MISSING_NUMBERS):
            raise InputError(
                f"{cells.where(index)} must hold a number, or nothing where there is no value", got=repr(text)
            )
    if not (np.abs(numbers[~np.isnan(numbers)]) <= np.finfo(np.float32).max).all():
        index = int(
            np.argmax(np.abs(np.nan_to_num(numbers, nan=0.0, posinf=np.inf, neginf=-np.inf)) > np.finfo(np.float32).max)
        )
        raise InputError(f"{cells.where(index)} must hold a finite number", got=repr(cells.texts[index]))
    return numbers


def _step_of(parts: Mapping[str, Rows], columns: Columns, file: str) -> Step:
    if columns.date is None:
        return Step()
    each = [np.unique(part.dates) for part in parts.values() if part.dates is not None]
    repeated = 1 - sum(map(len, each)) / sum(len(part.values) for part in parts.values())
    if repeated > MOST_REPEATED and columns.series is None:
        rule = f"column {columns.date!r} of {file} must hold each date once for each series"
        raise InputError(
            rule, got="most of them several times", fix="name the column that tells the series apart with --series"
        )
    return find_step(each, f"column {columns.date!r} of {file}")


def _numbers(dates: Dates, first: np.datetime64, step: Step, columns: Columns, path: Path) -> Int64[np.ndarray, " row"]:
    numbers = step.numbers(dates, first)
    back = step.dates(numbers, first)
    if (back != dates).any() and not (step.unit == "month" and (back.astype("M8[M]") == dates.astype("M8[M]")).all()):
        stray = dates[int((back != dates).argmax())]
        text = str(stray).replace("T", " ").removesuffix(" 00:00:00")
        raise InputError(
            f"the dates in column {columns.date!r} of {path.name} must be steps of one {step} apart, from the first of all series on",
            got=f"{text}, which is between two of them",
        )
    return numbers


def _place(name: str, numbers: Int64[np.ndarray, " row"], part: Rows, file: str) -> list[Series]:
    """Rows on the axis of time: the mean of those with the same date, gaps where there is none; nothing if there is no value."""
    start, length = int(numbers.min()), int(np.ptp(numbers)) + 1
    values = _means(numbers - start, part.values, length)
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        return []
    known = (
        np.stack([_means(numbers - start, column, length) for column in part.known.T], axis=1)
        if part.known.size
        else None
    )
    begin, end = int(present[0]), int(present[-1]) + 1
    if known is None:
        return [Series(name, start + begin, values[begin:end], np.zeros((end - begin, 0)))]
    known = known[begin:]
    if np.isnan(known).any():  # a gap in the dates is a gap in what was known: the row before holds on
        rows = np.maximum.accumulate(np.where(np.isnan(known).any(1), 0, np.arange(len(known))))
        known = known[rows]
    return [Series(name, start + begin, values[begin:end], known)]


def _means(
    numbers: Int64[np.ndarray, " row"], values: Float64[np.ndarray, " row"], length: int
) -> Float64[np.ndarray, " time"]:
    there = ~np.isnan(values)
    counts = np.bincount(numbers[there], minlength=length)
    sums = np.bincount(numbers[there], weights=values[there], minlength=length)
    return np.divide(sums, counts, out=np.full(length, np.nan), where=counts > 0)


def _order_notes(parts: Mapping[str, Rows], columns: Columns, repeated: int, rows: int, file: str) -> list[str]:
    notes = []
    if any(part.dates is not None and bool((np.diff(part.dates) < np.timedelta64(0)).any()) for part in parts.values()):
        notes.append(f"The rows of {file} are not in the order of their dates, and are put into it.")
    if repeated:
        hint = "" if columns.series else " (if they are different series, name their column with --series)"
        verb = "repeats" if repeated == 1 else "repeat"
        notes.append(f"{repeated:,} of {rows:,} rows {verb} a date; the mean of the same date is taken{hint}.")
    return notes


def _source(placed: Sequence[Series], step: Step, columns: Columns, file: str) -> str:
    if len(placed) == 1:
        return f"{step.of(len(placed[0].values))} of {columns.target} ({file})"
    total = sum(len(series.values) for series in placed)
    return f"{len(placed):,} series of {columns.target}, together {step.of(total)} ({file})"


def _existing(path: Path) -> Path:
    if path.is_dir() or not path.exists():
        beside = [inner.name for inner in path.parent.iterdir()] if path.parent.is_dir() else []
        got = f"the folder {path.as_posix()!r}" if path.is_dir() else repr(path.as_posix())
        raise InputError(
            "series are read from a table that exists",
            got=got,
            fix=None if path.is_dir() else did_you_mean(path.name, beside),
        )
    if not is_delimited(path):
        raise InputError(
            "series are read from a CSV or TSV, plain or gzip", got=path.name, fix="rename it if it is one of these"
        )
    return path
