"""One long text in three parts."""

import gzip
from pathlib import Path
from pydoc_data.topics import topics

import pandas as pd
import pytest

from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.corpus.files import LEAST, TextDataConfig, prepare_text, read_text
from neuropil.data.formats.memory import in_memory
from neuropil.errors import InputError

LINES = "".join(f"line {number}\n" for number in range(1_000))


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_the_parts_are_the_text_one_after_the_other_cut_where_lines_begin(tmp_path: Path):
    corpus = prepare_text(TextDataConfig(data=(written(tmp_path, "a.txt", LINES.encode()),)))
    assert corpus.train + corpus.validation + corpus.test == LINES.removesuffix("\n")
    assert corpus.validation.startswith("line ")
    assert corpus.test.startswith("line ")
    assert len(corpus.test) == pytest.approx(0.05 * len(LINES), abs=20)
    assert len(corpus.validation) == pytest.approx(0.05 * len(LINES), abs=20)
    assert corpus.source == f"{len(LINES) - 1:,} characters (a.txt)"


def test_one_long_line_is_cut_where_the_shares_say(tmp_path: Path):
    corpus = prepare_text(TextDataConfig(data=(written(tmp_path, "a.txt", b"ab" * 500),)))
    assert [len(part) for part in (corpus.train, corpus.validation, corpus.test)] == [900, 50, 50]


def test_gzip_and_several_files_are_read_one_after_the_other(tmp_path: Path):
    first, second = (
        written(tmp_path, "a.txt", b"a" * 300),
        written(tmp_path, "b.gz", gzip.compress("ü\r\nb".encode() * 100)),
    )
    corpus = prepare_text(TextDataConfig(data=(first, second)))
    assert corpus.train + corpus.validation + corpus.test == "a" * 300 + "\n\n" + "ü\nb" * 100
    assert corpus.source == "602 characters (a.txt, b.gz)"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"short", f"a.txt must have at least {LEAST} characters to learn from, but got 5."),
        (b"\xff" * 300, "a.txt must be text in UTF-8, but got other bytes in line 1: save it as UTF-8."),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(tmp_path: Path, content: bytes, sentence: str):
    with pytest.raises(InputError) as error:
        prepare_text(TextDataConfig(data=(written(tmp_path, "a.txt", content),)))
    assert str(error.value) == sentence


def test_no_paragraph_of_the_documentation_stands_in_it_twice():
    text, note = python_documentation()
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    assert len(set(paragraphs)) == len(paragraphs)
    whole = {" ".join(part.split()) for topic in topics.values() for part in topic.split("\n\n")}
    assert whole - {""} <= set(paragraphs) | {part for part in whole if "\n" in part}
    assert 0.6 * sum(map(len, topics.values())) < len(text) < sum(map(len, topics.values()))
    assert note.endswith("characters stand in paragraphs that occur twice, and are left out.")
    assert python_documentation()[0] == text


def test_a_folder_is_all_its_files_in_the_order_of_their_names(tmp_path: Path):
    folder = tmp_path / "texts"
    (folder / "inner").mkdir(parents=True)
    (folder / ".git").mkdir()
    written(folder, "b.txt", b"second\n")
    written(folder, "a.txt.gz", gzip.compress(b"first\n"))
    written(folder, "inner/c.txt", b"third\n")
    written(folder, ".git/d.txt", b"hidden\n")
    assert read_text([folder]) == "first\n\nsecond\n\nthird"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as error:
        read_text([tmp_path / "empty"])
    assert (
        str(error.value)
        == f"a folder of texts must hold files, but got {(tmp_path / 'empty').as_posix()!r} without any."
    )


def test_texts_in_memory_are_those_of_files(tmp_path: Path):
    halves = LINES[:4_000], LINES[4_000:].removesuffix("\n")
    files = tuple(written(tmp_path, f"{number}.txt", half.encode()) for number, half in enumerate(halves))
    corpus = prepare_text(TextDataConfig(data=files))
    for given in (list(halves), iter(halves), pd.Series(halves), {"text": list(halves), "id": [1, 2]}):
        found = prepare_text(TextDataConfig(data=in_memory(given)))
        assert found.parts == corpus.parts
    assert prepare_text(TextDataConfig(data=in_memory(LINES))).source == f"{len(LINES):,} characters (text in memory)"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("a\nshort one", "text in memory must have at least 200 characters to learn from, but got 11."),
        (
            [1, 2, 3],
            "the list in memory must hold texts, in a column such as 'text' if there are several, "
            "but got list in memory (x 3 int64).",
        ),
        (
            {"a": ["b"], "c": ["d"]},
            "the mapping in memory must hold texts, in a column such as 'text' if there are several, "
            "but got mapping in memory (a 1 text, c 1 text).",
        ),
    ],
)
def test_what_is_no_text_to_learn_from_is_refused(given: object, sentence: str):
    with pytest.raises(InputError) as caught:
        prepare_text(TextDataConfig(data=in_memory(given)))
    assert str(caught.value) == sentence


def test_parts_of_a_text_are_kept_as_they_are():
    given = {"train": [LINES], "test": ["one", "two"]}
    corpus = prepare_text(TextDataConfig(data=in_memory(given, parts=True)))
    assert corpus.test == "one\n\ntwo"
    assert corpus.train + corpus.validation == LINES
    assert 0.04 < len(corpus.validation) / len(LINES) < 0.06
    whole = prepare_text(TextDataConfig(data=in_memory({**given, "validation": ["three"]}, parts=True)))
    assert (whole.train, whole.validation, whole.test) == (LINES, "three", "one\n\ntwo")


@pytest.mark.parametrize("text", ["\n" * 500, " \t\r\n" * 200, "\u3000" * 500])
def test_white_space_is_no_text_to_learn_from(tmp_path: Path, text: str):
    (tmp_path / "blank.txt").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        prepare_text(TextDataConfig(data=(tmp_path / "blank.txt",)))
    assert str(error.value) == ("blank.txt must have at least 200 characters to learn from, but got white space alone.")
