"""Dates as people write them, each with its ISO form: "Sonntag, 15. November 2026" → "2026-11-15". Nothing is
downloaded.

Names and patterns are those of the Unicode locale data that Babel carries. Only patterns that nobody can misread are
used: the month is a name, or the year comes first; a year always has four digits. So a text alone tells its date, in
whatever language. The calendar is the Gregorian.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.pairs.dataset import Pairs
from neuropil.data.splits import PARTS, Splits
from neuropil.errors import InputError
from neuropil.extras import require_extra
from neuropil.randomness import mix, seeded

CODES_AND_NAMES = (
    "en English, de German, fr French, es Spanish, it Italian, pt Portuguese, nl Dutch, pl Polish, ru Russian, "
    "tr Turkish, fa Persian, ar Arabic, he Hebrew, hi Hindi, zh Chinese, ja Japanese, ko Korean"
)
LANGUAGES = {language[:2]: language[3:] for language in CODES_AND_NAMES.split(", ")}
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
NUM_DAYS = LAST_DAY.toordinal() - FIRST_DAY.toordinal() + 1

SKELETONS = ("yMMMd", "yMMMEd", "yMMMMd", "yMMMMEd", "yMMMMEEEEd")
"""The names under which the locale data keeps patterns beyond full, long, medium and short."""
MORE_PATTERNS = {"zh": ("y年MM月dd日",), "ja": ("y年MM月dd日",), "ko": ("y년 MM월 dd일",)}
DAY_FIRST = ("d MMMM y", "EEEE d MMMM y")
"""Written in every other language, though the locale data may prefer another order or more commas."""

APART = "No date occurs in more than one of training, validation and test, in whatever language."

LATIN, ARABIC, PERSIAN, DEVANAGARI = "0123456789", "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९"
DIGITS = {"fa": (PERSIAN,), "ar": (ARABIC, LATIN), "hi": (LATIN, DEVANAGARI)}


@dataclass(frozen=True)
class DateFormat:
    """One way to write a date in one language."""

    locale: str
    pattern: str
    """As Babel reads it: "EEEE, d. MMMM y"."""
    digits: str
    template: str
    """The pattern as Python fills it: "%(EEEE)s, %(d)s. %(MMMM)s %(y)s"."""
    names: Mapping[str, Mapping[int, str]]
    """Of months and weekdays, by the field of the pattern."""

    def write(self, day: date) -> str:
        text = self.template % {
            "y": day.year,
            "M": day.month,
            "MM": f"{day.month:02}",
            "d": day.day,
            "dd": f"{day.day:02}",
            "MMM": self.names["MMM"][day.month],
            "MMMM": self.names["MMMM"][day.month],
            "E": self.names["E"][day.weekday()],
            "EEE": self.names["E"][day.weekday()],
            "EEEE": self.names["EEEE"][day.weekday()],
        }
        return text if self.digits == LATIN else text.translate(str.maketrans(LATIN, self.digits))


class DrawnDate(NamedTuple):
    day: date
    language: str
    way: DateFormat

    @property
    def text(self) -> str:
        return self.way.write(self.day)


@cache
def date_formats() -> Mapping[str, Sequence[DateFormat]]:
    """All ways to write a date, by the name of the language."""
    require_extra("translation", "the embedded data set of dates")
    return {name: _formats_of(code) for code, name in LANGUAGES.items()}


def make_dates(
    num_train: int = 30_000, num_validation: int = 1_000, num_test: int = 2_000, seed: int = 0
) -> Splits[Pairs]:
    """Dates of 1900–2099, as many in each language; no two parts share a date."""
    source = f"{num_train + num_validation + num_test:,} dates in {len(LANGUAGES)} languages (Babel)"

    def as_pairs(part: list[DrawnDate]) -> Pairs:
        return Pairs([d.text for d in part], [d.day.isoformat() for d in part], [d.language for d in part], source)

    return draw_dates(num_train, num_validation, num_test, seed).map(as_pairs)


def draw_dates(num_train: int, num_validation: int, num_test: int, seed: int) -> Splits[list[DrawnDate]]:
    """Dates as in `make_dates`, with the way in which each is written."""
    if num_validation + num_test >= NUM_DAYS:
        rule = f"there are {NUM_DAYS:,} dates to hold out from"
        raise InputError(rule, got=f"{num_validation + num_test:,} to hold out")
    days = torch.randperm(NUM_DAYS, generator=seeded(seed, "dates"))
    test, validation, rest = days.split([num_test, num_validation, NUM_DAYS - num_test - num_validation])
    train = rest[torch.arange(num_train) % len(rest)]
    parts = zip(PARTS, (train, validation, test), strict=True)
    return Splits(*(_drawn(part, mix(seed, name)) for name, part in parts), notes=(APART,))


def _drawn(days: Int64[Tensor, " pair"], seed: int) -> list[DrawnDate]:
    formats = list(date_formats().items())
    languages = torch.randperm(len(days), generator=seeded(seed, "language")) % len(formats)
    ways = torch.randint(2**31, (len(days),), generator=seeded(seed, "format"))
    drawn = []
    for day_number, language, way in zip(days.tolist(), languages.tolist(), ways.tolist(), strict=True):
        name, choices = formats[language]
        drawn.append(DrawnDate(date.fromordinal(FIRST_DAY.toordinal() + day_number), name, choices[way % len(choices)]))
    return drawn


def _formats_of(code: str) -> Sequence[DateFormat]:
    from babel import Locale

    locale = Locale.parse(code)
    names = {
        "MMM": locale.months["format"]["abbreviated"],
        "MMMM": locale.months["format"]["wide"],
        "E": locale.days["format"]["abbreviated"],
        "EEEE": locale.days["format"]["wide"],
    }
    patterns = [pattern.pattern for pattern in locale.date_formats.values()]
    patterns += [locale.datetime_skeletons[name].pattern for name in SKELETONS if name in locale.datetime_skeletons]
    patterns += MORE_PATTERNS.get(code, DAY_FIRST)
    return [
        DateFormat(code, pattern, digits, template_of(pattern), names)
        for pattern in dict.fromkeys(patterns)
        if cannot_be_misread(pattern)
        for digits in DIGITS.get(code, (LATIN,))
    ]


def template_of(pattern: str) -> str:
    from babel.dates import parse_pattern

    return str(parse_pattern(pattern).format)


def cannot_be_misread(pattern: str) -> bool:
    fields = re.findall(r"%\((\w+)\)s", template_of(pattern))
    return "y" in fields and ("MMM" in fields or "MMMM" in fields or fields[0] == "y")
