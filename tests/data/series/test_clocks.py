import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuropil.data.series.clocks import date_text, find_clock, offset_text, offsets_at, on_clock, without_offset

NOON = np.array(["2024-01-01T12:00"], "M8[s]")


@given(st.integers(-14 * 60, 14 * 60))
def test_an_offset_is_written_as_it_is_read(minutes: int):
    assert offsets_at(NOON, offset_text(60 * minutes)).tolist() == [60 * minutes]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-01-01T00:00:00+02:00", "2024-01-01T00:00:00"),
        ("2024-01-01 00:00-0330", "2024-01-01 00:00"),
        ("2024-01-01 00:00Z", "2024-01-01 00:00"),
        ("2024-01-01 00 +02", "2024-01-01 00"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01", "2024-01"),
        ("31 Jan 2024", "31 Jan 2024"),
        ("01/02/2024 10:00", "01/02/2024 10:00"),
    ],
)
def test_only_what_follows_a_time_is_an_offset(text: str, shown: str):
    assert without_offset(text) == shown


def test_a_date_is_written_as_its_clock_shows_it():
    assert date_text(NOON[0], "", "m") == "2024-01-01 12:00"
    assert date_text(NOON[0], "", "D") == "2024-01-01"
    assert date_text(on_clock(NOON, "-03:30")[0], "-03:30", "s") == "2024-01-01 08:30:00-03:30"
    assert date_text(on_clock(NOON, "America/New_York")[0], "America/New_York", "m") == "2024-01-01 07:00-05:00"


def test_the_clock_is_found_whatever_the_order_of_dates():
    instants = np.array(["2024-07-01", "2024-01-01", "2024-03-31T01:00", "2024-03-31T00:00"], "M8[s]")
    assert find_clock(instants, np.array([7200, 3600, 7200, 3600])) == "Europe/Berlin"
    assert find_clock(instants, np.array([7200, 3600, 3600, 3600])) == "+00:00"
    assert find_clock(instants, np.full(4, -12_600)) == "-03:30"
