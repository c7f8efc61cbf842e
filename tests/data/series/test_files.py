import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.formats.memory import in_memory
from neuropil.data.series.calendar import calendar
from neuropil.data.series.files import SeriesColumns, SeriesDataConfig, cuts, prepare_series, read_series
from neuropil.data.series.steps import TimeStep
from neuropil.errors import InputError


def write_days(
    path: Path, values: list[object], *, start: str = "2024-01-01", more: dict[str, list[object]] | None = None
) -> Path:
    """By pandas, as most users' tables are."""
    pd.DataFrame({"date": pd.date_range(start, periods=len(values)), "sales": values, **(more or {})}).to_csv(
        path, index=False
    )
    return path


def test_a_table_of_dates_and_values_needs_no_names(tmp_path: Path):
    table, columns = read_series(write_days(tmp_path / "shop.csv", [3.0, 1.5, 4.0]), SeriesColumns())
    assert columns == SeriesColumns(target="sales", date="date")
    (series,) = table.series
    assert series.values.tolist() == [3, 1.5, 4]
    assert str(table.step) == "day"
    assert table.label(3) == "2024-01-04"
    assert table.source == "3 days of sales (shop.csv)"
    assert table.notes == ()


@pytest.mark.parametrize(
    ("zone", "clock"), [("Etc/GMT-2", "+02:00"), ("Europe/Berlin", "Europe/Berlin"), ("UTC", "+00:00")]
)
def test_hours_go_on_as_the_clock_of_their_place_shows_them(zone: str, clock: str):
    """pandas knows the hours before and after the clocks change."""
    hours = pd.date_range("2024-03-20", periods=20 * 24, freq="h", tz=zone)
    seen, following = hours[:-100], hours[-100:]
    memory = in_memory(pd.Series(np.arange(len(seen)), index=seen))
    table, columns = read_series(memory, SeriesColumns())
    assert table.step == TimeStep(unit="second", count=3600, clock=clock)
    end = table.series[0].end
    labels = [table.label(end + step) for step in range(100)]
    assert labels == [each.isoformat(" ", "minutes") for each in following]
    shown = calendar(table.step, hours.tz_localize(None).to_numpy().astype("M8[s]"))
    series = replace(table.series[0], known=np.zeros((len(hours), 0)))
    np.testing.assert_array_equal(table.features(series, len(hours)), shown)
    again, _ = read_series(memory, columns, table.step)
    assert again.step == table.step
    assert again.keys == table.keys


def test_a_date_between_two_steps_is_shown_with_its_offset(tmp_path: Path):
    lines = [f"2024-01-01T{hour:02}:00+02:00,1" for hour in range(24)]
    path = write_text(tmp_path / "power.csv", "date,power", *lines)
    table, columns = read_series(path, SeriesColumns())
    write_text(tmp_path / "later.csv", "date,power", *lines, "2024-01-02T00:30+02:00,1")
    assert refusal(read_series, tmp_path / "later.csv", columns, table.step) == (
        "the dates in column 'date' of later.csv must be steps of one hour apart, from the first of all series on, but "
        "got 2024-01-02 00:30:00+02:00, which is between two of them."
    )


def test_columns_that_a_trained_model_does_not_use_may_hold_anything(tmp_path: Path):
    lines = ("day;sales;note;note", "2024-01-01;1,5;2.471;x", "2024-01-02;2,5;3.141;y", "2024-01-03;3,5;1.234;")
    path, columns = write_text(tmp_path / "a.csv", *lines), SeriesColumns(target="sales", date="day")
    table, _ = read_series(path, columns, TimeStep(unit="second", count=86_400))
    assert table.series[0].values.tolist() == [1.5, 2.5, 3.5]
    frame = {"day": ["2024-01-01", "2024-01-02"], "sales": [1.5, 2.5], "note": [{1}, {2}], "photo": np.zeros((2, 4, 4))}
    table, _ = read_series(in_memory(frame), columns, TimeStep(unit="second", count=86_400))
    assert table.series[0].values.tolist() == [1.5, 2.5]


def test_an_array_has_no_column_that_tells_series_apart():
    memory = in_memory(np.zeros((9, 2)))
    assert refusal(read_series, memory, SeriesColumns(series="shop")) == (
        "--series names a column of a table, but got 'shop' for the array in memory: leave it out."
    )


def test_it_may_be_tab_separated_and_packed(tmp_path: Path):
    path = tmp_path / "shop.tsv.gz"
    path.write_bytes(gzip.compress(b"month\tsales\n2020-01\t1\n2020-02\t2\n2020-03\t4\n"))
    table, _ = read_series(path, SeriesColumns())
    assert str(table.step) == "month"
    assert table.series[0].values.tolist() == [1, 2, 4]


def test_rows_that_are_missing_and_cells_that_are_empty_are_gaps(tmp_path: Path):
    lines = (
        "date,sales",
        "2024-01-01,1",
        "2024-01-02,",
        "2024-01-03,NA",
        "2024-01-04,2",
        "2024-01-07,3",
        "2024-01-08,4",
        "2024-01-09,",
    )
    table, _ = read_series(write_text(tmp_path / "shop.csv", *lines), SeriesColumns())
    assert np.isnan(table.series[0].values).tolist() == [False, True, True, False, True, True, False, False]


def test_repeated_and_unordered_dates_are_mended_and_told(tmp_path: Path):
    lines = ("date,sales", "2024-01-03,3", "2024-01-01,1", "2024-01-02,2", "2024-01-02,6", "2024-01-04,5")
    table, _ = read_series(write_text(tmp_path / "shop.csv", *lines), SeriesColumns())
    assert table.series[0].values.tolist() == [1, 4, 3, 5]
    assert table.notes == (
        "The rows of shop.csv are not in the order of their dates, and are put into it.",
        "1 of 5 rows repeats a date; the mean of the same date is taken (if they are different series, name "
        "their column with --series).",
    )


def test_series_are_told_apart_and_stand_on_one_axis_of_time(tmp_path: Path):
    lines = (
        "date,shop,sales",
        "2024-01-01,a,1",
        "2024-01-02,a,2",
        "2024-01-02,b,10",
        "2024-01-03,b,20",
        "2024-01-03,a,3",
    )
    table, _ = read_series(write_text(tmp_path / "shops.csv", *lines), SeriesColumns(series="shop"))
    a, b = table.series
    assert (a.name, a.start, a.values.tolist()) == ("a", 0, [1, 2, 3])
    assert (b.name, b.start, b.values.tolist()) == ("b", 1, [10, 20])
    assert table.source == "2 series of sales, together 5 days (shops.csv)"
    assert table.notes == ()


def test_what_is_known_in_advance_goes_on_after_the_last_value(tmp_path: Path):
    path = write_days(tmp_path / "shop.csv", [1.0, 2.0, np.nan, np.nan], more={"price": [5, 6, 7, 8]})
    table, _ = read_series(path, SeriesColumns(target="sales", known=("price",)))
    assert table.series[0].values.tolist() == [1, 2]
    assert table.series[0].known[:, 0].tolist() == [5, 6, 7, 8]


def test_what_is_known_holds_on_over_a_gap_in_the_dates(tmp_path: Path):
    lines = ("date,sales,price", "2024-01-01,1,5", "2024-01-02,1,6", "2024-01-04,2,7")
    table, _ = read_series(write_text(tmp_path / "shop.csv", *lines), SeriesColumns(target="sales", known=("price",)))
    assert table.series[0].known[:, 0].tolist() == [5, 6, 6, 7]


def test_without_dates_a_row_is_a_step(tmp_path: Path):
    table, columns = read_series(write_text(tmp_path / "plain.csv", "value", "1", "2", "4"), SeriesColumns())
    assert columns == SeriesColumns(target="value")
    assert table.step == TimeStep()
    assert table.notes == ("No column of plain.csv holds dates, so each row is a step.",)


@pytest.mark.parametrize(
    ("lines", "columns", "sentence"),
    [
        (
            ["date,a,b", "2024-01-01,1,2", "2024-01-02,1,2"],
            SeriesColumns(),
            "the table shop.csv needs a target, the column to forecast: choose from a, b.",
        ),
        (
            ["date,name", "2024-01-01,x", "2024-01-02,y"],
            SeriesColumns(),
            "the table shop.csv needs a target, the column to forecast: none of its columns holds numbers.",
        ),
        (
            ["date,sales", "2024-01-01,1"],
            SeriesColumns(target="sale"),
            "shop.csv must have the column 'sale', but got date, sales: did you mean 'sales'?",
        ),
        (
            ["date,sales", "2024-01-01,1", "2024-01-02,many"],
            SeriesColumns(target="sales"),
            "row 3, column 'sales' of shop.csv must hold a number, or nothing where there is no value, but got 'many'.",
        ),
        (
            ["date,sales", "2024-01-01,1", "2024-01-02,inf"],
            SeriesColumns(target="sales"),
            "row 3, column 'sales' of shop.csv must hold a finite number, but got 'inf'.",
        ),
        (
            ["date,sales", "2024-01-01,", "2024-01-02,"],
            SeriesColumns(target="sales"),
            "column 'sales' of shop.csv must hold numbers, but got only empty cells.",
        ),
        (
            ["date,sales,price", "2024-01-01,1,2", "2024-01-02,3,"],
            SeriesColumns(target="sales", known=("price",)),
            "row 3, column 'price' of shop.csv must hold a value, as it is known in advance, "
            "but got an empty cell: fill it in.",
        ),
        (
            ["date,sales", "2024-01-01,1"],
            SeriesColumns(target="sales", known=("sales",)),
            "target, series and known must be different columns, but got 'sales' twice.",
        ),
        (
            ["date,shop,sales", *(f"2024-01-0{day},{shop},1" for day in (1, 2) for shop in "abc")],
            SeriesColumns(target="sales"),
            "shop.csv must say which column tells its series apart, but got dates that repeat, and 3 different values "
            "of 'shop': give --series shop, or remove the column if all rows are one series.",
        ),
        (
            ["date,store,sales", *(f"2024-01-0{day},{store},1" for day in (1, 2, 3) for store in (1, 2))],
            SeriesColumns(target="sales"),
            "shop.csv must say which column tells its series apart, but got dates that repeat, and 2 different values "
            "of 'store': give --series store, or remove the column if all rows are one series.",
        ),
        (
            ["date,sales", *(f"2024-01-0{day},1" for day in (1, 2, 1, 2))],
            SeriesColumns(target="sales"),
            "column 'date' of shop.csv must hold each date once for each series, "
            "but got most of them several times: name the column that "
            "tells the series apart with --series.",
        ),
        (
            ["shop,sales", *(f"{shop},{value}" for shop in "ab" for value in range(6))],
            SeriesColumns(),
            "shop.csv must say which column tells its series apart, but got texts in blocks, and 2 different values of "
            "'shop': give --series shop, or remove the column if all rows are one series.",
        ),
        (
            ["date,sales", "2024-01-01,1", "2024-01-02,2", ",3", "2024-01-04,4"],
            SeriesColumns(),
            "row 4, column 'date' of shop.csv must hold a date, but got an empty cell: fill it in or remove the row.",
        ),
        (
            ["date,sales", "1st of May 2020,1", "2nd of May 2020,2"],
            SeriesColumns(),
            "row 2, column 'date' of shop.csv must hold a date, but got '1st of May 2020': "
            "write dates such as 2020-12-31 or 2020-12-31 18:00.",
        ),
        (
            ["date,shop,sales", "2024-01-01,a,1", "2024-01-08,a,1", "2024-01-03,b,1", "2024-01-10,b,1"],
            SeriesColumns(target="sales", series="shop"),
            "the dates in column 'date' of shop.csv must be steps of one week apart, from the first of all "
            "series on, but got 2024-01-03, "
            "which is between two of them.",
        ),
    ],
)
def test_tables_that_cannot_be_forecast_are_refused_in_one_sentence(
    tmp_path: Path, lines: list[str], columns: SeriesColumns, sentence: str
):
    assert refusal(read_series, write_text(tmp_path / "shop.csv", *lines), columns) == sentence


def test_a_trained_model_refuses_dates_of_another_step(tmp_path: Path):
    path = write_days(tmp_path / "shop.csv", [1.0, 2.0, 3.0])
    assert refusal(read_series, path, SeriesColumns(), TimeStep(unit="second", count=604_800)) == (
        "the dates in column 'date' of shop.csv must be steps of one week apart, from the first of all series "
        "on, but got 2024-01-02, "
        "which is between two of them."
    )


def test_a_trained_model_of_business_days_refuses_a_weekend_wherever_it_stands(tmp_path: Path):
    step = TimeStep(unit="business day")
    for days in (("2021-01-02", "2021-01-04"), ("2021-01-01", "2021-01-02", "2021-01-04")):
        path = write_text(tmp_path / "shop.csv", "date,sales", *(f"{day},1" for day in days))
        assert refusal(read_series, path, SeriesColumns(), step) == (
            "the dates in column 'date' of shop.csv must be steps of one business day apart, as in the training data, "
            "but got 2021-01-02, a day of a weekend."
        )


def test_a_trained_model_refuses_a_far_date_before_it_makes_room_for_all_between(tmp_path: Path):
    seconds = [f"2000-01-01 00:00:{second:02},1" for second in range(60)]
    path = write_text(tmp_path / "shop.csv", "date,sales", *seconds, "2060-01-01 00:00:00,1")
    assert refusal(read_series, path, SeriesColumns(), TimeStep(unit="second")) == (
        "column 'date' of shop.csv must hold at least half of the dates from its first to its last, 2000-01-01 "
        "00:00:00 to 2060-01-01 00:00:00, but got 61 of 1,893,456,001 seconds: look for a wrong date."
    )


def test_a_series_far_from_zero_keeps_its_values(tmp_path: Path):
    """In single precision those around 1e9 are 64 apart."""
    days = np.arange(200)
    values = 1e9 + 10 * np.sin(2 * np.pi * days / 7) + np.random.default_rng(0).normal(size=200).round(3)
    splits = prepare_series(SeriesDataConfig(data=write_days(tmp_path / "far.csv", values.tolist())))
    windows = splits.test
    assert len(splits.panel.between.unique()) == len(np.unique(values)) + 1  # and the room after the end
    restored = windows.restored(windows.batch()["target"])[0].numpy()
    assert np.abs(restored - values[int(windows.origins[0]) :][: len(restored)]).max() < 1e-5
    near = prepare_series(SeriesDataConfig(data=write_days(tmp_path / "near.csv", (values - 1e9).tolist())))
    assert torch.allclose(near.panel.between, splits.panel.between, atol=1e-5)


def test_values_that_single_precision_cannot_tell_apart_are_told(tmp_path: Path):
    values = np.where(np.arange(100) < 90, 0.0, 1e9) + np.arange(100) % 50
    splits = prepare_series(SeriesDataConfig(data=write_days(tmp_path / "shop.csv", values.tolist()), season=7))
    assert splits.table.notes[-1] == "60 different values of the series are 51 in single precision."


def test_hours_have_a_day_and_a_week_where_the_week_is_there(tmp_path: Path):
    time, rng = np.arange(24 * 7 * 8), np.random.default_rng(0)
    weekend = np.where(time // 24 % 7 >= 5, 0.3, 1)
    for swing, seasons, found in (
        (weekend, (24, 168), "a season has 24 (from the calendar; a week, of 168, by autocorrelation); 216 are read"),
        (1, (24,), "a season has 24 (from the calendar); 72 are read"),
    ):
        values = 10 * swing * np.sin(2 * np.pi * time / 24) + rng.normal(size=len(time))
        dates = pd.date_range("2024-01-01", periods=len(time), freq="h")
        pd.DataFrame({"time": dates, "load": values}).to_csv(tmp_path / "load.csv", index=False)
        splits = prepare_series(SeriesDataConfig(data=tmp_path / "load.csv"))
        assert (splits.seasons, splits.season) == (seasons, 24)
        assert splits.table.notes == (f"A step is one hour; {found} to forecast 24.",)


def test_a_trained_model_that_knows_dates_refuses_a_table_without(tmp_path: Path):
    path = write_text(tmp_path / "plain.csv", "value", "1", "2")
    assert refusal(read_series, path, SeriesColumns(), TimeStep(unit="month")) == (
        "plain.csv must have a column of dates, as the training data had, but got value."
    )


def test_files_that_are_no_table_are_refused(tmp_path: Path):
    write_text(tmp_path / "shop.csv", "x")
    write_text(tmp_path / "shop.xlsx", "x")
    missing, folder = (tmp_path / "shop.cvs").as_posix(), tmp_path.as_posix()
    assert refusal(read_series, Path(missing), SeriesColumns()) == (
        f"series are read from files that exist, but got {missing!r}: did you mean {missing.replace('cvs', 'csv')!r}?"
    )
    assert (
        refusal(read_series, tmp_path, SeriesColumns()) == f"series are read from files, but got the folder {folder!r}."
    )
    assert refusal(read_series, tmp_path / "shop.xlsx", SeriesColumns()) == (
        "series are read from a CSV or TSV, plain or gzip, but got shop.xlsx: rename it if it is one of these."
    )


def write_months(path: Path, count: int = 120, shops: tuple[str, ...] = ("a",), late: int = 0) -> Path:
    rng = np.random.default_rng(0)
    parts = []
    for number, shop in enumerate(shops):
        begin = late if number == len(shops) - 1 else 0
        dates = pd.date_range("2010-01-01", periods=count, freq="MS")[begin:]
        values = 10 * number + np.sin(np.arange(len(dates)) * 2 * np.pi / 12) + 0.1 * rng.normal(size=len(dates))
        parts.append(pd.DataFrame({"date": dates, "shop": shop, "sales": values}))
    pd.concat(parts).to_csv(path, index=False)
    return path


@settings(deadline=None, max_examples=60)
@given(st.integers(20, 500), st.integers(1, 6), st.floats(0, 0.5), st.floats(0.01, 0.8))
def test_the_parts_follow_one_another_and_have_room_for_a_forecast(
    length: int, horizon: int, validation: float, test: float
):
    train_end, test_begin = cuts(length, horizon, validation, test)
    assert train_end <= test_begin <= length - horizon
    assert test_begin - train_end >= (horizon if validation else 0)
    assert length - test_begin == max(round(test * length), horizon)


@pytest.mark.parametrize(("dataset", "season", "window", "horizon"), [("sunspots", 11, 33, 11), ("co2", 12, 36, 12)])
def test_embedded_series_come_in_three_parts_of_time(dataset: str, season: int, window: int, horizon: int):
    splits = prepare_series(SeriesDataConfig(dataset=dataset))  # type: ignore[arg-type]
    assert (splits.season, splits.panel.window, splits.panel.horizon) == (season, window, horizon)
    assert int(splits.train.origins.max()) + horizon <= splits.train_end <= int(splits.validation.origins.min())
    assert int(splits.validation.origins.max()) + horizon <= splits.test_begin <= int(splits.test.origins.min())
    assert int(splits.test.origins.max()) + horizon == splits.table.end


def test_nothing_of_the_later_parts_is_in_the_scale_or_the_season_or_the_training_windows(tmp_path: Path):
    path = write_months(tmp_path / "shop.csv")
    config = SeriesDataConfig(data=path, target="sales")
    before = prepare_series(config)
    table = pd.read_csv(path)
    table.loc[before.train_end :, "sales"] = 1000 * np.random.default_rng(1).normal(size=len(table) - before.train_end)
    table.to_csv(path, index=False)
    after = prepare_series(config)
    assert before.panel.units == after.panel.units
    assert (before.season, before.train_end) == (after.season, after.train_end)
    for name, values in before.train.batch().items():
        assert torch.equal(values, after.train.batch()[name]), name


def test_each_series_has_a_scale_of_its_own(tmp_path: Path):
    path = write_months(tmp_path / "shops.csv", shops=("a", "b"))
    table = pd.read_csv(path)
    table.loc[table["shop"] == "b", "sales"] *= 100
    table.to_csv(path, index=False)
    a, b = prepare_series(SeriesDataConfig(data=path, target="sales", series="shop")).panel.units
    assert 50 < b.scale / a.scale < 200


def test_what_was_decided_is_told(tmp_path: Path):
    config = SeriesDataConfig(data=write_months(tmp_path / "shop.csv"), target="sales")
    assert prepare_series(config).table.notes == (
        "A step is one month; a season has 12 (from the calendar); 36 are read to forecast 12.",
    )
    given_season = SeriesDataConfig(data=config.data, target="sales", season=6, horizon=3, window=8)
    assert prepare_series(given_season).table.notes == (
        "A step is one month; a season has 6 (as given); 8 are read to forecast 3.",
    )


def test_series_that_begin_too_late_are_left_out_and_named(tmp_path: Path):
    path = write_months(tmp_path / "shops.csv", shops=("a", "b", "late"), late=70)
    splits = prepare_series(SeriesDataConfig(data=path, target="sales", series="shop"))
    assert [series.name for series in splits.table.series] == ["a", "b"]
    assert splits.table.notes[0] == "1 of 3 series is too short before the validation part, and is left out: late."


def test_a_series_that_is_too_short_is_refused_with_a_way_out(tmp_path: Path):
    path = write_months(tmp_path / "shop.csv", count=50)
    assert refusal(prepare_series, SeriesDataConfig(data=path, target="sales", horizon=24)) == (
        "the training part must be longer than a window of history and a horizon, together 36 months, "
        "but got 2 of 50 months: give a longer series, or "
        "a shorter --horizon or --window."
    )
    assert refusal(prepare_series, SeriesDataConfig(data=path, target="sales", horizon=60)) == (
        "the training part must be longer than a window of history and a horizon, together 72 months, "
        "but got 0 of 50 months: give a longer series, or "
        "a shorter --horizon or --window."
    )


def test_columns_of_embedded_data_cannot_be_named():
    with pytest.raises(InputError) as error:
        SeriesDataConfig(target="sunspots")
    assert (
        str(error.value)
        == "columns are named in a CSV or TSV of your own, but got target for embedded data: leave it out."
    )


SALES = [3.0, 1.5, float("nan"), 4.0]
DATED = pd.Series(SALES, index=pd.date_range("2024-01-01", periods=4), name="sales")


@pytest.mark.parametrize("given", [DATED, DATED.to_frame(), DATED.rename_axis("date").reset_index()])
def test_dated_values_in_memory_are_those_of_a_file(tmp_path: Path, given: Any):
    table, columns = read_series(write_days(tmp_path / "shop.csv", [*SALES]), SeriesColumns())
    found, same = read_series(in_memory(given), SeriesColumns())
    assert same == columns
    assert found.first == table.first
    assert found.step == table.step
    np.testing.assert_array_equal(found.series[0].values, table.series[0].values)
    again, _ = read_series(in_memory(given), columns, table.step)
    np.testing.assert_array_equal(again.series[0].values, SALES)


@pytest.mark.parametrize("given", [SALES, np.array(SALES), torch.tensor(SALES), iter(SALES)])
def test_values_in_memory_are_steps_and_gaps_stay_gaps(given: Any):
    table, columns = read_series(in_memory(given), SeriesColumns())
    assert columns == SeriesColumns(target="value")
    np.testing.assert_array_equal(table.series[0].values, SALES)
    assert table.source.startswith("4 rows of value (")


def test_an_array_has_a_series_in_each_column_and_an_iterable_of_windows_in_each_item():
    several = np.arange(8.0).reshape(4, 2)
    for held in (several, iter(several.T), [*several.T]):
        table, columns = read_series(in_memory(held), SeriesColumns())
        assert columns == SeriesColumns(target="value", series="series")
        assert [series.name for series in table.series] == ["0", "1"]
        np.testing.assert_array_equal([series.values for series in table.series], several.T)
    uneven, _ = read_series(in_memory([np.ones(3), np.ones(5)]), SeriesColumns())
    assert [len(series.values) for series in uneven.series] == [3, 5]


def test_a_trained_model_reads_values_without_a_name():
    for values in (SALES, np.array(SALES), pd.Series(SALES)):
        table, _ = read_series(in_memory(values), SeriesColumns(target="turnover"), TimeStep())
        assert table.target == "turnover"
    table, _ = read_series(in_memory(DATED.rename(None)), SeriesColumns(target="turnover", date="day"))
    assert (table.target, table.label(0)) == ("turnover", "2024-01-01")


def test_a_trained_model_refuses_values_of_another_name_as_in_a_file(tmp_path: Path):
    columns, step = SeriesColumns(target="turnover"), TimeStep()
    named = {"sales": SALES, "x": SALES}
    for name, values in named.items():
        path = write_text(tmp_path / "a.csv", name, *map(str, values))
        assert refusal(read_series, path, columns, step) == f"a.csv must have the column 'turnover', but got {name}."
        for frame, kind in (
            ({name: values}, "mapping"),
            (pd.DataFrame({name: values}), "DataFrame"),
            (pd.Series(values, name=name), "Series"),
            ([{name: value} for value in values], "list"),
        ):
            assert refusal(read_series, in_memory(frame), columns, step) == (
                f"{kind} in memory must have the column 'turnover', but got {name}."
            )


def test_a_series_in_parts_is_refused():
    data = in_memory({"train": np.arange(90.0), "test": np.arange(9.0)}, parts=True)
    assert refusal(prepare_series, SeriesDataConfig(data=data)) == (
        "a series is divided by time, but got the parts train, test: give it whole, with --test and --validation as "
        "shares."
    )
