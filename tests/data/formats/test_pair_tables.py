import csv
import gzip
from pathlib import Path

import pytest

from data.written_files import refusal, write_text
from neuropil.data.formats.pair_tables import find_table
from neuropil.data.pairs.columns import Names, Row


def rows_of(path: Path, wanted: Names = (None, None)) -> list[Row]:
    return list(find_table(path, wanted).rows)


def test_a_tsv_needs_no_header_and_knows_no_quotes(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", 'the 5" disk\tdie 5"-Platte', '"quoted"\t „Zitat“ ', "a, b; c|d\te")
    assert rows_of(path) == [(1, 'the 5" disk', 'die 5"-Platte'), (2, '"quoted"', " „Zitat“ "), (3, "a, b; c|d", "e")]
    assert find_table(path, (None, None)).named == ""


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_has_quotes_as_spreadsheets_write_them(tmp_path: Path, delimiter: str):
    pairs = [('the 5" disk', "die 5-Zoll-Platte"), ("one, two; three", "two\nlines"), (" space ", "é")]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows(pairs)
    assert rows_of(tmp_path / "a.csv") == [(1, *pairs[0]), (3, *pairs[1]), (4, *pairs[2])]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tsv.gz", "a.CSV.gz", "a.txt"])
def test_names_in_the_first_line_are_no_pair(tmp_path: Path, name: str):
    between = "," if ".csv" in name.lower() else "\t"
    content = f"en{between}de\ncat{between}Katze\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = find_table(tmp_path / name, (None, None))
    assert found.named == f"The first line of {name} is taken for the names of its columns"
    assert found.names == ("en", "de")
    assert list(found.rows) == [(2, "cat", "Katze")]


def test_columns_asked_for_by_name_are_found_among_several(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "id\tKatze \tcat", "1\tHund\tdog")
    assert rows_of(path, ("cat", "Katze")) == [(2, "dog", "Hund")]
    assert find_table(path, ("cat", "Katze")).named == ""


def test_one_of_two_columns_is_enough_to_name(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "Katze\tcat", "Hund\tdog")
    assert rows_of(path, ("cat", None)) == [(2, "dog", "Hund")]
    assert find_table(path, ("cat", None)).names == ("cat", "Katze")


def test_empty_lines_and_sides_are_handed_on_with_their_numbers(tmp_path: Path):
    assert rows_of(write_text(tmp_path / "a.tsv", "a\tb", "", "\tc", "d\t")) == [
        (1, "a", "b"),
        (2, "", ""),
        (3, "", "c"),
        (4, "d", ""),
    ]
    assert rows_of(write_text(tmp_path / "a.csv", "a,b", "", ",c")) == [(1, "a", "b"), (2, "", ""), (3, "", "c")]


@pytest.mark.parametrize(
    ("name", "lines", "sentence"),
    [
        ("a.tsv", ["a\tb", "c"], "each line of a.tsv must have 2 columns, as the first has, but got 1 in line 2."),
        (
            "a.tsv",
            ["a\tb", "", "c\td\te"],
            "each line of a.tsv must have 2 columns, as the first has, but got 3 in line 3.",
        ),
        ("a.csv", ["a,b", "c,d,e"], "each line of a.csv must have 2 columns, as the first has, but got 3 in line 2."),
        (
            "a.tsv",
            ["one, two"],
            "a.tsv must have two columns with a tab between them, but got one: parallel texts are given as two files.",
        ),
        ("a.csv", ["one"], "a.csv must have two columns, but got one: parallel texts are given as two files."),
        (
            "a.tsv",
            ["a\tb\tc"],
            "a.tsv must have two columns, or two that you name, but got 3: a, b, c: choose two with --source-column and --target-column.",
        ),
        ("a.tsv", ["", "a\tb"], "a.tsv must hold pairs of texts, but got an empty first line."),
        (
            "a.csv",
            ["a,b", '"1,2', *["3,4"] * 50_000],
            "a.csv must be a table of text, but got a field larger than field limit (131072): is there a quote that never ends?",
        ),
        *(
            (
                "a.csv",
                lines,
                "a.csv must be a table of text, but got a carriage return inside a cell: "
                "put the cell in quotes, or end lines with line feeds.",
            )
            for lines in (["a\rb,c"], ["a,b", "c\rd,e"])
        ),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path: Path, name: str, lines: list[str], sentence: str):
    assert refusal(rows_of, write_text(tmp_path / name, *lines)) == sentence


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).touch()
    assert refusal(rows_of, tmp_path / name) == f"{name} must hold pairs of texts, but got an empty file."


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_the_line_that_is_not_utf_8_is_named(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"a\tb\nc\t\xe4\n")
    assert (
        refusal(rows_of, tmp_path / name)
        == f"{name} must be text in UTF-8, but got other bytes in line 2: save it as UTF-8."
    )
