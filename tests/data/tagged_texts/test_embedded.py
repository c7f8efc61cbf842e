from datetime import date

import pytest

from neuropil.data.pairs.embedded import LATIN, DateFormat, DrawnDate, date_formats, make_dates
from neuropil.data.tagged_texts.embedded import make_date_fields, tag_letters

FORMATS = [(language, way) for language, ways in date_formats().items() for way in ways]
DAYS = [date(1912, 2, 29), date(2026, 11, 15), date(2009, 9, 1), date(1999, 12, 31)]


def fields(tagged: list[tuple[str, str]]) -> dict[str, str]:
    """The letters of each field together."""
    found: dict[str, str] = {}
    for letter, tag in tagged:
        found[tag] = found.get(tag, "") + letter
    return found


@pytest.mark.parametrize(
    ("language", "way"),
    FORMATS,
    ids=lambda value: value if isinstance(value, str) else f"{value.pattern} {value.digits[1]}",
)
def test_the_fields_of_a_date_are_its_numbers_and_names(language: str, way: DateFormat):
    for day in DAYS:
        tagged = tag_letters(DrawnDate(day, language, way))
        assert "".join(letter for letter, _ in tagged) == way.write(day)
        found = fields(tagged)
        plain = {tag: letters.translate(str.maketrans(way.digits, LATIN)) for tag, letters in found.items()}
        assert plain["year"] == str(day.year)
        assert int(plain["day"]) == day.day
        names = [way.names[width][day.month] for width in ("MMM", "MMMM")]
        assert plain["month"] in names or int(plain["month"]) == day.month
        if "weekday" in found:
            assert found["weekday"] in [way.names[width][day.weekday()] for width in ("E", "EEEE")]


def test_an_example():
    way = next(way for way in date_formats()["German"] if way.pattern == "EEEE, d. MMMM y")
    letters = {"weekday": "w", "day": "d", "month": "m", "year": "y", "other": "·"}
    tagged = tag_letters(DrawnDate(date(2026, 11, 15), "German", way))
    assert "".join(letter for letter, _ in tagged) == "Sonntag, 15. November 2026"
    assert "".join(letters[tag] for _, tag in tagged) == "wwwwwww··dd··mmmmmmmm·yyyy"


def test_no_text_has_two_readings():
    meaning: dict[str, list[tuple[str, str]]] = {}
    for language, way in FORMATS:
        for month in range(1, 13):
            for number in (1, 9, 10, 11, 12, 21):
                tagged = tag_letters(DrawnDate(date(2011, month, number), language, way))
                assert meaning.setdefault("".join(letter for letter, _ in tagged), tagged) == tagged


def test_dates_are_those_that_are_translated_and_no_two_parts_share_one():
    splits, pairs = make_date_fields(300, 30, 40, seed=3), make_dates(300, 30, 40, seed=3)
    for part in ("train", "validation", "test"):
        ours, theirs = getattr(splits, part), getattr(pairs, part)
        assert ["".join(text) for text in ours.tokens] == theirs.sources
        assert ours.groups == theirs.groups
    assert splits.notes == pairs.notes
    assert splits.train.source == "370 dates in 17 languages (Babel)"
