from pathlib import Path

import pytest

from data.written_files import refusal, write_text
from neuropil.data.formats.jsonl import read_objects, text_in

GOOD = '{"a": "x", "b": "y"}'


def test_objects_come_with_their_lines_and_empty_lines_are_empty_objects(tmp_path: Path):
    path = write_text(tmp_path / "a.jsonl", GOOD, " ", '{"a": null}')
    assert list(read_objects(path)) == [(1, {"a": "x", "b": "y"}), (2, {}), (3, {"a": None})]
    assert [text_in(found, "a", number, "a.jsonl") for number, found in read_objects(path)] == ["x", "", ""]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([GOOD, '{"a": "x"'], "each line of a.jsonl must be a JSON object, but got something else in line 2."),
        ([GOOD, "", '["x", "y"]'], "each line of a.jsonl must be a JSON object, but got a list in line 3."),
        ([GOOD, "[" * 100_000], "each line of a.jsonl must be a JSON object, but got something else in line 2."),
        (["null"], "each line of a.jsonl must be a JSON object, but got null in line 1."),
        (
            [GOOD, '{"a": "\\ud83d", "b": "y"}'],
            "a.jsonl must hold whole characters, but got half a surrogate pair in line 2.",
        ),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path: Path, lines: list[str], sentence: str):
    assert refusal(lambda: list(read_objects(write_text(tmp_path / "a.jsonl", *lines)))) == sentence
