import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil import progress
from neuropil.data.formats import lines as text_lines
from neuropil.data.formats.lines import Tally, count_copies, read_lines

line = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r") | st.sampled_from("\u2028\x85\x0b\x0c\x1c\ufeff")
)


def lines_of(path: Path) -> list[str]:
    return list(read_lines(path))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(line, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(1, 20),
)
def test_lines_end_at_line_feeds_and_nowhere_else(
    lines: list[str], end: str, packed: bool, marked: bool, ended: bool, block: int
):
    content = end.join([*lines, ""] if ended and lines else lines).encode("utf-8-sig" if marked else "utf-8")
    kept = lines if ended or (lines and lines[-1]) else lines[:-1]
    if not marked and kept:
        kept = [kept[0].removeprefix("\ufeff"), *kept[1:]]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "BYTES_PER_BLOCK", block)
        path = Path(folder) / "text"
        path.write_bytes(gzip.compress(content) if packed else content)
        assert lines_of(path) == list(read_lines(path, progress=True)) == kept


def test_a_carriage_return_within_a_line_is_text(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\r\nthree\r")
    assert lines_of(tmp_path / "a.txt") == ["one\rtwo", "three"]


def test_characters_are_not_normalised(tmp_path: Path):
    composed, combined = "é", "e\u0301"
    assert lines_of(write_text(tmp_path / "a.txt", composed, combined)) == [composed, combined]


def test_lines_are_read_as_they_are_asked_for(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"good\n" * 200_000 + b"\xff\n")
    assert next(read_lines(tmp_path / "a.txt")) == "good"


@pytest.mark.parametrize("packed", [False, True])
def test_a_progress_bar_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(text_lines, "BYTES_PER_BLOCK", 100)
    lines = [f"line {number}" for number in range(1_000)]
    content = "\n".join(lines).encode()
    (tmp_path / "a.txt").write_bytes(gzip.compress(content) if packed else content)
    assert list(read_lines(tmp_path / "a.txt", progress=True)) == lines


@pytest.mark.parametrize("packed", [False, True])
def test_the_line_that_is_not_utf_8_is_named(tmp_path: Path, packed: bool):
    content = b"good\n" * 200_000 + "größe\n".encode("latin-1")
    (tmp_path / "a.txt").write_bytes(gzip.compress(content) if packed else content)
    assert (
        refusal(lines_of, tmp_path / "a.txt")
        == "a.txt must be text in UTF-8, but got other bytes in line 200,001: save it as UTF-8."
    )


def test_a_damaged_gzip_file_is_refused(tmp_path: Path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"good\n" * 100_000)[:-20])
    assert refusal(lines_of, tmp_path / "a.gz") == (
        "a.gz must be a whole gzip file, but got one that is cut off or damaged: copy or download it again."
    )


def test_a_missing_file_is_offered_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "pairs.tsv", "a\tb")
    assert (
        refusal(lines_of, Path("pears.tsv"))
        == "texts are read from files that exist, but got 'pears.tsv': did you mean 'pairs.tsv'?"
    )
    assert refusal(lines_of, Path("no/where.tsv")) == "texts are read from files that exist, but got 'no/where.tsv'."


def test_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    assert refusal(lines_of, Path("texts")) == "texts are read from files, but got the folder 'texts'."


def test_oddities_are_counted_with_the_line_of_the_first():
    tally = Tally("is odd", "are odd")
    tally.add(7)
    assert tally.note(1_200, "texts") == "1 of 1,200 texts is odd (first: line 7)."
    tally.add(9)
    assert tally.note(1_200, "texts") == "2 of 1,200 texts are odd (first: line 7)."


def test_the_first_of_what_is_counted_may_have_the_number_0():
    tally = count_copies()
    tally.add(0)
    tally.add(5)
    assert tally.note(7, "rows", "row") == "2 of 7 rows are exact copies of earlier ones (first: row 0)."
