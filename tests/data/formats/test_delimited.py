import csv
import gzip
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.formats.delimited import ROWS_PER_BLOCK, DelimitedFile

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]) | st.sampled_from('",;|\t'), max_size=6
).map(str.strip)


def cells_of(path: Path) -> list[tuple[str, ...]]:
    columns = [
        [text for block in DelimitedFile(path).blocks() for text in block[name].texts]
        for name in DelimitedFile(path).header
    ]
    return list(zip(*columns, strict=True))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5), st.sampled_from(",;\t|"), st.booleans())
def test_what_the_standard_library_writes_is_read_back(rows: list[tuple[str, ...]], delimiter: str, packed: bool):
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows([("a", "b", "c"), *[(*row[:2], row[2] + "x") for row in rows]])
    content = written.getvalue().encode("utf-8-sig" if packed else "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(gzip.compress(content) if packed else content)
        assert cells_of(path) == [(*row[:2], row[2] + "x") for row in rows]


def test_rows_are_counted_as_a_spreadsheet_does_and_empty_ones_are_passed_over(tmp_path: Path):
    (block,) = DelimitedFile(write_text(tmp_path / "a.csv", "a,b", "1,2", "", "3,4", ",", "5,6")).blocks()
    assert list(block["a"].rows) == [2, 4, 6]
    assert list(block["b"].texts) == ["2", "4", "6"]


def test_a_long_table_comes_in_blocks_that_count_on(tmp_path: Path):
    count = 2 * ROWS_PER_BLOCK + 5
    path = write_text(tmp_path / "a.csv", "a,b", *[f"{number},x" for number in range(count)])
    blocks = list(DelimitedFile(path).blocks())
    assert [len(block["a"].texts) for block in blocks] == [ROWS_PER_BLOCK, ROWS_PER_BLOCK, 5]
    assert [row for block in blocks for row in block["a"].rows] == list(range(2, count + 2))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_lines_may_end_in_any_way(tmp_path: Path, end: str):
    (tmp_path / "a.csv").write_bytes(end.join(["a;b", "1;2", "3;4", ""]).encode())
    assert cells_of(tmp_path / "a.csv") == [("1", "2"), ("3", "4")]


@pytest.mark.parametrize(
    ("lines", "got"),
    [
        ([""], "an empty row"),
        (["5.1,3.5,1.4"], "the numbers 5.1, 3.5, 1.4: add a row of names"),
        ([",,", "0,1,2"], "empty cells: add a row of names"),
    ],
)
def test_columns_without_names_of_their_own_are_refused(tmp_path: Path, lines: list[str], got: str):
    path = write_text(tmp_path / "a.csv", *lines)
    assert refusal(DelimitedFile, path) == f"a.csv must name each of its columns in the first row, but got {got}."


def test_only_columns_that_are_not_asked_for_may_share_a_name(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "a,b,a,b,c,b", "0,1,2,3,4,5")
    rule = "a.csv must name each of its columns in the first row, but got"
    assert refusal(lambda: [*DelimitedFile(path).blocks()]) == f"{rule} 'a' twice, 'b' 3 times: rename all but one."
    assert refusal(lambda: [*DelimitedFile(path).blocks("ac")]) == f"{rule} 'a' twice: rename all but one."
    (block,) = DelimitedFile(path).blocks("c")
    assert block["c"].texts == ("4",)


def test_an_empty_file_is_refused(tmp_path: Path):
    (tmp_path / "a.csv").touch()
    assert (
        refusal(DelimitedFile, tmp_path / "a.csv")
        == "a.csv must name each of its columns in the first row, but got an empty file."
    )


def test_a_header_alone_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "a,b")
    assert refusal(lambda: list(DelimitedFile(path).blocks())) == "a.csv must have rows, but got only a header."


def test_a_row_of_another_width_is_named(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "a,b", "1,2", "", "1,2,3")
    assert (
        refusal(lambda: list(DelimitedFile(path).blocks()))
        == "each row of a.csv must have 2 cells, as the first has, but got 3 in row 4."
    )


def test_all_rows_of_another_width_are_named_at_once(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "a,b", "1,2,3", *["1,2"] * 3_000, "1", *["1,2,3"] * 5)
    assert refusal(lambda: list(DelimitedFile(path).blocks())) == (
        "each row of a.csv must have 2 cells, as the first has, but got "
        "3 in row 2, 1 in row 3,003, 3 in row 3,004, 3 in row 3,005, 3 in row 3,006 and 2 more."
    )


def test_a_missing_column_is_offered_the_nearest(tmp_path: Path):
    table = DelimitedFile(write_text(tmp_path / "a.csv", "age,Price,colour", "1,2,3"))
    assert (
        refusal(table.column, "PRISE")
        == "a.csv must have the column 'PRISE', but got age, Price, colour: did you mean 'Price'?"
    )
    assert refusal(table.column, "xyz") == "a.csv must have the column 'xyz', but got age, Price, colour."


def test_a_wide_table_does_not_fill_the_screen_with_its_columns(tmp_path: Path):
    table = DelimitedFile(write_text(tmp_path / "a.csv", ",".join(f"c{i}" for i in range(500)), ",".join("1" * 500)))
    assert refusal(table.column, "price") == (
        "a.csv must have the column 'price', but got c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 488 more."
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_usual_encodings_are_recognised(tmp_path: Path, encoding: str):
    for packed in (False, True):
        content = "größe,farbe\n1,grün\n2,blau\n".encode(encoding)
        (tmp_path / "a.csv").write_bytes(gzip.compress(content) if packed else content)
        assert DelimitedFile(tmp_path / "a.csv").header == ["größe", "farbe"]
        assert cells_of(tmp_path / "a.csv") == [("1", "grün"), ("2", "blau")]


def test_a_damaged_byte_late_in_the_file_is_seen(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + b"1,2\n" * 100_000 + "3,ü\n".encode("latin-1"))
    assert DelimitedFile(tmp_path / "a.csv").encoding == "cp1252"


@pytest.mark.parametrize("late", [False, True])
def test_a_nul_byte_is_refused_with_its_line(tmp_path: Path, late: bool):
    before = b"1,2\n" * (100_000 if late else 0)
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + before + b"\xe9,1\n1,\x002\n")
    assert refusal(lambda: DelimitedFile(tmp_path / "a.csv")) == (
        f"a.csv must be text, but got a NUL byte in line {100_003 if late else 3:,}: remove it, or save the file as "
        "UTF-8."
    )


def test_an_encoding_may_be_given(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,město\n1,Plzeň\n".encode("cp1250"))
    (block,) = DelimitedFile(path, encoding="cp1250").blocks()
    assert block["město"].texts == ("Plzeň",)
    assert refusal(lambda: DelimitedFile(path, encoding="utf-8")) == (
        "a.csv must be text in utf-8, but got other bytes (invalid start byte): give its --encoding."
    )
    assert refusal(lambda: DelimitedFile(path, encoding="utf8000")) == (
        "--encoding must be one that Python knows, such as utf-8, utf-16 or cp1252, but got 'utf8000'."
    )


def test_texts_that_are_not_utf_8_are_refused(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,farbe\n1,grün\n".encode("latin-1"))
    assert (
        refusal(lambda: DelimitedFile(path, texts=True))
        == "a.csv must be text in UTF-8, but got other bytes in line 1: save it as UTF-8."
    )


def test_columns_without_a_name_are_called_by_their_number(tmp_path: Path):
    assert DelimitedFile(write_text(tmp_path / "a.csv", ",a,,b", "0,1,2,3")).header == [
        "column 1",
        "a",
        "column 3",
        "b",
    ]


def test_a_long_text_is_read(tmp_path: Path):
    long = "word " * 40_000
    (block,) = DelimitedFile(write_text(tmp_path / "a.csv", "a,b", f'"{long}",2')).blocks()
    assert block["a"].texts == (long,)


def test_the_delimiter_is_the_one_that_divides_all_rows_alike(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "kind (a|b|c|d),size", "a,1", "b,2")
    assert DelimitedFile(path).header == ["kind (a|b|c|d)", "size"]


def test_decimal_commas_are_points_where_commas_do_not_divide_cells(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "size;name", "1,5;a,b", "-1.234,25;1,x", "3;c")
    (block,) = DelimitedFile(path).blocks()
    assert block["size"].texts == ["1.5", "-1234.25", "3"]
    assert block["name"].texts == ["a,b", "1,x", "c"]


def test_a_quote_that_never_ends_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "a,b", '"1,2', *["3,4"] * 5_000_000)
    assert refusal(lambda: list(DelimitedFile(path).blocks())) == (
        "a.csv must be a table of text, "
        "but got a field larger than field limit (16777216): is there a quote that never ends?"
    )


def test_a_name_of_a_column_that_never_ends_is_refused(tmp_path: Path):
    assert refusal(DelimitedFile, write_text(tmp_path / "a.csv", "a" * 17_000_000)) == (
        "a.csv must be a table of text, "
        "but got a field larger than field limit (16777216): is there a quote that never ends?"
    )


def test_a_packed_table_that_is_cut_off_is_refused(tmp_path: Path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-20])
    assert refusal(lambda: list(DelimitedFile(path).blocks())) == (
        "a.csv.gz must be a whole gzip file, but got one that is cut off or damaged: copy or download it again."
    )


tabbed_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=20)
quoted_cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(tabbed_texts, tabbed_texts, tabbed_texts), min_size=1, max_size=8), st.booleans())
def test_a_tsv_holds_what_was_written_whatever_it_is(rows: list[tuple[str, str, str]], packed: bool):
    content = "".join("\t".join(row) + "\n" for row in rows).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        path.write_bytes(gzip.compress(content) if packed else content)
        first = rows[0][0].removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")  # there, it is a mark of the encoding
        assert list(DelimitedFile(path, texts=True).records()) == [
            (1, [first, *rows[0][1:]]),
            *((number, list(row)) for number, row in enumerate(rows[1:], 2)),
        ]


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(quoted_cells, quoted_cells), min_size=1, max_size=8))
def test_a_csv_holds_what_the_standard_library_wrote(rows: list[tuple[str, str]]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
        assert [cells for _, cells in DelimitedFile(path, texts=True).records()] == [
            ["text", "label"],
            *map(list, rows),
        ]
