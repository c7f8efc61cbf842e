"""Rows of a table of texts, each with the number of its line.

A TSV has no quotes: a lone " in it belongs to the text. A CSV has them, as spreadsheets write it. Either may be gzip.
"""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from neuropil.data.formats.delimited import delimiter_of, no_table
from neuropil.data.formats.lines import read_lines

Record: TypeAlias = tuple[int, list[str]]
"""The number of a line and its cells."""


def suffix_of(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_records(path: Path) -> Iterator[Record]:
    """Whatever is not called a CSV is read as a TSV."""
    return _quoted(path) if suffix_of(path) == ".csv" else _tabbed(path)


def _tabbed(path: Path) -> Iterator[Record]:
    return ((number, line.split("\t")) for number, line in enumerate(read_lines(path, progress=True), 1))


def _quoted(path: Path) -> Iterator[Record]:
    """A row of several lines has the number of its last."""
    lines = read_lines(path, progress=True)
    first = next(lines, "")
    try:
        reader = csv.reader((f"{line}\n" for line in chain([first], lines)), delimiter=delimiter_of(first))
        yield from ((reader.line_num, cells) for cells in reader)
    except csv.Error as cause:
        raise no_table(path, cause) from cause
