"""Series of values on one axis of time: what the readers hand out, whatever they read.

Time is a whole number of steps since the first date of all series. A step without a value is a gap: it stays a gap
(NaN), and whoever cuts windows fills it from what was known at the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int64

from neuropil.data.series.calendar import calendar
from neuropil.data.series.clocks import Dates, wall_time
from neuropil.data.series.steps import TimeStep
from neuropil.errors import counted


@dataclass(frozen=True)
class Series:
    """`values` begin at the step `start`, and begin and end with a value; `known` has a row for each, and may go on."""

    name: str
    start: int
    values: Float64[np.ndarray, " time"]
    known: Float64[np.ndarray, "known_time feature"]

    @property
    def end(self) -> int:
        """The step after the last value: the first that a forecast is for."""
        return self.start + len(self.values)


@dataclass(frozen=True)
class SeriesUnits:
    """In which a series is learned and scored: (y − level) / scale. An error in them is an absolute scaled error."""

    level: float = 0.0
    scale: float = 1.0

    def standardised(self, values: Float64[np.ndarray, " time"]) -> Float64[np.ndarray, " time"]:
        return (values - self.level) / self.scale


@dataclass(frozen=True)
class SeriesTable:
    unit: ClassVar = "values"
    series: tuple[Series, ...]
    step: TimeStep
    first: np.datetime64 | None
    """The date of step 0, where there are dates, as those of the step's clock are kept."""
    target: str
    known: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        return max(series.end for series in self.series)

    @property
    def keys(self) -> list[str]:
        return self.keys_before(self.end)

    def keys_before(self, end: int) -> list[str]:
        """Of every value before a step: its series, its date or row, and itself."""
        found = list[str]()
        for series in self.series:
            steps = series.start + np.flatnonzero(~np.isnan(series.values[: max(end - series.start, 0)]))
            dates, values = self.dates(steps), series.values[steps - series.start]
            rows = zip((steps if dates is None else dates).tolist(), values.tolist(), strict=True)
            found += [f"{series.name}\t{date}\t{value}" for date, value in rows]
        return found

    @property
    def num_features(self) -> int:
        return len(self.known) + calendar(self.step, None).shape[1]

    def dates(self, steps: Int64[np.ndarray, " step"]) -> Dates | None:
        """As the clock shows them."""
        return None if self.first is None else wall_time(self.step.dates(steps, self.first), self.step.clock)

    def label(self, step: int) -> str:
        """The date of a step, or its row."""
        return str(step + 1) if self.first is None else self.step.text(self.step.dates(np.array([step]), self.first)[0])

    def features(self, series: Series, steps: int) -> Float64[np.ndarray, "time feature"]:
        """What is known in advance of the first `steps` steps of a series: covariates, then the calendar."""
        dates = self.dates(series.start + np.arange(steps))
        features = calendar(self.step, dates if dates is not None else np.zeros(steps, "M8[s]"))
        return np.concatenate([series.known[:steps], features], axis=1)

    def with_notes(self, notes: Sequence[str]) -> "SeriesTable":
        return replace(self, notes=(*self.notes, *notes))


def series_name(series: Series) -> str:
    return f"the series {series.name!r}" if series.name else "the series"


def step_names(series: Sequence[str], dates: Sequence[Sequence[str]]) -> list[str]:
    """One for each step of each series: its date, after the series' name if it has one."""
    return [f"{name} {date}" if name else date for name, each in zip(series, dates, strict=True) for date in each]


def gap_lengths(values: Float64[np.ndarray, " time"]) -> Int64[np.ndarray, " time"]:
    """For each step without a value, how long the gap is that it lies in; 0 where there is one."""
    missing = np.isnan(values)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]])))
    lengths = np.zeros(len(values), np.int64)
    for begin, end in edges.reshape(-1, 2):
        lengths[begin:end] = end - begin
    return lengths


def gap_notes(table: SeriesTable, longest: int) -> list[str]:
    """Sentences on the gaps and what is done about them."""
    lengths = [gap_lengths(series.values) for series in table.series]
    missing, total = sum(int((each > 0).sum()) for each in lengths), sum(map(len, lengths))
    if not missing:
        return []
    # the first step of each gap
    runs = np.concatenate([each[(each > 0) & (np.roll(each, 1) == 0)] for each in lengths])
    step = table.step
    where = f"in {counted(len(runs), 'gap')} of up to {step.of(int(runs.max()))}"
    filled = f"gaps of up to {step.of(longest)} are filled by interpolation to be read, and are never learned or scored"
    notes = [f"{missing:,} of {step.of(total)} have no value, {where}; {filled}."]
    too_long = int((runs > longest).sum())
    if too_long:
        which = f"{counted(too_long, 'gap')} of more than {step.of(longest)}"
        notes.append(f"{which}: no window of history reaches into {'it' if too_long == 1 else 'them'}.")
    return notes


def mean_of_each(
    steps: Int64[np.ndarray, " row"], values: Float64[np.ndarray, " row"], length: int
) -> Float64[np.ndarray, " time"]:
    """The mean of the values at each of `length` steps, NaN where there is none."""
    valid = ~np.isnan(values)
    counts = np.bincount(steps[valid], minlength=length)
    sums = np.bincount(steps[valid], weights=values[valid], minlength=length)
    return np.divide(sums, counts, out=np.full(length, np.nan), where=counts > 0)
