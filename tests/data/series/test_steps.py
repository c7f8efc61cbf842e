import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.series.steps import TimeStep, find_step
from neuropil.errors import InputError

# Names as pandas has them, and what they are here.
RANGES = {
    "15min": ("15 minutes", 96),
    "h": ("hour", 24),
    "2h": ("2 hours", 12),
    "D": ("day", 7),
    "B": ("business day", 5),
    "W-SUN": ("week", 52),
    "MS": ("month", 12),
    "ME": ("month", 12),
    "QS": ("quarter", 4),
    "QE": ("quarter", 4),
    "YS": ("year", None),
    "YE": ("year", None),
}


def dates_of(frequency: str, count: int = 40, start: str = "2019-03-01") -> np.ndarray:
    return pd.date_range(start, periods=count, freq=frequency).to_numpy().astype("M8[s]")


@pytest.mark.parametrize(("frequency", "name", "season"), [(key, *value) for key, value in RANGES.items()])
def test_the_step_of_every_frequency_of_pandas_is_found(frequency: str, name: str, season: int | None):
    step = find_step([dates_of(frequency)], "column 'date' of x.csv")
    assert str(step) == name
    assert step.season == season


@pytest.mark.parametrize("frequency", RANGES)
def test_numbers_and_dates_are_two_names_of_the_same_steps(frequency: str):
    dates = dates_of(frequency)
    step = find_step([dates], "")
    assert step.numbers(dates, dates[0]).tolist() == list(range(40))
    assert (step.dates(np.arange(40), dates[0]) == dates).all()


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(list(RANGES)), st.sets(st.integers(1, 38), max_size=12), st.integers(0, 2000))
def test_gaps_do_not_change_the_step(frequency: str, missing: set[int], days: int):
    dates = dates_of(frequency, start=str(np.datetime64("2015-01-01") + days))
    kept = np.array([date for index, date in enumerate(dates) if index not in missing])
    step = find_step([kept], "")
    assert (step.dates(step.numbers(kept, kept[0]), kept[0]) == kept).all()
    assert str(step) == RANGES[frequency][0]


def test_days_with_a_weekend_are_days():
    assert str(find_step([dates_of("D", 5, "2024-01-01")], "")) == "day"
    assert str(find_step([np.array(["2024-01-01", "2024-01-02", "2024-01-05"], "M8[s]")], "")) == "business day"


def test_series_that_begin_on_other_dates_share_a_step():
    assert str(find_step([dates_of("MS", 12), dates_of("MS", 3, "2022-05-01")], "")) == "month"


@pytest.mark.parametrize(
    ("dates", "got"),
    [
        (["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-03 12:00"], "steps from 12 hours to 1 day"),
        (["2024-01-01", "2024-01-02", "2024-03-05", "2024-03-29"], "steps from 1 day to 9 weeks"),
        (["2024-01-01", "2024-01-31", "2024-03-05", "2024-03-29"], "steps from 24 days to 34 days"),
    ],
)
def test_irregular_dates_are_refused_with_their_range(dates: list[str], got: str):
    with pytest.raises(InputError) as error:
        find_step([np.array(dates, "M8[s]")], "column 'day' of shop.csv")
    assert str(error.value) == (
        "the dates in column 'day' of shop.csv must be a regular step apart, gaps aside, "
        f"but got {got}: make one row for each hour, day, "
        "week or month, or name the column that tells series apart with --series."
    )


def test_midnights_in_times_of_another_place_are_refused_with_the_reason():
    midnights = ["2021-03-26 23:00", "2021-03-27 23:00", "2021-03-28 22:00", "2021-03-29 22:00"]
    with pytest.raises(InputError) as error:
        find_step([np.array(midnights, "M8[s]")], "column 'day' of shop.csv")
    assert str(error.value) == (
        "the dates in column 'day' of shop.csv must be a regular step apart, gaps aside, but got steps from 23 hours "
        "to 1 day: write the local dates without times, as clocks change by an hour."
    )


def test_one_date_is_no_series():
    with pytest.raises(InputError) as error:
        find_step([np.array(["2024-01-01"], "M8[s]")], "column 'day' of shop.csv")
    assert (
        str(error.value) == "column 'day' of shop.csv must hold at least two different dates of a series, but got one."
    )


@pytest.mark.parametrize(
    ("step", "date", "text"),
    [
        (TimeStep(unit="month", count=12), "1700-01-01", "1700"),
        (TimeStep(unit="month"), "2001-12-01", "2001-12"),
        (TimeStep(unit="month", month_end=True), "2001-11-30", "2001-11-30"),
        (TimeStep(unit="month", count=3), "2001-04-15", "2001-04-15"),
        (TimeStep(unit="business day"), "2024-05-06", "2024-05-06"),
        (TimeStep(unit="second", count=3600), "2024-05-06 07:00", "2024-05-06 07:00"),
        (TimeStep(unit="second", count=30), "2024-05-06 07:00:30", "2024-05-06 07:00:30"),
    ],
)
def test_a_date_is_written_as_exactly_as_its_step_needs(step: TimeStep, date: str, text: str):
    assert step.text(np.datetime64(date, "s")) == text


def test_counts_of_steps_read_as_sentences():
    assert TimeStep(unit="month").of(1) == "1 month"
    assert TimeStep(unit="second", count=900).of(1200) == "1,200 steps of 15 minutes"
    assert TimeStep().of(3) == "3 rows"
