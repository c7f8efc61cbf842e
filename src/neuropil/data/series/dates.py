"""Dates as people write them in tables: which column holds them, and in which order day, month and year stand."""

import re
from collections.abc import Sequence
from itertools import product

import numpy as np

from neuropil.data.formats.columns import Cells, is_missing, is_number
from neuropil.data.formats.delimited import Block
from neuropil.data.series.steps import Dates
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
OFFSET = re.compile(r"[+-]\d{2}:?\d{2}$")


def recognise_dates(block: Block) -> str | None:
    """The name of the column of dates, judged by some rows: one with only dates, or with mostly dates, which is then
    refused for the others; of several, the first that is called a date."""
    shares = {name: _share_of_dates(name, cells) for name, cells in block.items()}
    found = {name: share for name, share in shares.items() if share > LEAST_DATES or (_called_date(name) and share)}
    return max(found, key=lambda name: (found[name] == 1, _called_date(name), found[name]), default=None)


def read_dates(cells: Cells) -> tuple[Dates, str | None]:
    """The dates of a column, and a sentence on how they were read where this could be doubted."""
    texts = [_normal(text) for text in cells.texts]
    formats = _fitting(texts)
    if not formats:
        raise _no_date(cells, texts)
    if (fraction := next((place for place, text in enumerate(texts) if FRACTION.search(text)), None)) is not None:
        rule, fix = f"{cells.where(fraction)} must hold a date in whole seconds", "take the means of whole seconds"
        raise InputError(rule, got=repr(cells.texts[fraction]), fix=f"{fix}, or leave out the column of dates")
    found = [_parse(texts, form) for form in formats]
    if len(found) == 1:
        return _local_days(texts, formats[0], found[0])
    # Month or day first: dates rise in most tables, if they are read as they were meant.
    rising = [dates for dates in found if bool((np.diff(dates) >= np.timedelta64(0)).all())]
    if len(rising) == 1:
        return rising[0], None
    doubt = f"Dates such as {cells.texts[0]} are read with the month first"
    return found[0], f"{doubt}; write 2020-12-31 if the day comes first."


def date_formats(texts: Sequence[str]) -> list[str]:
    """The formats that fit all texts: none, one, or two that swap day and month."""
    return _fitting([_normal(text) for text in texts])


def parse_dates(texts: Sequence[str], form: str) -> Dates:
    """Not a time (NaT) where a text does not fit the format."""
    return _parse([_normal(text) for text in texts], form)


def _local_days(texts: Sequence[str], form: str, dates: Dates) -> tuple[Dates, str | None]:
    """Midnights of one place are 23 or 25 hours apart when its clocks change: they are read as its days, not as times
    of Greenwich."""
    offsets = {found[0] if found else "" for found in map(OFFSET.search, texts)}
    if form != ISO or len(offsets) < 2:
        return dates, None
    local = _parse([OFFSET.sub("", text) for text in texts], form)
    if len(np.unique(local - local.astype("M8[D]"))) > 1:
        return dates, None
    return local, f"Dates are read as local time, as their offsets from Greenwich differ: {listed(sorted(offsets))}."


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
        return str(np.datetime64(int(unix[1]), "s"))
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
