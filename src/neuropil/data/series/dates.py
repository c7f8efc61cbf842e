"""Dates as people write them in tables: which column holds them, and in which order day, month and year stand."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from neuropil.data.formats.columns import Cells, is_missing, is_number
from neuropil.data.formats.delimited import Block
from neuropil.data.series.clocks import UTC, Dates, find_clock, is_zone, offset_text, on_clock, without_offset
from neuropil.errors import InputError, listed

LEAST_DATES = 0.5
"""Share of the cells above which a column is one of dates, though it may be called anything."""
MOST_JUDGED = 200
WORDS = "date|dates|datetime|time|timestamp|ds|day|week|month|quarter|year|years|period|datum|jahr"
NAMED_LIKE_DATES = re.compile(rf"(?<![a-z])({WORDS})(?![a-z])", re.IGNORECASE)
ISO = "ISO8601"
MONTH_FIRST, DAY_FIRST = "%m/%d/", "%d/%m/"
DAYS = ("%Y/%m/%d", f"{MONTH_FIRST}%Y", f"{DAY_FIRST}%Y", "%d.%m.%Y", "%d-%m-%Y")
DAYS += ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%Y", "%Y-%m-%d")
DAYS += (f"{MONTH_FIRST}%y", f"{DAY_FIRST}%y", "%d.%m.%y", "%d-%b-%y")
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = (ISO, *(day + time for time, day in product(TIMES, DAYS)), "%b %Y", "%B %Y", "%m/%Y", "%Y/%m")
QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])", re.IGNORECASE)
YEAR = re.compile(r"[12]\d{3}")
UNIX_TIME = re.compile(r"(1\d{9})(000)?(\.0+)?")
"""Seconds or milliseconds since 1970, from 2001 to 2033."""
FRACTION = re.compile(r":\d{2}[.,]\d*[1-9]")


def recognise_dates(block: Block) -> str | None:
    """The name of the column of dates, judged by some rows: one with only dates, or with mostly dates, which is then
    refused for the others; of several, the first that is called a date."""
    shares = {name: _share_of_dates(name, cells) for name, cells in block.items()}
    found = {name: share for name, share in shares.items() if share > LEAST_DATES or (_called_date(name) and share)}
    return max(found, key=lambda name: (found[name] == 1, _called_date(name), found[name]), default=None)


@dataclass(frozen=True)
class ReadDates:
    """The dates of a column as those of their clock are kept, and a sentence on how they were read where this could be
    doubted."""

    dates: Dates
    clock: str = ""
    note: str | None = None


def read_dates(cells: Cells, clock: str = "") -> ReadDates:
    """On the `clock` of the training data, where it had one."""
    texts = [_normal(text) for text in cells.texts]
    formats = _fitting(texts)
    if not formats:
        raise _no_date(cells, texts)
    if (fraction := next((place for place, text in enumerate(texts) if FRACTION.search(text)), None)) is not None:
        rule, fix = f"{cells.where(fraction)} must hold a date in whole seconds", "take the means of whole seconds"
        raise InputError(rule, got=repr(cells.texts[fraction]), fix=f"{fix}, or leave out the column of dates")
    dates, note = _in_order([_parse(texts, form) for form in formats], cells.texts[0])
    read = _on_clock(cells, texts, dates, clock)
    return replace(read, note=note) if note else read


def date_formats(texts: Sequence[str]) -> list[str]:
    """The formats that fit all texts: none, one, or two that swap day and month."""
    return _fitting([_normal(text) for text in texts])


def parse_dates(texts: Sequence[str], form: str) -> tuple[Dates, Dates]:
    """As their clocks show them, and in UTC; not a time (NaT) where a text does not fit the format."""
    normal = [_normal(text) for text in texts]
    return _parse([without_offset(text) for text in normal], form), _parse(normal, form)


def _in_order(found: Sequence[Dates], example: str) -> tuple[Dates, str | None]:
    """Month or day first: dates rise in most tables, if they are read as they were meant."""
    rising = [dates for dates in found if bool((np.diff(dates) >= np.timedelta64(0)).all())]
    if len(found) == 1 or len(rising) == 1:
        return (found if len(found) == 1 else rising)[0], None
    return found[0], f"Dates such as {example} are read with the month first; write 2020-12-31 if the day comes first."


def _on_clock(cells: Cells, texts: Sequence[str], instants: Dates, clock: str) -> ReadDates:
    """What is written with offsets from UTC. Midnights of one place are 23 or 25 hours apart when its clocks change:
    they are read as its days."""
    shown = [without_offset(text) for text in texts]
    bare = [place for place, (text, each) in enumerate(zip(texts, shown, strict=True)) if text == each]
    if len(bare) == len(texts) and not is_zone(clock):
        return ReadDates(instants, clock)
    if bare:
        others = "as other rows do" if len(bare) < len(texts) else f"as the training data did, of {clock}"
        rule = f"{cells.where(bare[0])} must hold a date with its offset from UTC, {others}"
        raise InputError(rule, got=repr(cells.texts[bare[0]]), fix="write dates such as 2020-12-31 18:00+01:00")
    if clock:
        return ReadDates(on_clock(instants, clock), clock)
    local = _parse(shown, ISO)
    offsets = (local - instants).astype(np.int64)
    differ = listed([offset_text(offset) for offset in np.unique(offsets).tolist()])
    several = bool((offsets != offsets[0]).any())
    if len(np.unique(local - local.astype("M8[D]"))) == 1:
        note = f"Dates are read as local days, as their offsets from UTC differ: {differ}."
        return ReadDates(local, note=note if several else None)
    clock = find_clock(instants, offsets)
    place = f"as local time of {clock}, which has" if is_zone(clock) else "in UTC, as no time zone has"
    note = f"Dates are read {place} their offsets from UTC: {differ}."
    return ReadDates(on_clock(instants, clock), clock, note if several else None)


def _fitting(texts: Sequence[str]) -> list[str]:
    """The formats that fit all texts: one, or two that swap day and month."""
    sample = list(dict.fromkeys(texts))[:200]
    for form in FORMATS:
        if not np.isnat(_parse(sample, form)).any() and not np.isnat(_parse(texts, form)).any():
            swapped = form.replace(MONTH_FIRST, DAY_FIRST)
            return [form, swapped] if swapped != form and not np.isnat(_parse(texts, swapped)).any() else [form]
    return []


def _parse(texts: Sequence[str], form: str) -> Dates:
    """Not a time (NaT) where a text does not fit."""
    import pandas as pd

    found = pd.to_datetime(pd.Series(list(texts), dtype=object), format=form, errors="coerce", utc=True)
    return found.dt.tz_localize(None).to_numpy().astype("M8[s]")


def _normal(text: str) -> str:
    """2020Q3 is its first month, 1,700.0 a year that a spreadsheet took for a number, 1577836800 a Unix time."""
    text = text.strip()
    if quarter := QUARTER.fullmatch(text):
        return f"{quarter[1]}-{3 * int(quarter[2]) - 2:02}"
    if unix := UNIX_TIME.fullmatch(text):
        return f"{np.datetime64(int(unix[1]), 's')}{UTC}"
    return text.removesuffix(".0") if YEAR.fullmatch(text.removesuffix(".0")) else text


def _no_date(cells: Cells, texts: Sequence[str]) -> InputError:
    """The cell that spoils the format which fits most of the others."""
    sample = texts[:1_000]
    missing = min((np.isnat(_parse(sample, form)) for form in FORMATS), key=np.sum)
    bad = int(missing.argmax()) if missing.any() else int(np.isnat(_parse(texts, ISO)).argmax())
    rule, text = f"{cells.where(bad)} must hold a date", cells.texts[bad]
    if is_missing(text):
        return InputError(rule, got="an empty cell", fix="fill it in or remove the row")
    return InputError(rule, got=repr(text), fix="write dates such as 2020-12-31 or 2020-12-31 18:00")


def _share_of_dates(name: str, cells: Cells) -> float:
    """Of the cells those that the best format reads; of numbers none, unless they are called dates and look like it."""
    called, numbers = _called_date(name), [text for text in cells.texts if is_number(text)]
    if len(numbers) > LEAST_DATES * len(cells.texts) and not (called and all(map(YEAR.match, numbers))):
        return 0.0
    texts = [_normal(text) for text in cells.texts]
    if _fitting(texts):
        return 1.0
    sample = texts[:MOST_JUDGED]
    share = max(float((~np.isnat(_parse(sample, form))).mean()) for form in FORMATS)
    # What is called a date and has digits in it is one, in a format that nobody here knows
    digits = called and sum(any(map(str.isdigit, text)) for text in sample) > LEAST_DATES * len(sample)
    return min(max(share, 0.01 * digits), 0.99)


def _called_date(name: str) -> bool:
    return NAMED_LIKE_DATES.search(name) is not None
