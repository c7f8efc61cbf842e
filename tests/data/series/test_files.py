import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.written_files import refusal, write_text
from neuropil.data.series.files import Columns, read_series
from neuropil.data.series.steps import Step


def write_days(
    path: Path, values: list[object], *, start: str = "2024-01-01", more: dict[str, list[object]] | None = None
) -> Path:
    """By pandas, as most users' tables are."""
    pd.DataFrame({"date": pd.date_range(start, periods=len(values)), "sales": values, **(more or {})}).to_csv(
        path, index=False
    )
    return path


def test_a_table_of_dates_and_values_needs_no_names(tmp_path: Path):
    table, columns = read_series(write_days(tmp_path / "shop.csv", [3.0, 1.5, 4.0]), Columns())
    assert columns == Columns(target="sales", date="date")
    (series,) = table.series
    assert series.values.tolist() == [3, 1.5, 4]
    assert str(table.step) == "day"
    assert table.label(3) == "2024-01-04"
    assert table.source == "3 days of sales (shop.csv)"
    assert table.notes == ()


def test_it_may_be_tab_separated_and_packed(tmp_path: Path):
    path = tmp_path / "shop.tsv.gz"
    path.write_bytes(gzip.compress(b"month\tsales\n2020-01\t1\n2020-02\t2\n2020-03\t4\n"))
    table, _ = read_series(path, Columns())
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
    table, _ = read_series(write_text(tmp_path / "shop.csv", *lines), Columns())
    assert np.isnan(table.series[0].values).tolist() == [False, True, True, False, True, True, False, False]


def test_repeated_and_unordered_dates_are_mended_and_told(tmp_path: Path):
    lines = ("date,sales", "2024-01-03,3", "2024-01-01,1", "2024-01-02,2", "2024-01-02,6", "2024-01-04,5")
    table, _ = read_series(write_text(tmp_path / "shop.csv", *lines), Columns())
    assert table.series[0].values.tolist() == [1, 4, 3, 5]
    assert table.notes == (
        "The rows of shop.csv are not in the order of their dates, and are put into it.",
        "1 of 5 rows repeats a date; the mean of the same date is taken (if they are different series, name their column with --series).",
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
    table, _ = read_series(write_text(tmp_path / "shops.csv", *lines), Columns(series="shop"))
    a, b = table.series
    assert (a.name, a.start, a.values.tolist()) == ("a", 0, [1, 2, 3])
    assert (b.name, b.start, b.values.tolist()) == ("b", 1, [10, 20])
    assert table.source == "2 series of sales, together 5 days (shops.csv)"
    assert table.notes == ()


def test_what_is_known_in_advance_goes_on_after_the_last_value(tmp_path: Path):
    path = write_days(tmp_path / "shop.csv", [1.0, 2.0, np.nan, np.nan], more={"price": [5, 6, 7, 8]})
    table, _ = read_series(path, Columns(target="sales", known=("price",)))
    assert table.series[0].values.tolist() == [1, 2]
    assert table.series[0].known[:, 0].tolist() == [5, 6, 7, 8]


def test_what_is_known_holds_on_over_a_gap_in_the_dates(tmp_path: Path):
    lines = ("date,sales,price", "2024-01-01,1,5", "2024-01-02,1,6", "2024-01-04,2,7")
    table, _ = read_series(write_text(tmp_path / "shop.csv", *lines), Columns(target="sales", known=("price",)))
    assert table.series[0].known[:, 0].tolist() == [5, 6, 6, 7]


def test_without_dates_a_row_is_a_step(tmp_path: Path):
    table, columns = read_series(write_text(tmp_path / "plain.csv", "value", "1", "2", "4"), Columns())
    assert columns == Columns(target="value")
    assert table.step == Step()
    assert table.notes == ("No column of plain.csv holds dates, so each row is a step.",)


@pytest.mark.parametrize(
    ("lines", "columns", "sentence"),
    [
        (
            ["date,a,b", "2024-01-01,1,2", "2024-01-02,1,2"],
            Columns(),
            "the table shop.csv needs a target, the column to forecast: choose from a, b.",
        ),
        (
            ["date,name", "2024-01-01,x", "2024-01-02,y"],
            Columns(),
            "the table shop.csv needs a target, the column to forecast: none of its columns holds numbers.",
        ),
        (
            ["date,sales", "2024-01-01,1"],
            Columns(target="sale"),
            "shop.csv must have the column 'sale', but got date, sales: did you mean 'sales'?",
        ),
        (
            ["date,sales", "2024-01-01,1", "2024-01-02,many"],
            Columns(target="sales"),
            "row 3, column 'sales' of shop.csv must hold a number, or nothing where there is no value, but got 'many'.",
        ),
        (
            ["date,sales", "2024-01-01,1", "2024-01-02,inf"],
            Columns(target="sales"),
            "row 3, column 'sales' of shop.csv must hold a finite number, but got 'inf'.",
        ),
        (
            ["date,sales", "2024-01-01,", "2024-01-02,"],
            Columns(target="sales"),
            "column 'sales' of shop.csv must hold numbers, but got only empty cells.",
        ),
        (
            ["date,sales,price", "2024-01-01,1,2", "2024-01-02,3,"],
            Columns(target="sales", known=("price",)),
            "row 3, column 'price' of shop.csv must hold a value, as it is known in advance, but got an empty cell: fill it in.",
        ),
        (
            ["date,sales", "2024-01-01,1"],
            Columns(target="sales", known=("sales",)),
            "target, series and known must be different columns, but got 'sales' twice.",
        ),
        (
            ["date,shop,sales", *(f"2024-01-0{day},{shop},1" for day in (1, 2) for shop in "abc")],
            Columns(target="sales"),
            "column 'date' of shop.csv must hold each date once for each series, but got most of them several times: name the column that "
            "tells the series apart with --series.",
        ),
        (
            ["date,shop,sales", "2024-01-01,a,1", "2024-01-08,a,1", "2024-01-03,b,1", "2024-01-10,b,1"],
            Columns(target="sales", series="shop"),
            "the dates in column 'date' of shop.csv must be steps of one week apart, from the first of all series on, but got 2024-01-03, "
            "which is between two of them.",
        ),
    ],
)
def test_tables_that_cannot_be_forecast_are_refused_in_one_sentence(
    tmp_path: Path, lines: list[str], columns: Columns, sentence: str
):
    assert refusal(read_series, write_text(tmp_path / "shop.csv", *lines), columns) == sentence


def test_a_trained_model_refuses_dates_of_another_step(tmp_path: Path):
    path = write_days(tmp_path / "shop.csv", [1.0, 2.0, 3.0])
    assert refusal(read_series, path, Columns(), Step(unit="second", count=604_800)) == (
        "the dates in column 'date' of shop.csv must be steps of one week apart, from the first of all series on, but got 2024-01-02, "
        "which is between two of them."
    )


def test_a_trained_model_that_knows_dates_refuses_a_table_without(tmp_path: Path):
    path = write_text(tmp_path / "plain.csv", "value", "1", "2")
    assert refusal(read_series, path, Columns(), Step(unit="month")) == (
        "plain.csv must have a column of dates, as the training data had, but got value."
    )


def test_files_that_are_no_table_are_refused(tmp_path: Path):
    write_text(tmp_path / "shop.csv", "x")
    write_text(tmp_path / "shop.xlsx", "x")
    missing, folder = (tmp_path / "shop.cvs").as_posix(), tmp_path.as_posix()
    assert refusal(read_series, Path(missing), Columns()) == (
        f"series are read from a table that exists, but got {missing!r}: did you mean 'shop.csv'?"
    )
    assert (
        refusal(read_series, tmp_path, Columns())
        == f"series are read from a table that exists, but got the folder {folder!r}."
    )
    assert refusal(read_series, tmp_path / "shop.xlsx", Columns()) == (
        "series are read from a CSV or TSV, plain or gzip, but got shop.xlsx: rename it if it is one of these."
    )
