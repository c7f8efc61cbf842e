from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta

import pytest
from babel import Locale
from babel.dates import format_date

from data.written_files import refusal
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.pairs.embedded import (
    DIGITS,
    LANGUAGES,
    LATIN,
    NUM_DAYS,
    DateFormat,
    cannot_be_misread,
    date_formats,
    make_dates,
)

FORMATS = [way for ways in date_formats().values() for way in ways]


def days_of(*years: int) -> Iterator[date]:
    for year in years:
        first = date(year, 1, 1)
        yield from (first + timedelta(days=number) for number in range((date(year + 1, 1, 1) - first).days))


def dates_of(pairs: Pairs) -> set[str]:
    return set(pairs.targets)


@pytest.mark.parametrize("way", FORMATS, ids=lambda way: f"{way.locale} {way.pattern} {way.digits[1]}")
def test_dates_are_written_as_babel_writes_them(way: DateFormat):
    for day in days_of(1900, 2024):
        expected = format_date(day, way.pattern, locale=way.locale).translate(str.maketrans(LATIN, way.digits))
        assert way.write(day) == expected


def test_no_text_is_two_dates_in_whatever_languages():
    meaning: dict[str, date] = {}
    for day in days_of(1912, 2011):
        for way in FORMATS:
            assert meaning.setdefault(way.write(day), day) == day


def test_no_text_of_the_default_set_is_two_dates():
    splits = make_dates()
    meaning: dict[str, str] = {}
    for part in (splits.train, splits.validation, splits.test):
        for text, iso in zip(part.sources, part.targets, strict=True):
            assert meaning.setdefault(text, iso) == iso


def test_the_year_is_told_apart_from_the_day_by_its_four_digits():
    for way in FORMATS:
        text = way.write(date(2012, 11, 10)).translate(str.maketrans(way.digits, LATIN))
        assert "2012" in text
        assert "10" in text.replace("2012", "")


@pytest.mark.parametrize("pattern", ["M/d/yy", "dd.MM.y", "d MMM yy", "dd/MM/y", "EEEE d M", "MMMM d"])
def test_patterns_that_could_be_misread_are_left_out(pattern: str):
    assert not cannot_be_misread(pattern)
    assert pattern not in {way.pattern for way in FORMATS}


@pytest.mark.parametrize("pattern", ["y/M/d", "d MMM y", "EEEE, d. MMMM y", "y年M月d日"])
def test_patterns_with_the_year_first_or_the_name_of_the_month_are_taken(pattern: str):
    assert cannot_be_misread(pattern)


def test_languages_have_the_names_that_babel_gives_them_and_several_formats():
    assert {code: Locale.parse(code).english_name for code in LANGUAGES} == LANGUAGES
    assert len(LANGUAGES) == 17
    assert min(len(ways) for ways in date_formats().values()) >= 4


def test_native_digits_are_the_ten_digits_of_one_script():
    for code, systems in DIGITS.items():
        assert all([int(digit) for digit in digits] == list(range(10)) for digits in systems)
        assert (LATIN in systems) == (Locale.parse(code).default_numbering_system == "latn")


def test_examples():
    day = date(2026, 11, 15)
    written = {name: [way.write(day) for way in ways] for name, ways in date_formats().items()}
    assert "Sunday, November 15, 2026" in written["English"]
    assert "Sonntag, 15. November 2026" in written["German"]
    assert "15 de noviembre de 2026" in written["Spanish"]
    assert "یکشنبه ۱۵ نوامبر ۲۰۲۶" in written["Persian"]
    assert "١٥ نوفمبر ٢٠٢٦" in written["Arabic"]
    assert "יום ראשון, 15 בנובמבר 2026" in written["Hebrew"]
    assert {"15 नवंबर 2026", "१५ नवंबर २०२६"} <= set(written["Hindi"])
    assert "2026年11月15日星期日" in written["Chinese"]


def test_the_parts_have_different_dates_and_all_languages_equally():
    splits = make_dates(3_000, 300, 500, seed=3)
    train, validation, test = splits.train, splits.validation, splits.test
    assert (len(train), len(validation), len(test)) == (3_000, 300, 500)
    assert not dates_of(train) & dates_of(test)
    assert not dates_of(train) & dates_of(validation)
    assert not dates_of(validation) & dates_of(test)
    counts = Counter(test.groups)
    assert set(counts) == set(LANGUAGES.values())
    assert max(counts.values()) - min(counts.values()) <= 1
    assert train.source == "3,800 dates in 17 languages (Babel)"
    assert splits.notes == ("No date occurs in more than one of training, validation and test, in whatever language.",)


def test_each_text_is_its_date_in_its_language():
    pairs = make_dates(500, 0, 0).train
    for text, iso, language in zip(pairs.sources, pairs.targets, pairs.groups, strict=True):
        assert text in [way.write(date.fromisoformat(iso)) for way in date_formats()[language]]


def test_dates_span_two_centuries():
    years = sorted(target[:4] for target in make_dates().train.targets)
    assert (years[0], years[-1]) == ("1900", "2099")
    assert set(years) == set(map(str, range(1900, 2100)))


def test_dates_are_drawn_by_the_seed():
    first, again, other = (make_dates(100, 10, 10, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_test_part_does_not_depend_on_the_sizes_of_the_others():
    assert make_dates(10, 20, 30).test.targets == make_dates(100, 0, 30).test.targets


def test_training_may_have_more_pairs_than_there_are_dates():
    splits = make_dates(NUM_DAYS, 1, 10)
    assert len(splits.train) == NUM_DAYS
    assert not dates_of(splits.train) & (dates_of(splits.test) | dates_of(splits.validation))


def test_not_all_dates_can_be_held_out():
    assert (
        refusal(make_dates, 10, NUM_DAYS - 5, 5)
        == "there are 73,049 dates to hold out from, but got 73,049 to hold out."
    )
