import csv
import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.formats.text_tables import read_records, suffix_of

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=20)
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=8), st.booleans())
def test_a_tsv_holds_what_was_written_whatever_it_is(rows: list[tuple[str, str, str]], packed: bool):
    content = "".join("\t".join(row) + "\n" for row in rows).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        path.write_bytes(gzip.compress(content) if packed else content)
        first = rows[0][0].removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")  # there, it is a mark of the encoding
        assert list(read_records(path)) == [
            (1, [first, *rows[0][1:]]),
            *((number, list(row)) for number, row in enumerate(rows[1:], 2)),
        ]


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_a_csv_holds_what_the_standard_library_wrote(rows: list[tuple[str, str]]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
        assert [cells for _, cells in read_records(path)] == [["text", "label"], *map(list, rows)]


@pytest.mark.parametrize(
    ("name", "suffix"), [("a.tsv", ".tsv"), ("A.CSV.gz", ".csv"), ("a.b.conll", ".conll"), ("a", "")]
)
def test_gzip_does_not_hide_what_a_file_is(name: str, suffix: str):
    assert suffix_of(Path(name)) == suffix
