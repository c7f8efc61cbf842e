from pathlib import Path

import pytest

from data.written_files import refusal, write_text
from neuropil.data.pairs.files import Names, Row, find_objects


def rows_of(path: Path, wanted: Names = (None, None)) -> list[Row]:
    return list(find_objects(path, wanted).rows)


def test_two_texts_are_found_by_the_names_of_the_first_line(tmp_path: Path):
    path = write_text(
        tmp_path / "a.jsonl", '{"id": 1, "en": "cat", "de": "Katze"}', '{"de": "H\\u00fcte\\n", "id": 2, "en": "hats"}'
    )
    assert rows_of(path) == [(1, "cat", "Katze"), (2, "hats", "Hüte\n")]
    found = find_objects(path, (None, None))
    assert (found.named, found.names) == ("The texts of a.jsonl have names", ("en", "de"))


def test_texts_may_be_nested_as_in_hugging_face_datasets(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", '{"id": "0", "translation": {"en": "cat", "de": "Katze"}}')
    assert rows_of(path) == [(1, "cat", "Katze")]
    assert rows_of(path, ("de", "en")) == [(1, "Katze", "cat")]


def test_translation_may_be_the_name_of_a_text(tmp_path: Path):
    assert rows_of(write_text(tmp_path / "a.jsonl", '{"text": "cat", "translation": "Katze"}')) == [(1, "cat", "Katze")]


def test_texts_asked_for_by_name_are_found_among_several(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", '{"a": "x", "b": "y", "c": "z"}')
    assert rows_of(path, ("c", "a")) == [(1, "z", "x")]
    assert find_objects(path, ("c", "a")).named == ""


def test_empty_lines_and_nulls_are_empty_sides(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", '{"a": "x", "b": "y"}', " ", '{"a": null, "b": "y"}')
    assert rows_of(path) == [(1, "x", "y"), (2, "", ""), (3, "", "y")]


GOOD = '{"a": "x", "b": "y"}'


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([GOOD, '{"a": "x"'], "each line of a.jsonl must be a JSON object, but got something else in line 2."),
        ([GOOD, "", '["x", "y"]'], "each line of a.jsonl must be a JSON object, but got a list in line 3."),
        ([GOOD, "[" * 100_000], "each line of a.jsonl must be a JSON object, but got something else in line 2."),
        (["null"], "each line of a.jsonl must be a JSON object, but got null in line 1."),
        ([GOOD, '{"a": "x"}'], "each line of a.jsonl must have a text under 'b', but got nothing in line 2."),
        ([GOOD, '{"a": 1, "b": "y"}'], "each line of a.jsonl must have a text under 'a', but got a number in line 2."),
        (
            [GOOD, '{"a": "x", "b": ["y"]}'],
            "each line of a.jsonl must have a text under 'b', but got a list in line 2.",
        ),
        (['{"a": "x", "b": 1}'], "each line of a.jsonl must hold two texts, but got 1 in the first."),
        (['{"a": 1}'], "each line of a.jsonl must hold two texts, but got none in the first."),
        ([""], "a.jsonl must hold pairs of texts, but got an empty first line."),
        (
            ['{"a": "x", "b": "y", "c": "z"}'],
            "a.jsonl must have one column of sources and one of targets, such as source and target, "
            "but got 3: a, b, c: "
            "name them with --source-column and --target-column.",
        ),
        (
            [GOOD, '{"a": "\\ud83d", "b": "y"}'],
            "a.jsonl must hold whole characters, but got half a surrogate pair in line 2.",
        ),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path: Path, lines: list[str], sentence: str):
    assert refusal(rows_of, write_text(tmp_path / "a.jsonl", *lines)) == sentence


def test_an_empty_file_is_refused(tmp_path: Path):
    (tmp_path / "a.jsonl").touch()
    assert refusal(rows_of, tmp_path / "a.jsonl") == "a.jsonl must hold pairs of texts, but got an empty file."
