import csv
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder

from data.written_files import refusal, write_text
from neuropil.data.examples.dataset import Column, Labels
from neuropil.data.examples.labels import TargetColumn
from neuropil.data.examples.tables import learn_table, read_labelled_rows, read_rows, read_table
from neuropil.data.formats.columns import Cells
from neuropil.data.formats.delimited import Block, CellTable, DelimitedFile
from neuropil.errors import DataWarning

PEOPLE = ("age,colour,height,answer", "31,red,1.5,yes", "4e1, blue ,1.75,no", "-7,red,2,yes")


def test_numbers_stay_and_texts_become_one_feature_per_value(tmp_path: Path):
    reading = read_table(write_text(tmp_path / "people.csv", *PEOPLE), "answer")
    assert reading.columns == (
        Column(name="age", kind="number"),
        Column(name="colour", kind="category", values=("blue", "red")),
        Column(name="height", kind="number"),
    )
    part = reading.parts["train"]
    assert part.inputs.values.tolist() == [[31, 0, 1, 1.5], [40, 1, 0, 1.75], [-7, 0, 1, 2]]
    assert isinstance(part.labels, Labels)
    assert part.labels.named()[1] == ("no", "yes")
    assert part.labels.values.tolist() == [1, 0, 1]
    assert part.inputs.name(0) == "people.csv row 2"


def test_a_number_with_an_underscore_is_a_name(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "room,target", *["1_1,0", "11,1"] * 5)
    (column,) = read_table(path, "target").columns
    assert column.values == ("11", "1_1")


def test_quoted_numbers_with_commas_are_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "size,target", *['"1,5",0', '"2,5",1'] * 5)
    assert refusal(read_table, path, "target") == (
        "column 'size' of a.csv must hold numbers with a decimal point and no other marks, but got '1,5': "
        "write 1234.5, or divide the cells by semicolons."
    )


def test_names_may_have_commas_between_digits(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "answers,target", *['"1,5",0', "none of them,1"] * 5)
    (column,) = read_table(path, "target").columns
    assert column.values == ("1,5", "none of them")


def test_categories_are_encoded_as_scikit_learn_encodes_them(tmp_path: Path):
    generator = np.random.default_rng(0)
    cells = generator.choice(["Käse", "1", "x y", "NA", "ß"], (3000, 2))
    path = write_text(tmp_path / "a.csv", "a,b,target", *[f"{a},{b},{i % 2}" for i, (a, b) in enumerate(cells)])
    ours = read_table(path, "target").parts["train"].inputs.values.numpy()
    np.testing.assert_array_equal(ours, OneHotEncoder(sparse_output=False).fit_transform(cells))


def test_a_column_that_turns_to_text_late_is_text_throughout(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "size,target", *["3,0"] * 2000, *["4,1"] * 2000, "5+,1")
    (column,) = read_table(path, "target").columns
    assert column == Column(name="size", kind="category", values=("3", "4", "5+"))


def test_a_trained_model_finds_its_columns_by_name(tmp_path: Path):
    columns = read_table(write_text(tmp_path / "people.csv", *PEOPLE), "answer").columns
    other = DelimitedFile(write_text(tmp_path / "more.tsv", "height\tid\tcolour\tage", "1.5\tx17\tblue\t20"))
    assert read_rows(other, columns).values.tolist() == [[20, 1, 0, 1.5]]


def test_labels_of_a_trained_model_may_have_new_names(tmp_path: Path):
    table = DelimitedFile(write_text(tmp_path / "a.csv", "x,answer", "1,b", "2,z", "3,b"))
    answer = TargetColumn(Column(name="answer", kind="category"))
    labels = read_labelled_rows(table, [Column(name="x", kind="number")], answer).labels
    assert (labels.values.tolist(), labels.names) == ([0, 1, 0], ("b", "z"))


def test_a_table_without_a_target_is_refused_with_its_columns(tmp_path: Path):
    path = write_text(tmp_path / "people.csv", *PEOPLE)
    assert refusal(read_table, path, None) == (
        "the table people.csv needs a target, the column to predict: choose from age, colour, height, answer."
    )


@pytest.mark.parametrize("line", ["It was the best of times", ""])
def test_plain_text_is_no_table(line: str, tmp_path: Path):
    path = write_text(tmp_path / "book.txt", line, "it was the worst of times, it was the age of wisdom")
    assert refusal(read_table, path, None) == (
        "book.txt must be a table, with a delimiter between its cells, but got plain text: "
        "train an lstm or a gpt2 on plain text."
    )


def test_a_target_that_is_no_column_is_refused_with_the_nearest(tmp_path: Path):
    path = write_text(tmp_path / "people.csv", *PEOPLE)
    assert refusal(read_table, path, "anser") == (
        "people.csv must have the column 'anser', but got age, colour, height, answer: did you mean 'answer'?"
    )


def test_a_target_alone_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "answer", "yes", "no")
    assert refusal(read_table, path, "answer") == "a.csv must have columns beside its target, but got only 'answer'."


@pytest.mark.parametrize("cell", ["", " ", "NaN", "n/a", "NA", "?", "NULL"])
def test_a_missing_number_is_left_to_be_imputed_and_has_an_indicator(tmp_path: Path, cell: str):
    path = write_text(tmp_path / "a.csv", "age,height,answer", "1,5,yes", f"{cell},6,no", "3,7,yes")
    reading = read_table(path, "answer")
    assert reading.columns[0] == Column(name="age", kind="number", missing=True)
    np.testing.assert_array_equal(
        reading.parts["train"].inputs.values, [[1, 0, 5], [np.nan, 1, 6], [3, 0, 7]], strict=True
    )
    assert reading.notes == (
        "Missing values: 1 in 'age'; numbers and dates are imputed by the mean of the training part, "
        "and one more feature per column says where.",
    )


def test_a_missing_category_is_none_of_the_others_and_has_an_indicator(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "colour,answer", "red,yes", ",no", "blue,yes", "nan,no", "NA,yes")
    reading = read_table(path, "answer")
    (column,) = reading.columns
    assert column == Column(name="colour", kind="category", values=("NA", "blue", "red"), missing=True)
    assert column.features == ["colour = NA", "colour = blue", "colour = red", "colour is missing"]
    expected = [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert reading.parts["train"].inputs.values.tolist() == expected


@pytest.mark.parametrize("answers", [("1", "2", "", "2"), ("no", "yes", "", "yes")])
def test_rows_without_a_target_are_left_out_and_counted(tmp_path: Path, answers: tuple[str, ...]):
    rows = [f"{number},{answer}" for number, answer in enumerate(answers, 1)]
    reading = read_table(write_text(tmp_path / "a.csv", "x,answer", *rows), "answer")
    assert reading.notes == ("1 of 4 rows has no target and is left out (first: row 4).",)
    part = reading.parts["train"]
    assert part.inputs.values.tolist() == [[1], [2], [4]]
    assert part.inputs.name(2) == "a.csv row 5"
    assert isinstance(part.labels, Labels)
    assert part.labels.named()[0].tolist() == [0, 1, 1]


def test_a_target_that_is_missing_everywhere_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,answer", "1,", "2,")
    assert refusal(read_table, path, "answer") == (
        "column 'answer' of a.csv must hold what to predict, but got empty cells."
    )


def test_booleans_in_any_case_are_one_value_and_other_names_are_not(tmp_path: Path):
    rows = ["TRUE,Red,yes", "true,red,no", "True,red,yes", "FALSE,blue,no", "false,Blue,yes"] * 5
    reading = read_table(write_text(tmp_path / "a.csv", "new,colour,answer", *rows), "answer")
    assert [column.values for column in reading.columns] == [("FALSE", "TRUE"), ("Blue", "Red", "blue", "red")]
    assert reading.parts["train"].inputs.values[:5, :2].tolist() == [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0]]
    assert reading.notes == (
        "Column 'new' holds 'FALSE', 'false', which are one value.",
        "Column 'new' holds 'TRUE', 'True', 'true', which are one value.",
        "Column 'colour' holds values that differ by case only, and they are told apart: ('Blue', 'blue'), "
        "('Red', 'red').",
    )
    new = DelimitedFile(write_text(tmp_path / "b.csv", "new,colour", "tRUE,red", "False,blue"))
    assert read_rows(new, reading.columns).values[:, :2].tolist() == [[0, 1], [1, 0]]


def test_dates_become_their_parts_as_pandas_has_them(tmp_path: Path):
    days = pd.date_range("2019-11-03", periods=60, freq="37h")
    path = write_text(tmp_path / "a.csv", "when,day,y", *[f"{day},{day:%d.%m.%Y},{i}" for i, day in enumerate(days)])
    reading = read_table(path, "y")
    parts = ("year", "month", "weekday", "day of year", "elapsed days", "hour")
    assert reading.columns == (
        Column(name="when", kind="date", values=parts, date_format="ISO8601"),
        Column(name="day", kind="date", values=parts[:-1], date_format="%d.%m.%Y"),
    )
    assert reading.columns[0].features[0] == "when: year"
    values = reading.parts["train"].inputs.values.numpy()
    elapsed = (days - pd.Timestamp(0)) / pd.Timedelta(days=1)
    expected = np.column_stack([days.year, days.month, days.day_of_week, days.day_of_year, elapsed, days.hour])
    np.testing.assert_allclose(values[:, :6], expected)
    np.testing.assert_array_equal(values[:, 6:10], expected[:, :4])
    assert reading.notes == (
        "Column 'when' holds dates and becomes year, month, weekday, day of year, elapsed days, hour.",
        "Column 'day' holds dates and becomes year, month, weekday, day of year, elapsed days.",
    )


def test_the_parts_of_dates_with_offsets_are_those_that_the_clock_showed(tmp_path: Path):
    times = pd.date_range("2021-03-20 22:30", periods=60, freq="7h", tz="Europe/Berlin")
    rows = [f"{each.isoformat()},{'ab'[i % 2]}" for i, each in enumerate(times)]
    reading = read_table(write_text(tmp_path / "a.csv", "when,kind", *rows), "kind")
    found = dict(zip(reading.columns[0].values, reading.parts["train"].inputs.values.T.tolist(), strict=True))
    assert found["hour"] == (times.hour + times.minute / 60).tolist()
    assert found["weekday"] == times.day_of_week.tolist()
    assert found["elapsed days"] == ((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).tolist()


def test_dates_of_new_files_are_read_in_the_format_of_training(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "day,x,y", "03/04/2020,1,1", ",2,3", "25/12/2020,3,2")
    columns = read_table(path, "y").columns
    assert columns[0].date_format == "%d/%m/%Y"
    assert columns[0].missing
    new = DelimitedFile(write_text(tmp_path / "b.csv", "day,x", "02/01/2021,1", ",2"))
    features = read_rows(new, columns).values.numpy()
    np.testing.assert_array_equal(features[:, [0, 1, 5]], [[2021, 1, 0], [np.nan, np.nan, 1]])
    other = DelimitedFile(write_text(tmp_path / "c.csv", "day,x", "2021-01-02,1"))
    assert refusal(read_rows, other, columns) == (
        "row 2, column 'day' of c.csv must hold a date as in the training data, but got '2021-01-02'."
    )


def test_a_date_that_may_be_read_in_two_ways_is_said(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "day,y", "03/04/2020,1", "05/06/2020,2")
    assert read_table(path, "y").notes[1] == (
        "Dates of column 'day' are read with the month first; write 2020-12-31 if the day comes first."
    )


@pytest.mark.parametrize("name", ["", "id", "ID", "customer_id", "PassengerId", "Index"])
def test_identifiers_and_an_unnamed_index_are_left_out_and_said(tmp_path: Path, name: str):
    rows = [f"{700 - number},{number % 7},{number % 2}" for number in range(50)]
    reading = read_table(write_text(tmp_path / "a.csv", f"{name},size,y", *rows), "y")
    assert [column.name for column in reading.columns] == ["size"]
    assert reading.notes == (
        f"Column {name or 'column 1'!r} has another whole number in each row, as an index or identifier has, "
        "and is left out.",
    )


@pytest.mark.parametrize("name", ["width", "paid", "humidity", "hybrid"])
def test_other_numbers_that_differ_in_each_row_stay(tmp_path: Path, name: str):
    rows = [f"{number},{number % 2}" for number in range(50)]
    reading = read_table(write_text(tmp_path / "a.csv", f"{name},y", *rows), "y")
    assert ([column.name for column in reading.columns], reading.notes) == ([name], ())


def test_columns_of_texts_and_empty_ones_are_left_out_and_said(tmp_path: Path):
    rows = [f"{i % 9},Mr. {i} Smith,{f'C{i}' if i % 3 else 88 + i},,{i % 2}" for i in range(300)]
    reading = read_table(write_text(tmp_path / "a.csv", "x,name,cabin,,y", *rows), "y")
    assert [column.name for column in reading.columns] == ["x"]
    assert reading.notes == (
        "Column 'name' has 300 different texts in 300 rows and is left out.",
        "Column 'cabin' has 300 different texts in 300 rows and is left out.",
        "Column 'column 4' is empty and is left out.",
    )


def test_of_many_categories_the_commonest_are_kept(tmp_path: Path):
    rows = [f"town-{number % 120},{number % 2}" for number in range(500)]
    reading = read_table(write_text(tmp_path / "a.csv", "town,y", *rows), "y")
    (column,) = reading.columns
    assert column.values == tuple(sorted(f"town-{number}" for number in range(100)))
    note = "Of column 'town' the 100 commonest texts are categories; the others count as none of them."
    assert reading.notes == (note,)
    assert reading.parts["train"].inputs.values.sum(1).long().bincount().tolist() == [80, 420]


def test_columns_may_be_ignored(tmp_path: Path):
    path = write_text(tmp_path / "people.csv", *PEOPLE)
    assert [column.name for column in read_table(path, "answer", ["age", "3"]).columns] == ["colour"]
    assert refusal(read_table, path, "answer", ["hight"]) == (
        "people.csv must have the column 'hight', but got age, colour, height, answer: did you mean 'height'?"
    )
    assert refusal(read_table, path, "age", ["age"]) == "the target cannot be ignored, but got 'age' for both."
    assert refusal(read_table, path, "answer", ["age", "colour", "height"]) == (
        "people.csv must have columns beside its target, but got only 'answer'."
    )


def test_what_is_ignored_need_not_be_right(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,odd,y", *[f"{i},{i},{i % 2}" for i in range(50)], "1,inf,0")
    assert "odd" in refusal(read_table, path, "y")
    assert [column.name for column in read_table(path, "y", ["odd"]).columns] == ["x"]


def test_all_problems_of_a_file_are_in_one_message(tmp_path: Path):
    rows = [f"{i},{i},{i}.5,{i % 2}" for i in range(50)]
    path = write_text(tmp_path / "a.csv", "age,size,far,answer", *rows, '12 years,"3",inf,0', "7,1e39,1,1")
    assert refusal(read_table, path, "answer") == (
        "a.csv has 3 problems: "
        "(1) column 'age' of a.csv must hold numbers only, as it does elsewhere, but got '12 years' in row 52: "
        "correct the cell, or add --ignore; "
        "(2) row 53, column 'size' of a.csv must hold a number within ±3.4e38, but got '1e39'; "
        "(3) row 52, column 'far' of a.csv must hold a finite number, but got 'inf'."
    )


def test_all_problems_of_a_new_file_are_in_one_message(tmp_path: Path):
    columns = [Column(name=name, kind="number") for name in ("a", "b", "c")]
    new = DelimitedFile(write_text(tmp_path / "new.csv", "a,b,c", "1,2,3", "x,y,3"))
    assert refusal(read_rows, new, columns) == (
        "new.csv has 2 problems: "
        "(1) row 3, column 'a' of new.csv must hold a number, or nothing where there is no value, but got 'x'; "
        "(2) row 3, column 'b' of new.csv must hold a number, or nothing where there is no value, but got 'y'."
    )
    fewer = DelimitedFile(write_text(tmp_path / "fewer.csv", "c,d", "1,2"))
    assert refusal(read_rows, fewer, columns) == "fewer.csv must have the columns 'a', 'b', but got c, d."


class Held(CellTable):
    """A table in memory."""

    def __init__(self, name: str, header: list[str], rows: Sequence[Sequence[str]]):
        self.name, self.header, self.rows = name, header, rows

    def blocks(self, required: Collection[str] | None = None) -> Iterator[Block]:
        numbers = range(1, len(self.rows) + 1)
        columns = zip(self.header, zip(*self.rows, strict=True), strict=True)
        yield {name: Cells(self.name, name, numbers, texts) for name, texts in columns}


def test_a_table_in_memory_is_read_as_a_file_is(tmp_path: Path):
    header, *rows = csv.reader((*PEOPLE, ",blue,3,no"))
    held = learn_table(Held("the table", header, rows), "answer")
    read = read_table(write_text(tmp_path / "people.csv", *PEOPLE, ",blue,3,no"), "answer")
    assert (held.columns, held.notes) == (read.columns, read.notes)
    np.testing.assert_array_equal(held.parts["train"].inputs.values, read.parts["train"].inputs.values)
    assert held.parts["train"].inputs.name(0) == "the table row 1"


@pytest.mark.parametrize(
    ("cell", "number"),
    [("inf", "finite number"), ("-Infinity", "finite number"), ("1e39", "number within ±3.4e38")],
)
def test_a_number_beyond_all_bounds_is_refused(tmp_path: Path, cell: str, number: str):
    path = write_text(tmp_path / "a.csv", "age,answer", f"{cell},yes", "2,no")
    assert (
        refusal(read_table, path, "answer") == f"row 2, column 'age' of a.csv must hold a {number}, but got {cell!r}."
    )


@pytest.mark.parametrize(("commas", "got"), [("1,5", "1,5"), ("1," + "5" * 300, "1," + "5" * 38 + "…")])
def test_what_a_file_holds_is_cut_where_it_is_shown(tmp_path: Path, commas: str, got: str):
    path = write_text(tmp_path / "a.csv", "size,target", *[f'"{commas}",0', '"2,5",1'] * 5)
    assert f"but got '{got}': write" in refusal(read_table, path, "target")


def test_a_target_of_too_many_texts_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,answer", *[f"{i},user-{i}" for i in range(1_001)])
    assert refusal(read_table, path, "answer") == (
        "column 'answer' of a.csv must hold numbers, or at most 1,000 different texts, "
        "but got more texts, the first 'user-0' in row 2: choose another target."
    )


def test_a_table_of_which_all_columns_are_left_out_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "id,answer", *[f"user-{i},{i % 2}" for i in range(101)])
    assert refusal(read_table, path, "answer") == (
        "a.csv must have columns to learn from beside its target, but got none: "
        "Column 'id' has 101 different texts in 101 rows and is left out."
    )


def test_a_stray_text_among_numbers_is_named(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "age,answer", *[f"{i},{i % 2}" for i in range(50)], "12 years,1")
    assert refusal(read_table, path, "answer") == (
        "column 'age' of a.csv must hold numbers only, as it does elsewhere, "
        "but got '12 years' in row 52: correct the cell, or add --ignore."
    )


def test_unseen_categories_and_new_gaps_are_said_and_count_as_none_or_as_the_mean(tmp_path: Path):
    columns = read_table(write_text(tmp_path / "people.csv", *PEOPLE), "answer").columns
    rows = ("1,red,2", "1,bleu,2", ",violet,2", "4,,2")
    new = DelimitedFile(write_text(tmp_path / "more.csv", "age,colour,height", *rows))
    with pytest.warns(DataWarning) as caught:
        values = read_rows(new, columns).values
    np.testing.assert_array_equal(values, [[1, 0, 1, 2], [1, 0, 0, 2], [np.nan, 0, 0, 2], [4, 0, 0, 2]])
    assert [str(each.message) for each in caught] == [
        "1 of 4 rows of more.csv has no value in column 'age', where training data had one throughout, and gets the "
        "mean of the training part (first: row 4).",
        "2 of 4 rows of more.csv have a new category in column 'colour' that counts as none, such as 'bleu' "
        "(did you mean 'blue'?) (first: row 3).",
        "1 of 4 rows of more.csv has no value in column 'colour', where training data had one throughout, and counts "
        "as no category (first: row 5).",
    ]


def test_text_where_a_trained_model_expects_a_number_is_named(tmp_path: Path):
    table = DelimitedFile(write_text(tmp_path / "more.csv", "age", "1", "old"))
    assert refusal(read_rows, table, [Column(name="age", kind="number")]) == (
        "row 3, column 'age' of more.csv must hold a number, or nothing where there is no value, but got 'old'."
    )


def test_the_target_may_be_given_by_number_but_columns_of_a_model_go_by_name(tmp_path: Path):
    assert read_table(write_text(tmp_path / "a.csv", "x,y", "1,a", "2,b"), "2").target == "y"
    more = DelimitedFile(write_text(tmp_path / "b.csv", "x,y", "1,2"))
    assert refusal(read_rows, more, [Column(name="2", kind="number")]) == (
        "b.csv must have the column '2', but got x, y."
    )


def test_labels_that_are_written_differently_stay_different(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,code", *["0.5,01", "0.7,1", "0.9,2"] * 5)
    assert read_table(path, "code").parts["train"].labels.names == ("01", "1", "2")


def test_targets_that_would_become_one_number_are_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,y", *[f"{i},{10**18 + i}" for i in range(30)])
    assert refusal(lambda: read_table(path, "y")) == (
        "column 'y' of a.csv must hold numbers of at most 15 digits, to tell them apart, but got "
        "'1000000000000000000': subtract what they have in common."
    )


def test_thousands_beside_decimal_commas_are_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "sold;price;y", *["2.471;0,5;no", "999;1,25;yes"] * 10)
    assert refusal(lambda: read_table(path, "y")) == (
        "column 'sold' of a.csv must hold numbers that can be read in one way, but got '2.471' in a table with decimal "
        "commas: write 2471 or 2,471."
    )
    small = write_text(tmp_path / "b.csv", "share;price;y", *["0.471;0,5;no", "0.9;1,25;yes"] * 10)
    assert [column.kind for column in read_table(small, "y").columns] == ["number", "number"]


def test_an_identifier_is_left_out_where_rows_are_copies_too(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "user_id,x,y", *[f"{i % 25},{i % 25 / 7},{'ab'[i % 2]}" for i in range(30)])
    reading = read_table(path, "y")
    assert [column.name for column in reading.columns] == ["x"]
    assert reading.notes == (
        "Column 'user_id' has 25 different whole numbers in 30 rows, as an index or identifier has, and is left out.",
    )
