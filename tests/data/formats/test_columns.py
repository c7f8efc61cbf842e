import numpy as np
import pytest

from data.written_files import refusal
from neuropil.data.formats.columns import (
    Cells,
    ColumnRole,
    choose_columns,
    find_column,
    is_header,
    read_numbers,
    unclear_columns,
)

ROLES = (
    ColumnRole("sources", "--source-column", "source text"),
    ColumnRole("targets", "--target-column", "target"),
)


def cells(*texts: str) -> Cells:
    return Cells("a.csv", "x", range(2, 2 + len(texts)), texts)


def test_columns_are_chosen_by_name_or_number():
    names = ["id", "en", "de"]
    assert choose_columns(names, ("de", "en"), ROLES, "a.tsv") == [2, 1]
    assert choose_columns(names, ("3", "2"), ROLES, "a.tsv") == [2, 1]
    assert choose_columns(names[1:], ("de", None), ROLES, "a.tsv") == [1, 0]
    assert choose_columns(names[1:], (None, "de"), ROLES, "a.tsv") == [0, 1]
    assert choose_columns(names[1:], (None, None), ROLES, "a.tsv") == [None, None]


def test_a_name_that_is_a_number_is_a_name():
    assert find_column(["1700", "2", "1"], "1", "a.tsv") == 2


def test_columns_are_guessed_by_their_usual_names():
    assert choose_columns(["id", "Target", "Source"], (None, None), ROLES, "a.tsv") == [2, 1]
    assert choose_columns(["text", "source", "x", "target"], (None, None), ROLES, "a.tsv") == [1, 3]
    assert choose_columns(["other", "target"], (None, None), ROLES, "a.tsv") == [0, 1]
    assert choose_columns(["source", "target", "text"], (None, "source"), ROLES, "a.tsv") == [2, 0]
    assert choose_columns(["target", "source"], (None, None), ROLES, "a.tsv", guess=False) == [None, None]


def test_a_missing_column_is_offered_the_nearest():
    assert refusal(choose_columns, ["english", "german"], ("englisch", None), ROLES, "a.tsv") == (
        "a.tsv must have the column 'englisch', but got english, german: did you mean 'english'?"
    )
    assert (
        refusal(find_column, ["english", "x" * 99], "3", "a.tsv")
        == f"a.tsv must have the column '3', but got english, {'x' * 40}…."
    )


def test_one_column_is_not_two():
    assert refusal(choose_columns, ["en", "de"], ("en", "1"), ROLES, "a.tsv") == (
        "sources and targets must be different columns, but got '1' for both."
    )


@pytest.mark.parametrize("wanted", [(None, None), ("en", None), (None, "de")])
def test_of_more_than_two_columns_both_must_be_clear(wanted: tuple[str | None, str | None]):
    names = ["id", "en", "de"]
    assert None in choose_columns(names, wanted, ROLES, "a.tsv")
    assert str(unclear_columns(names, ROLES, "a.tsv")) == (
        "a.tsv must have one column of sources and one of targets, such as source and target, but got 3: id, en, de: "
        "name them with --source-column and --target-column."
    )


def test_names_are_short_and_different_and_no_numbers():
    assert is_header(["Text", "other"], {"text"}.__contains__)
    assert not is_header(["Text", "other"], {"text"}.__contains__, every=True)
    assert not is_header(["text", " TEXT"], {"text"}.__contains__)
    assert not is_header(["text", "x" * 41], {"text"}.__contains__)
    assert not is_header(["text", ""], {"text"}.__contains__)
    assert not is_header(["1", "2.5"], str.isascii)
    assert is_header(["", "text", "label", "x" * 41], {"text", "label"}.__contains__)


def test_numbers_are_finite_and_gaps_are_gaps():
    np.testing.assert_array_equal(read_numbers(cells("1", " 2.5", "-1e3")), [1, 2.5, -1000])
    np.testing.assert_array_equal(read_numbers(cells("1", "", "n/a", "nan"), gaps=True), [1, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("gaps", [False, True])
def test_a_number_that_is_none_is_named(gaps: bool):
    what = "a number, or nothing where there is no value" if gaps else "a finite number"
    rule = "row 3, column 'x' of a.csv must hold"
    assert refusal(lambda: read_numbers(cells("1", "x"), gaps=gaps)) == f"{rule} {what}, but got 'x'."
    assert refusal(lambda: read_numbers(cells("1", "inf"), gaps=gaps)) == f"{rule} a finite number, but got 'inf'."
    for number in ("1e39", "-1e+400"):
        sentence = f"{rule} a number within ±3.4e38, but got {number!r}."
        assert refusal(lambda number=number: read_numbers(cells("1", number), gaps=gaps)) == sentence
    assert refusal(lambda: read_numbers(cells("1", "1" * 301), gaps=gaps)) == (
        f"{rule} a number within ±3.4e38, but got '{'1' * 40}…'."
    )


def test_a_value_that_is_missing_is_named():
    assert refusal(read_numbers, cells("1", " ")) == (
        "row 3, column 'x' of a.csv must hold a value, but got an empty cell: fill it in or remove the row."
    )
