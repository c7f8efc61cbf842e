import gzip
from pathlib import Path

import pytest

from neuropil.errors import DataWarning, InputError
from neuropil.tasks.word_vectors.questions import AnalogyQuestions, SimilarityPairs, read_questions


def written(folder: Path, text: str, name: str = "questions.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_analogies_are_read_by_section(tmp_path: Path):
    path = written(tmp_path, ": family\nboy girl brother sister\n\n: plural\ncat cats dog dogs\n")
    assert read_questions(path) == AnalogyQuestions(
        {"family": [("boy", "girl", "brother", "sister")], "plural": [("cat", "cats", "dog", "dogs")]}
    )


def test_analogies_without_a_section_are_in_that_of_their_file(tmp_path: Path):
    path = written(tmp_path, "boy girl brother sister\n")
    assert read_questions(path) == AnalogyQuestions({"questions": [("boy", "girl", "brother", "sister")]})


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\nlove\tsex\t6.77\ntiger\tcat\t7.35\n",
        "Word 1,Word 2,Human (mean)\nlove,sex,6.77\r\ntiger,cat,7.35\r\n",
        "love sex 6.77\ntiger  cat 7.35",
    ],
)
def test_pairs_are_read_between_tabs_commas_or_spaces(tmp_path: Path, text: str):
    path = written(tmp_path, text)
    assert read_questions(path) == SimilarityPairs([("love", "sex"), ("tiger", "cat")], [6.77, 7.35])


def test_packed_files_are_read_as_plain_ones(tmp_path: Path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress("café\tthé\t5\n".encode()))
    assert read_questions(path) == SimilarityPairs([("café", "thé")], [5.0])


def test_lines_that_do_not_fit_are_left_out_and_said(tmp_path: Path):
    path = written(tmp_path, ": family\nboy girl brother sister\nboy girl\nhe she his\n")
    with pytest.warns(DataWarning) as said:
        assert len(list(read_questions(path).keys)) == 1
    assert str(said[0].message) == (
        "2 of 4 lines of questions.txt have not four words and are left out (first: line 3)."
    )
    path = written(tmp_path, "love\tsex\t6.77\ntiger\tcat\tmuch\n", "pairs.tsv")
    with pytest.warns(DataWarning) as said:
        read_questions(path)
    assert str(said[0].message) == (
        "1 of 2 lines of pairs.tsv is not two words and a number and is left out (first: line 2)."
    )


def test_a_file_with_neither_is_refused(tmp_path: Path):
    for text in ("", "a sentence that is no question at all\n"):
        with pytest.raises(InputError) as error:
            read_questions(written(tmp_path, text))
        assert str(error.value) == (
            "questions.txt must hold analogies (four words on a line) or pairs (two words and a number), but got "
            "neither."
        )
    with pytest.raises(InputError) as error:
        read_questions(written(tmp_path, ": family\n"))
    assert str(error.value) == "questions.txt must hold analogies, four words on a line, but got none."
