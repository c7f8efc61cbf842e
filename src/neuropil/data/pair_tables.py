"""Pairs of texts in the columns of a TSV or CSV.

A TSV has no quotes: a lone " in it belongs to the text. A CSV has them, as spreadsheets write it. Either may name its columns in the
first row; that row is taken for names if the user asks for columns by name, or if both of its two cells are usual names of columns.
"""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from neuropil.data.delimited import delimiter_of, no_table
from neuropil.data.pair_columns import FoundPairs, Names, Row, are_names, choose_columns, suffix_of
from neuropil.data.text_lines import read_lines
from neuropil.errors import InputError


def find_table(path: Path, wanted: Names) -> FoundPairs:
    """Whatever is not called a CSV is read as a TSV."""
    records = _quoted(path) if suffix_of(path) == ".csv" else _tabbed(path)
    number, header = next(records, (0, []))
    _require_two_columns(header, path)
    names = [name.strip() for name in header]
    columns = choose_columns(names, wanted, path.name)
    if columns is None and not are_names(header):
        return FoundPairs(_cells(chain([(number, header)], records), len(header), (0, 1), path.name))
    source, target = columns or (0, 1)
    named = "" if all(wanted) else f"The first line of {path.name} is taken for the names of its columns"
    return FoundPairs(_cells(records, len(header), (source, target), path.name), named, (names[source], names[target]))


def _cells(records: Iterable[tuple[int, list[str]]], width: int, columns: tuple[int, int], file: str) -> Iterator[Row]:
    source, target = columns
    for number, cells in records:
        if len(cells) == width:
            yield number, cells[source], cells[target]
        elif any(cells):
            raise InputError(f"each line of {file} must have {width} columns, as the first has", got=f"{len(cells)} in line {number:,}")
        else:
            yield number, "", ""


def _tabbed(path: Path) -> Iterator[tuple[int, list[str]]]:
    return ((number, line.split("\t")) for number, line in enumerate(read_lines(path, progress=True), 1))


def _quoted(path: Path) -> Iterator[tuple[int, list[str]]]:
    """A row of several lines has the number of its last."""
    lines = read_lines(path, progress=True)
    first = next(lines, "")
    try:
        reader = csv.reader((f"{line}\n" for line in chain([first], lines)), delimiter=delimiter_of(first))
        yield from ((reader.line_num, cells) for cells in reader)
    except csv.Error as cause:
        raise no_table(path, cause) from cause


def _require_two_columns(header: list[str], path: Path) -> None:
    if not any(header):
        raise InputError(f"{path.name} must hold pairs of texts", got="an empty first line" if path.stat().st_size else "an empty file")
    if len(header) == 1:
        between = "" if suffix_of(path) == ".csv" else " with a tab between them"
        raise InputError(f"{path.name} must have two columns{between}", got="one", fix="parallel texts are given as two files")
