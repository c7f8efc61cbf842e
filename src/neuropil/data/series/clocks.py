"""The clock that dates are told by, where they are written with an offset from UTC: 2024-01-01 00:00+02:00.

A clock is "" where dates do not say, a constant offset such as +02:00, or a time zone such as Europe/Berlin, whose
offset changes. Where clocks change, hours are equally far apart in UTC alone, and so dates of a time zone are kept in
UTC; all others are kept as the clock shows them.
"""

import re
from typing import TypeAlias
from zoneinfo import available_timezones

import numpy as np
from jaxtyping import Int64, Shaped

from neuropil.extras import require_extra

Dates: TypeAlias = Shaped[np.ndarray, "..."]
"""numpy datetime64[s], without a time zone: their clock is known apart from them."""

UTC = "+00:00"
WRITTEN_OFFSET = re.compile(r"(?<=[T ])(\d[\d:.,]*) ?(Z|[+-]\d{2}(:?\d{2})?)$")


def without_offset(text: str) -> str:
    """A date as the clock showed it; the same text where it has no offset."""
    return WRITTEN_OFFSET.sub(r"\1", text)


def find_clock(instants: Dates, offsets: Int64[np.ndarray, " date"]) -> str:
    """From dates in UTC and their offsets in seconds: the one offset, the first time zone whose offsets these are or,
    where there is none, UTC."""
    require_extra("forecasting", "a series with the clock of a time zone")
    from babel.core import get_global

    if len(found := np.unique(offsets)) == 1:
        return offset_text(int(found[0]))
    order = np.argsort(instants)
    instants, offsets = instants[order], offsets[order]
    changes = np.flatnonzero(np.diff(offsets))
    telling = np.unique(np.concatenate([[0, len(offsets) - 1], changes, changes + 1]))
    instants, offsets = instants[telling], offsets[telling]
    # One zone for each set of rules, from west to east, the commonest first
    zones = [zone for zone in get_global("windows_zone_mapping").values() if zone in available_timezones()]
    return next((zone for zone in zones if (offsets_at(instants, zone) == offsets).all()), UTC)


def is_zone(clock: str) -> bool:
    return clock[:1].isalpha()


def on_clock(instants: Dates, clock: str) -> Dates:
    """Dates in UTC as those of this clock are kept."""
    return instants if is_zone(clock) else instants + offsets_at(instants, clock)


def wall_time(dates: Dates, clock: str) -> Dates:
    """Dates as they are kept, as the clock shows them."""
    return dates + offsets_at(dates, clock) if is_zone(clock) else dates


def offsets_at(dates: Dates, clock: str) -> Int64[np.ndarray, " date"]:
    """In seconds from UTC."""
    if not is_zone(clock):
        hours, minutes = map(int, clock[1:].split(":"))
        return np.full(len(dates), (60 * hours + minutes) * (-60 if clock[0] == "-" else 60))
    import pandas as pd

    local = pd.DatetimeIndex(dates, tz="UTC").tz_convert(clock).tz_localize(None)
    return (local.to_numpy().astype("M8[s]") - dates).astype(np.int64)


def date_text(date: np.datetime64, clock: str, unit: str) -> str:
    """2024-01-01, 2024-01-01 00:00 or 2024-01-01 00:00+02:00."""
    dates = np.array([date])
    text = str(wall_time(dates, clock)[0].astype(f"M8[{unit}]")).replace("T", " ")
    return text + offset_text(int(offsets_at(dates, clock)[0])) if clock and unit != "D" else text


def offset_text(seconds: int) -> str:
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}"
