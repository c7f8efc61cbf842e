"""Texts in plain files, JSONL and Parquet, in folders and patterns: the same text wherever it stands."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuropil.data.corpus import sources
from neuropil.data.corpus.files import TextDataConfig, prepare_text, read_text
from neuropil.data.corpus.sources import text_files
from neuropil.data.formats import lines
from neuropil.data.formats.lines import read_characters, read_lines
from neuropil.data.formats.memory import in_memory
from neuropil.errors import InputError

DOCUMENTS = [f"Document {number} says ü 日本 {'again ' * number}\nand ends." for number in range(30)]


def write_jsonl(path: Path, documents: list[str], name: str = "text") -> Path:
    content = "".join(json.dumps({"id": number, name: text}) + "\n" for number, text in enumerate(documents)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_parquet(path: Path, documents: Sequence[str | None], name: str = "text") -> Path:
    columns = {"id": [*range(len(documents))], name: documents}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=7)
    return path


def complaint(*paths: Path, text_column: str | None = None) -> str:
    with pytest.raises(InputError) as error:
        "".join(text_files(paths, text_column).pieces())
    return str(error.value)


@given(
    text=st.text(alphabet="aé日\U0001f600\r\n", max_size=60),
    size=st.integers(1, 7),
    mark=st.booleans(),
)
def test_characters_are_those_of_the_lines_whatever_a_block_ends_in(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, mark: bool
):
    path = tmp_path_factory.mktemp("texts") / "a.txt"
    path.write_bytes(text.encode("utf-8-sig" if mark else "utf-8"))
    expected = "\n".join(read_lines(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BYTES_PER_BLOCK", size)
        assert "".join(read_characters(path)) == expected


@pytest.mark.parametrize("content", [b"a\nb\nc\xff\nd", b"a\nb\nc\xe6\x97"])
def test_bytes_that_are_no_utf8_are_found_by_their_line(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a.txt").write_bytes(content)
    for size in (1, 2, 100):
        monkeypatch.setattr(lines, "BYTES_PER_BLOCK", size)
        sentence = "a.txt must be text in UTF-8, but got other bytes in line 3: save it as UTF-8."
        assert complaint(tmp_path / "a.txt") == sentence


def test_the_text_is_the_same_wherever_its_documents_stand(tmp_path: Path):
    expected = "\n\n".join(DOCUMENTS)
    (tmp_path / "plain").mkdir()
    for number, text in enumerate(DOCUMENTS):
        (tmp_path / "plain" / f"{number:02}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "parquet").mkdir()
    (tmp_path / "jsonl").mkdir()
    for number, begin in enumerate((0, 10, 20)):
        write_parquet(tmp_path / "parquet" / f"{number}.parquet", [*DOCUMENTS[begin : begin + 10]])
        write_jsonl(tmp_path / "jsonl" / f"{number}.jsonl{'.gz' * (number % 2)}", DOCUMENTS[begin : begin + 10])
    for name in ("plain", "parquet", "jsonl", "parquet/*.parquet", "jsonl/*.jsonl*", "**/?.parquet"):
        assert read_text([tmp_path / name]) == expected, name


def test_empty_rows_are_passed_over_and_line_ends_are_line_feeds(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"text": "a\\r\\nb"}\n\n{}\n{"text": null}\n{"text": ""}\n{"text": "c"}\n')
    parquet = write_parquet(tmp_path / "a.parquet", ["a\r\nb", None, "", "c"])
    for path in (tmp_path / "a.jsonl", parquet):
        assert read_text([path]) == "a\nb\n\nc"
        assert [*text_files([path]).lines()] == ["a", "b", "", "c", ""]


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_a_dictionary_of_texts_is_a_column_of_texts(tmp_path: Path, kind: pyarrow.DataType):
    """As pandas writes a category."""
    columns = {"n": pyarrow.array([1, 1, 2]), "body": pyarrow.array(["a", "b", "a"], kind)}
    table = pyarrow.table({name: values.dictionary_encode() for name, values in columns.items()})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert read_text([tmp_path / "a.parquet"]) == "a\n\nb\n\na"


def test_the_column_of_texts_is_known_by_its_name_by_being_alone_or_by_the_user(tmp_path: Path):
    for write, suffix in ((write_jsonl, "jsonl"), (write_parquet, "parquet")):
        alone = write(tmp_path / f"alone.{suffix}", DOCUMENTS, "body")
        assert read_text([alone]) == "\n\n".join(DOCUMENTS)
    (tmp_path / "two.jsonl").write_text('{"title": "a", "Content": "b"}\n{"title": "c", "Content": "d"}\n')
    assert read_text([tmp_path / "two.jsonl"]) == "b\n\nd"
    assert "".join(text_files([tmp_path / "two.jsonl"], "title").pieces()) == "a\n\nc"


def test_of_a_folder_with_shards_other_files_are_left_out_and_named(tmp_path: Path):
    write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    (tmp_path / "README.md").write_text("on the data")
    (tmp_path / "_SUCCESS").touch()
    found = text_files([tmp_path])
    assert "".join(found.pieces()) == "\n\n".join(DOCUMENTS)
    name = tmp_path.name
    assert found.notes == (f"2 files of {name} are neither JSONL nor Parquet, and are left out: README.md, _SUCCESS.",)
    corpus = prepare_text(TextDataConfig(data=(tmp_path,)))
    assert corpus.notes == found.notes


def test_a_file_is_read_once_whatever_leads_to_it(tmp_path: Path):
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, begin in enumerate((0, 10, 20)):
        write_jsonl(folder / f"{number}.jsonl", DOCUMENTS[begin : begin + 10])
    (folder / "latest.jsonl").symlink_to("2.jsonl")
    (folder / "other.jsonl").write_bytes((folder / "2.jsonl").read_bytes())  # a file of its own
    found = text_files([folder])
    assert "".join(found.pieces()) == "\n\n".join([*DOCUMENTS, *DOCUMENTS[20:]])
    assert found.notes == ("1 of 5 files is the same as one before, and is read once: latest.jsonl.",)
    one = folder / "1.jsonl"
    twice = text_files([one, folder / ".." / "shards" / "[01].jsonl", one])
    assert [path.name for path in twice.files] == ["1.jsonl", "0.jsonl"]
    assert twice.notes == ("2 of 4 files are the same as one before, and are read once: 1.jsonl, 1.jsonl.",)
    assert prepare_text(TextDataConfig(data=(folder,))).notes == found.notes


def test_how_large_a_text_is_is_told_about_right(tmp_path: Path):
    text = "".join(f"{number} is not {number + 1}. " for number in range(20_000))
    size = len(text)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    parquet = write_parquet(tmp_path / "a.parquet", [text[begin : begin + 1_000] for begin in range(0, size, 1_000)])
    assert text_files([tmp_path / "a.txt"]).num_bytes == size
    assert 0.9 * size < text_files([parquet]).num_bytes < 1.5 * size
    assert size / 3 < text_files([tmp_path / "a.txt.gz"]).num_bytes < 3 * size


@pytest.mark.parametrize(
    ("value", "got"), [("5", "a number"), ("true", "a truth value"), ("[]", "a list"), ('{"a": "b"}', "an object")]
)
@pytest.mark.parametrize("before", ["", "\n", '{"text": "a"}\n{"text": null}\n\n'])
@pytest.mark.parametrize("beside", ["", ', "title": "not the text"'])
def test_what_is_no_text_is_named_with_its_line(tmp_path: Path, value: str, got: str, before: str, beside: str):
    """It is not passed over for another field that holds one."""
    (tmp_path / "a.jsonl").write_text(f'{before}{{"text": {value}{beside}}}\n{{"text": "c", "title": "d"}}\n')
    line = before.count("\n") + 1
    assert (
        complaint(tmp_path / "a.jsonl")
        == f"each line of a.jsonl must have a text under 'text', but got {got} in line {line}."
    )


def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path):
    (tmp_path / "two.jsonl").write_text('{"title": "a", "body": "b"}\n')
    (tmp_path / "later.jsonl").write_text('{"text": "a"}\n{"id": 3}\n')
    (tmp_path / "numbers.jsonl").write_text('{"id": 3}\n')
    (tmp_path / "plain.txt").write_text("plain")
    numbers = tmp_path / "numbers.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "b": [2.0]}), numbers)
    whole = write_parquet(tmp_path / "whole.parquet", [*DOCUMENTS])
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:-20])
    (tmp_path / "whole.parquet.gz").write_bytes(gzip.compress(whole.read_bytes()))
    fix = "copy or download it again"
    assert complaint(tmp_path / "two.jsonl") == (
        "two.jsonl must have one column of texts, such as text, but got 2: title, body: name them with --text-column."
    )
    assert complaint(tmp_path / "two.jsonl", text_column="titel") == (
        "two.jsonl must have the column 'titel', but got title, body: did you mean 'title'?"
    )
    assert complaint(tmp_path / "later.jsonl") == (
        "each line of later.jsonl must have a text under 'text', but got nothing in line 2."
    )
    assert complaint(tmp_path / "numbers.jsonl") == (
        "each line of numbers.jsonl must have a text, but got none in line 1, of id."
    )
    assert complaint(tmp_path / "numbers.jsonl", text_column="id") == (
        "each line of numbers.jsonl must have a text under 'id', but got a number in line 1."
    )
    assert complaint(numbers) == "numbers.parquet must have a column of texts, but got none in a, b."
    assert complaint(numbers, text_column="a") == (
        "numbers.parquet must have a column of texts, but got something else in 'a'."
    )
    assert complaint(tmp_path / "cut.parquet") == (
        f"cut.parquet must be a whole Parquet file, but got one that is cut off or damaged: {fix}."
    )
    assert complaint(tmp_path / "whole.parquet.gz") == (
        "a Parquet file is compressed inside, but got whole.parquet.gz: unpack it, as in gunzip whole.parquet.gz."
    )
    pattern = tmp_path / "*.ndjson"
    assert complaint(pattern) == f"a pattern must match files, but got {pattern.as_posix()!r} without any."
    assert complaint(tmp_path / "plain.txt", text_column="a") == (
        "--text-column names a column of JSONL or Parquet, but got 'a' for plain.txt: leave it out."
    )


@pytest.mark.parametrize(("data", "name"), [((), "the embedded text"), ("in memory\n" * 50, "text in memory")])
def test_a_column_is_refused_where_there_is_none(data: object, name: str):
    given = in_memory(data) if data else ()
    with pytest.raises(InputError) as error:
        prepare_text(TextDataConfig(data=given, text_column="a"))
    sentence = f"--text-column names a column of JSONL or Parquet, but got 'a' for {name}: leave it out."
    assert str(error.value) == sentence


def test_without_pyarrow_parquet_is_refused_with_the_extra_that_has_it(tmp_path: Path):
    path = write_parquet(tmp_path / "a.parquet", [*DOCUMENTS])
    program = f"""
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from neuropil.data.corpus.sources import text_files
from neuropil.extras import MissingExtraError
try:
    text_files([Path({str(path)!r})]).num_bytes
except MissingExtraError as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(sources.__file__).parents[3])}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == (
        "a.parquet, a Parquet file, needs the packages of neuropil[parquet], but got no pyarrow: "
        "pip install 'neuropil[parquet]'."
    )
