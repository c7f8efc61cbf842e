from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

from data.written_files import refusal, write_text
from neuropil.data.examples.dataset import Column
from neuropil.data.examples.tables import read_labelled_rows, read_rows, read_table
from neuropil.data.formats.delimited import DelimitedFile

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
    labels = read_labelled_rows(table, [Column(name="x", kind="number")], Column(name="answer", kind="category")).labels
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


@pytest.mark.parametrize(
    ("cell", "got"), [("", "an empty cell"), ("NaN", "'NaN'"), ("n/a", "'n/a'"), ("?", "'?'"), ("NULL", "'NULL'")]
)
def test_a_missing_number_is_named_with_row_and_column(tmp_path: Path, cell: str, got: str):
    path = write_text(tmp_path / "a.csv", "age,answer", "1,yes", f"{cell},no", "3,yes")
    sentence = f"row 3, column 'age' of a.csv must hold a value, but got {got}: fill it in or remove the row."
    assert refusal(read_table, path, "answer") == sentence
    path = write_text(tmp_path / "a.csv", "answer,age", "1,1", "2,2", f"2,{cell}")
    assert refusal(read_table, path, "age") == sentence.replace("row 3", "row 4")


@pytest.mark.parametrize(("cell", "got"), [("", "an empty cell"), ("nan", "'nan'")])
def test_a_missing_text_is_named_with_row_and_column(tmp_path: Path, cell: str, got: str):
    path = write_text(tmp_path / "a.csv", "colour,answer", "red,yes", f"{cell},no")
    assert refusal(read_table, path, "answer") == (
        f"row 3, column 'colour' of a.csv must hold a value, but got {got}: fill it in or remove the row."
    )
    path = write_text(tmp_path / "a.csv", "x,colour", "1,red", f"2,{cell}")
    assert refusal(read_table, path, "colour") == (
        f"row 3, column 'colour' of a.csv must hold a value, but got {got}: fill it in or remove the row."
    )


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e39"])
def test_a_number_beyond_all_bounds_is_refused(tmp_path: Path, cell: str):
    path = write_text(tmp_path / "a.csv", "age,answer", f"{cell},yes", "2,no")
    assert (
        refusal(read_table, path, "answer")
        == f"row 2, column 'age' of a.csv must hold a finite number, but got {cell!r}."
    )


def test_a_column_of_too_many_texts_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "id,answer", *[f"user-{i},{i % 2}" for i in range(101)])
    assert refusal(read_table, path, "answer") == (
        "column 'id' of a.csv must hold numbers, or at most 100 different texts, "
        "but got more texts, the first 'user-0' in row 2: "
        "remove the column."
    )


def test_a_stray_text_among_numbers_is_named(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "age,answer", *[f"{i},{i % 2}" for i in range(50)], "12 years,1")
    assert refusal(read_table, path, "answer") == (
        "column 'age' of a.csv must hold numbers only, as it does elsewhere, "
        "but got '12 years' in row 52: correct the cell."
    )


def test_an_unseen_category_is_named_with_row_column_and_the_known_ones(tmp_path: Path):
    columns = read_table(write_text(tmp_path / "people.csv", *PEOPLE), "answer").columns
    near = DelimitedFile(write_text(tmp_path / "more.csv", "age,colour,height", "1,red,2", "1,bleu,2"))
    assert refusal(read_rows, near, columns) == (
        "row 3, column 'colour' of more.csv must hold a category of the training data, "
        "but got 'bleu': did you mean 'blue'?"
    )
    far = DelimitedFile(write_text(tmp_path / "more.csv", "age,colour,height", "1,violet,2"))
    assert refusal(read_rows, far, columns) == (
        "row 2, column 'colour' of more.csv must hold a category of the training data, "
        "but got 'violet': it may be blue, red."
    )


def test_text_where_a_trained_model_expects_a_number_is_named(tmp_path: Path):
    table = DelimitedFile(write_text(tmp_path / "more.csv", "age", "1", "old"))
    assert refusal(read_rows, table, [Column(name="age", kind="number")]) == (
        "row 3, column 'age' of more.csv must hold a finite number, but got 'old'."
    )


def test_the_target_may_be_given_by_number_but_columns_of_a_model_go_by_name(tmp_path: Path):
    assert read_table(write_text(tmp_path / "a.csv", "x,y", "1,a", "2,b"), "2").target == "y"
    more = DelimitedFile(write_text(tmp_path / "b.csv", "x,y", "1,2"))
    assert refusal(read_rows, more, [Column(name="2", kind="number")]) == (
        "b.csv must have the column '2', but got x, y."
    )
