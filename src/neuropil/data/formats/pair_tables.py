"""Pairs of texts in the columns of a TSV or CSV.

Either may name its columns in the first row; that row is taken for names if the user asks for columns by name, or if both of its two
cells are usual names of columns.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from neuropil.data.formats.text_tables import Record, read_records, suffix_of
from neuropil.data.pairs.columns import FoundPairs, Names, Row, are_names, choose_columns
from neuropil.errors import InputError


def find_table(path: Path, wanted: Names) -> FoundPairs:
    records = read_records(path)
    number, header = next(records, (0, []))
    _require_two_columns(header, path)
    names = [name.strip() for name in header]
    columns = choose_columns(names, wanted, path.name)
    if columns is None and not are_names(header):
        return FoundPairs(_cells(chain([(number, header)], records), len(header), (0, 1), path.name))
    source, target = columns or (0, 1)
    named = "" if all(wanted) else f"The first line of {path.name} is taken for the names of its columns"
    return FoundPairs(_cells(records, len(header), (source, target), path.name), named, (names[source], names[target]))


def _cells(records: Iterable[Record], width: int, columns: tuple[int, int], file: str) -> Iterator[Row]:
    source, target = columns
    for number, cells in records:
        if len(cells) == width:
            yield number, cells[source], cells[target]
        elif any(cells):
            raise InputError(
                f"each line of {file} must have {width} columns, as the first has",
                got=f"{len(cells)} in line {number:,}",
            )
        else:
            yield number, "", ""


def _require_two_columns(header: list[str], path: Path) -> None:
    if not any(header):
        raise InputError(
            f"{path.name} must hold pairs of texts",
            got="an empty first line" if path.stat().st_size else "an empty file",
        )
    if len(header) == 1:
        between = "" if suffix_of(path) == ".csv" else " with a tab between them"
        raise InputError(
            f"{path.name} must have two columns{between}", got="one", fix="parallel texts are given as two files"
        )
