import numpy as np
import pandas as pd
import pytest

from neuropil.data.formats.columns import Cells
from neuropil.data.series.clocks import wall_time
from neuropil.data.series.dates import read_dates, recognise_dates
from neuropil.errors import InputError

DAYS = pd.date_range("2023-12-28", periods=40, freq="D")


def cells(texts: list[str], name: str = "date") -> Cells:
    return Cells("shop.csv", name, range(2, len(texts) + 2), texts)


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d-%m-%Y",
        "%d %b %Y",
        "%B %d, %Y",
        "%b %d %Y",
        "%m/%d/%y",
        "%Y%m%d",
        "%Y-%m-%dT%H:%M:%SZ",
    ],
)
def test_dates_are_read_as_pandas_wrote_them(form: str):
    read = read_dates(cells(list(DAYS.strftime(form))))
    assert (read.dates == DAYS.to_numpy().astype("M8[s]")).all()
    assert (read.clock, read.note) == ("", None)


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%Y-%m-%d %H:%M", "%m/%d/%Y %I:%M %p", "%Y-%m-%d %I:%M:%S %p"]
)
def test_times_are_read_too(form: str):
    hours = pd.date_range("2023-12-28 21:00", periods=400, freq="h")
    assert (read_dates(cells(list(hours.strftime(form)))).dates == hours.to_numpy().astype("M8[s]")).all()


def test_years_months_and_quarters_are_dates():
    assert read_dates(cells(["1700", "1701"])).dates.astype("M8[Y]").astype(str).tolist() == ["1700", "1701"]
    assert read_dates(cells(["1700.0", "1701.0"])).dates.astype(str).tolist() == [
        "1700-01-01T00:00:00",
        "1701-01-01T00:00:00",
    ]
    assert read_dates(cells(["Jan 2020", "Feb 2020"])).dates.astype("M8[M]").astype(str).tolist() == [
        "2020-01",
        "2020-02",
    ]
    assert read_dates(cells(["2020Q1", "2020-Q4"])).dates.astype("M8[M]").astype(str).tolist() == ["2020-01", "2020-10"]


def test_unix_times_are_dates_in_utc_where_the_name_says_so():
    assert read_dates(cells(["1577836800", "1577840400000"])).dates.astype(str).tolist() == [
        "2020-01-01T00:00:00",
        "2020-01-01T01:00:00",
    ]
    times = ["1577836800", "1577840400"]
    assert read_dates(cells(times)).clock == "+00:00"
    assert recognise_dates({"timestamp": cells(times, "timestamp")}) == "timestamp"
    assert recognise_dates({"sales": cells(times, "sales")}) is None


def test_midnights_of_one_place_are_its_days_though_its_clocks_change():
    midnights = pd.date_range("2021-03-26", "2021-03-31", freq="D", tz="Europe/Berlin")
    read = read_dates(cells([each.isoformat() for each in midnights]))
    assert read.dates.astype(str).tolist() == [f"2021-03-{day}T00:00:00" for day in range(26, 32)]
    assert (read.clock, read.note) == (
        "",
        "Dates are read as local days, as their offsets from UTC differ: +01:00, +02:00.",
    )


@pytest.mark.parametrize("written", ["+02:00", "+0200", "+02", " +02:00"])
def test_dates_of_one_offset_are_kept_as_its_clock_shows_them(written: str):
    read = read_dates(cells([f"2024-01-01T{hour:02}:00{written}" for hour in range(24)]))
    assert (read.dates == np.datetime64("2024-01-01", "s") + 3600 * np.arange(24)).all()
    assert (read.clock, read.note) == ("+02:00", None)
    assert read_dates(cells(["2024-01-01T00:00:00+02:00", "2024-01-02T00:00:00+02:00"])).dates.astype("M8[D]").astype(
        str
    ).tolist() == ["2024-01-01", "2024-01-02"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Europe/London"])
def test_hours_of_a_zone_whose_clocks_change_are_kept_in_utc(zone: str):
    hours = pd.date_range("2021-01-01", periods=366 * 24, freq="h", tz=zone)
    read = read_dates(cells([each.isoformat() for each in hours]))
    assert (read.dates == hours.tz_convert("UTC").tz_localize(None).to_numpy().astype("M8[s]")).all()
    assert (wall_time(read.dates, read.clock) == hours.tz_localize(None).to_numpy().astype("M8[s]")).all()
    offsets = ", ".join(sorted({each.isoformat()[-6:] for each in hours}, key=lambda text: float(text[:3])))
    assert read.note == f"Dates are read as local time of {zone}, which has their offsets from UTC: {offsets}."


def test_offsets_that_no_place_has_are_taken_out():
    read = read_dates(cells(["2020-01-01 02:00+02:00", "2020-01-01 01:00Z"]))
    assert read.dates.astype(str).tolist() == ["2020-01-01T00:00:00", "2020-01-01T01:00:00"]
    assert (read.clock, read.note) == (
        "+00:00",
        "Dates are read in UTC, as no time zone has their offsets from UTC: +00:00, +02:00.",
    )


def test_new_dates_are_read_on_the_clock_of_the_training_data():
    summer = cells(["2024-07-01T00:00+02:00", "2024-07-01T01:00+02:00"])
    assert read_dates(summer, "+01:00").dates.astype("M8[m]").astype(str).tolist() == [
        "2024-06-30T23:00",
        "2024-07-01T00:00",
    ]
    assert read_dates(summer, "Europe/Berlin").dates.astype("M8[m]").astype(str).tolist() == [
        "2024-06-30T22:00",
        "2024-06-30T23:00",
    ]
    plain = cells(["2024-07-01 00:00", "2024-07-01 01:00"])
    assert read_dates(plain, "+01:00").dates.astype("M8[h]").astype(str).tolist() == ["2024-07-01T00", "2024-07-01T01"]
    with pytest.raises(InputError) as error:
        read_dates(plain, "Europe/Berlin")
    assert str(error.value) == (
        "row 2, column 'date' of shop.csv must hold a date with its offset from UTC, as the training data did, of "
        "Europe/Berlin, but got '2024-07-01 00:00': write dates such as 2020-12-31 18:00+01:00."
    )


def test_the_order_of_day_and_month_is_the_one_in_which_dates_rise():
    rising_as_days = ["01/02/2020", "02/01/2020", "03/02/2020"]  # 1 February, 2 January …
    read = read_dates(cells(rising_as_days))
    assert read.dates.astype("M8[D]").astype(str).tolist() == ["2020-01-02", "2020-02-01", "2020-03-02"]
    assert read.note is None


def test_an_order_that_cannot_be_known_is_said():
    read = read_dates(cells(["01/01/2020", "01/02/2020"]))
    assert np.diff(read.dates).astype(int).tolist() == [86_400]
    assert (
        read.note == "Dates such as 01/01/2020 are read with the month first; write 2020-12-31 if the day comes first."
    )


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            ["2020-01-01", "soon", "2020-01-03"],
            "row 3, column 'date' of shop.csv must hold a date, "
            "but got 'soon': write dates such as 2020-12-31 or 2020-12-31 18:00.",
        ),
        (
            ["01.02.2020", ""],
            "row 3, column 'date' of shop.csv must hold a date, but got an empty cell: fill it in or remove the row.",
        ),
        (
            ["2020-01-01 00:00:00", "2020-01-01 00:00:00.250"],
            "row 3, column 'date' of shop.csv must hold a date in whole seconds, but got '2020-01-01 00:00:00.250': "
            "take the means of whole seconds, or leave out the column of dates.",
        ),
        (
            ["2020-01-01T00:00+01:00", "2020-01-01T01:00"],
            "row 3, column 'date' of shop.csv must hold a date with its offset from UTC, as other rows do, but got "
            "'2020-01-01T01:00': write dates such as 2020-12-31 18:00+01:00.",
        ),
    ],
)
def test_what_is_no_date_is_shown_with_its_place(texts: list[str], sentence: str):
    with pytest.raises(InputError) as error:
        read_dates(cells(texts))
    assert str(error.value) == sentence


def test_the_column_of_dates_is_found_by_its_name_or_by_what_it_holds():
    days, numbers, words = (
        cells(["2020-01-01", "2020-01-02"], "when"),
        cells(["3", "4"], "sales"),
        cells(["a", "b"], "shop"),
    )
    assert recognise_dates({"sales": numbers, "shop": words, "when": days}) == "when"
    assert recognise_dates({"when": days, "Date": cells(["2020-01-01", "2020-01-02"], "Date")}) == "Date"
    assert recognise_dates({"sales": numbers, "shop": words}) is None


def test_numbers_are_years_only_where_the_name_says_so():
    years = ["1950", "1951"]
    assert recognise_dates({"Year": cells(years, "Year")}) == "Year"
    assert recognise_dates({"sales": cells(years, "sales")}) is None
    assert recognise_dates({"year": cells(["3", "4"], "year")}) is None


@pytest.mark.parametrize(
    ("name", "texts", "found"),
    [
        ("when", ["2020-01-01", "", "2020-01-03"], True),
        ("when", ["2020-01-01", "x", "y"], False),
        ("date", ["2020-01-01", "x", "y"], True),
        ("date", ["1st of May 2020", "2nd of May 2020"], True),
        ("day", ["Mon", "Tue", "Wed"], False),
        ("year", ["1950", "", "1952"], True),
        ("sales", ["1950", "", "1952"], False),
        ("sales", ["1950", "x", "1952"], False),
    ],
)
def test_a_column_with_a_bad_cell_is_one_of_dates_all_the_same(name: str, texts: list[str], found: bool):
    """It is refused for the cell then, and never passed over."""
    assert recognise_dates({name: cells(texts, name)}) == (name if found else None)


def test_a_column_of_dates_only_is_preferred_to_one_with_a_bad_cell():
    good, bad = cells(["2020-01-01", "2020-01-02"], "when"), cells(["2020-01-01", "soon"], "date")
    assert recognise_dates({"date": bad, "when": good}) == "when"
