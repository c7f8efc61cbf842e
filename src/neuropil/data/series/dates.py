"""Dates as people write them in tables: which column holds them, and in which order day, month and year stand."""

import re
from collections.abc import Sequence
from itertools import product

import numpy as np

from neuropil.data.formats.columns import Cells, is_missing, is_number
from neuropil.data.formats.delimited import Block
from neuropil.data.series.steps import Dates
from neuropil.errors import InputError

WORDS = "date|dates|datetime|time|timestamp|ds|day|week|month|quarter|year|years|period|datum|jahr"
NAMED_LIKE_DATES = re.compile(rf"(?<![a-z])({WORDS})(?![a-z])", re.IGNORECASE)
ISO = "ISO8601"
MONTH_FIRST, DAY_FIRST = "%m/%d/%Y", "%d/%m/%Y"
DAYS = ("%Y/%m/%d", MONTH_FIRST, DAY_FIRST, "%d.%m.%Y", "%d-%m-%Y")
DAYS += ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
FORMATS = (ISO, *(day + time for time, day in product(TIMES, DAYS)), "%b %Y", "%B %Y", "%m/%Y", "%Y/%m")
QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])", re.IGNORECASE)
YEAR = re.compile(r"[12]\d{3}")


def recognise_dates(block: Block) -> str | None:
    """The name of the column of dates, judged by some rows: one that is called so, or the first with only dates."""
    candidates = [name for name, cells in block.items() if _are_dates(name, cells)]
    return next((name for name in candidates if _called_date(name)), candidates[0] if candidates else None)


def read_dates(cells: Cells) -> tuple[Dates, str | None]:
    """The dates of a column, and a sentence on how they were read where this could be doubted."""
    texts = [_normal(text) for text in cells.texts]
    formats = _fitting(texts)
    if not formats:
        raise _no_date(cells, texts)
    found = [_parse(texts, form) for form in formats]
    if len(found) == 1:
        return found[0], None
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
    """2020Q3 is its first month, 1,700.0 a year that a spreadsheet took for a number."""
    text = text.strip()
    quarter = QUARTER.fullmatch(text)
    if quarter:
        return f"{quarter[1]}-{3 * int(quarter[2]) - 2:02}"
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


def _are_dates(name: str, cells: Cells) -> bool:
    texts = [_normal(text) for text in cells.texts]
    if all(map(is_number, texts)) and not (_called_date(name) and all(map(YEAR.match, texts))):
        return False
    return bool(_fitting(texts))


def _called_date(name: str) -> bool:
    return NAMED_LIKE_DATES.search(name) is not None
