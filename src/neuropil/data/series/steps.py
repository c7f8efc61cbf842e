"""The step of a series: how far its dates are apart, found from the dates themselves.

Dates become whole numbers of steps, so that everything after the reading is arithmetic, and numbers become dates again
where people read them. Months have no fixed length, and neither have the days on which offices work: they are counted,
not measured.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int64

from neuropil.config import Config
from neuropil.data.series.clocks import Dates, date_text
from neuropil.errors import InputError, counted

MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 604_800
NAMES = {1: "second", MINUTE: "minute", HOUR: "hour", DAY: "day", WEEK: "week"}
NAMES_OF_MONTHS = {1: "month", 3: "quarter", 12: "year"}
SEASONS = {"business day": 5, "week": 52, "month": 12, "quarter": 4}
FEWEST_PRESENT = 0.5
"""Share of the steps that must have a row; dates with fewer are not a series with gaps but have no step."""


class TimeStep(Config):
    """`count` units; a row is a step of a series that has no dates."""

    unit: Literal["row", "second", "business day", "month"] = "row"
    count: int = 1
    month_end: bool = False
    """Whether months are counted from their last day."""
    clock: str = ""
    """Of steps shorter than a day whose dates have an offset from UTC, the one that tells them."""

    def __str__(self) -> str:
        if self.unit == "second":
            size = next(size for size in reversed(NAMES) if self.count % size == 0)
            return several(self.count // size, NAMES[size])
        if self.unit == "month":
            size = next(size for size in reversed(NAMES_OF_MONTHS) if self.count % size == 0)
            return several(self.count // size, NAMES_OF_MONTHS[size])
        return self.unit

    def of(self, number: int) -> str:
        """So many steps, for a sentence: "3 months", "2 steps of 15 minutes"."""
        name = str(self)
        if name[0].isalpha():
            return counted(number, name)
        return f"{counted(number, 'step')} of {name}"

    @property
    def season(self) -> int | None:
        """Steps in a cycle of the calendar: the day of shorter steps, the week of days, the year of longer ones."""
        if self.unit == "second" and self.count < DAY:
            return DAY // self.count if DAY % self.count == 0 and DAY // self.count > 1 else None
        return 7 if (self.unit, self.count) == ("second", DAY) else SEASONS.get(str(self))

    def numbers(self, dates: Dates, first: np.datetime64) -> Int64[np.ndarray, " date"]:
        """How many steps each date is after `first`."""
        if self.unit == "month":
            return (months_of(dates) - months_of(np.asarray(first))) // self.count
        if self.unit == "business day":
            return np.busday_count(first.astype("M8[D]"), dates.astype("M8[D]")).astype(np.int64)
        return (dates - first).astype(np.int64) // self.count

    def dates(self, numbers: Int64[np.ndarray, " date"], first: np.datetime64) -> Dates:
        """The other way round."""
        if self.unit == "month":
            month = first.astype("M8[M]") + numbers * self.count + int(self.month_end)
            if self.month_end:
                return (month.astype("M8[D]") - 1).astype("M8[s]")
            return month.astype("M8[s]") + (first - first.astype("M8[M]").astype("M8[s]"))
        if self.unit == "business day":
            return np.busday_offset(first.astype("M8[D]"), numbers).astype("M8[s]")
        return first + numbers * np.timedelta64(self.count, "s")

    def text(self, date: np.datetime64) -> str:
        """A date as exactly as this step needs it."""
        if self.unit == "month" and (self.count % 12 == 0 or not self.month_end):
            if self.count % 12 == 0 and str(date)[5:10] in ("01-01", "12-31"):
                return str(date.astype("M8[Y]"))
            return str(date.astype("M8[M]" if str(date)[8:10] == "01" else "M8[D]"))
        exact = "D" if self.unit != "second" or self.count % DAY == 0 else "m" if self.count % MINUTE == 0 else "s"
        return date_text(date, self.clock, exact)


def find_step(series: Sequence[Dates], where: str) -> TimeStep:
    """From the dates of each series, which rise. `where` is for errors: "column 'date' of sales.csv"."""
    dates = np.concatenate([each.astype("M8[s]") for each in series])
    apart = np.concatenate([np.diff(each.astype("M8[s]").astype(np.int64)) for each in series])
    if not len(apart):
        raise InputError(f"{where} must hold at least two different dates of a series", got="one")
    commonest = most_common(apart)
    month = _monthly(dates, series, commonest)
    step = month or TimeStep(unit="second", count=commonest)
    if month is None:
        if (apart % commonest).any():
            raise _irregular(where, apart)
        if commonest == DAY and apart.max() >= 3 * DAY and not is_weekend(dates).any():
            step = TimeStep(unit="business day")
    for each in series:
        numbers = step.numbers(each.astype("M8[s]"), each[0].astype("M8[s]"))
        if len(each) > 2 and len(each) < FEWEST_PRESENT * (numbers[-1] + 1):
            raise _irregular(where, apart)
    return step


def _monthly(dates: Dates, series: Sequence[Dates], commonest: int) -> TimeStep | None:
    """A step of whole months: every date on the same day of its month at the same time, or on its last."""
    if commonest < 28 * DAY:
        return None
    same_time = len(np.unique(dates - dates.astype("M8[D]"))) == 1
    same_day = len(np.unique(dates.astype("M8[D]") - dates.astype("M8[M]").astype("M8[D]"))) == 1
    last_day = bool(((dates.astype("M8[D]") + 1).astype("M8[M]") > dates.astype("M8[M]")).all())
    if not same_time or not (same_day or last_day):
        return None
    apart = np.concatenate([np.diff(months_of(each)) for each in series])
    count = most_common(apart)
    # Weeks fall on the same day of a month by chance only, and then are not whole months apart.
    return None if (apart % count).any() else TimeStep(unit="month", count=count, month_end=last_day and not same_day)


def _irregular(where: str, apart: Int64[np.ndarray, " step"]) -> InputError:
    rule = f"the dates in {where} must be a regular step apart, gaps aside"
    fix = "make one row for each hour, day, week or month, or name the column that tells series apart with --series"
    if set(np.unique(apart % DAY).tolist()) in ({0, HOUR}, {0, DAY - HOUR}, {0, HOUR, DAY - HOUR}):
        fix = "write the local dates without times, as clocks change by an hour"
    return InputError(rule, got=f"steps from {duration(int(apart.min()))} to {duration(int(apart.max()))}", fix=fix)


def most_common(values: Int64[np.ndarray, " value"]) -> int:
    """The smallest of those that occur most often."""
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()])


def months_of(dates: Dates) -> Int64[np.ndarray, "..."]:
    return dates.astype("M8[M]").astype(np.int64)


def is_weekend(dates: Dates) -> Bool[np.ndarray, " date"]:
    return (dates.astype("M8[D]").astype(np.int64) + 3) % 7 >= 5  # 1970-01-01 was a Thursday


def duration(seconds: int) -> str:
    size = next(size for size in reversed(NAMES) if seconds % size == 0)
    return counted(seconds // size, NAMES[size])


def several(number: int, name: str) -> str:
    return name if number == 1 else counted(number, name)
