"""Text in rows and columns: CSV, TSV and their kin, plain or gzip, with the names of the columns in the first row.

It is handed out in blocks, so that a large table never stands in memory as text. Rows are counted as a spreadsheet does:
the header is row 1.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from neuropil.data.formats.contents import opened
from neuropil.data.messages import did_you_mean, listed
from neuropil.errors import InputError

SUFFIXES = frozenset((".csv", ".tsv", ".tab", ".txt"))
DELIMITERS = ",;\t|"
ROWS_PER_BLOCK = 1_000  # small enough for the processor's cache


def is_delimited(path: Path) -> bool:
    return Path(path.name.lower().removesuffix(".gz")).suffix in SUFFIXES


def delimiter_of(line: str) -> str:
    """The one that makes most cells of it."""
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([line], delimiter=delimiter), [])))


def no_table(path: Path, cause: csv.Error) -> InputError:
    rule = f"{path.name} must be a table of text"
    if "new-line" in str(cause):
        return InputError(
            rule, got="a carriage return inside a cell", fix="put the cell in quotes, or end lines with line feeds"
        )
    return InputError(rule, got=f"a {cause}", fix="is there a quote that never ends?")


@dataclass(frozen=True)
class Cells:
    """A piece of one column."""

    file: str
    column: str
    rows: Sequence[int]
    texts: Sequence[str]

    def where(self, index: int) -> str:
        return f"row {self.rows[index]}, column {self.column!r} of {self.file}"


Block: TypeAlias = Mapping[str, Cells]
"""Some rows, by the names of their columns."""


class DelimitedFile:
    def __init__(self, path: Path):
        self.path = path
        with self._text() as text:
            self.delimiter = delimiter_of(text.readline())
        self.header = [name.strip() for name in next(self._records(), [])]
        self._require_names()

    def require_column(self, name: str) -> None:
        if name not in self.header:
            raise InputError(
                f"{self.path.name} must have the column {name!r}",
                got=listed(self.header),
                fix=did_you_mean(name, self.header),
            )

    def blocks(self) -> Iterator[Block]:
        """The rows that hold anything at all, some thousands at a time."""
        records = self._records()
        next(records)
        next_row, empty = 2, True
        while block := list(islice(records, ROWS_PER_BLOCK)):
            rows: Sequence[int] = range(next_row, next_row + len(block))
            next_row += len(block)
            if not all(map(any, block)):
                rows, block = (
                    [row for row, cells in zip(rows, block, strict=True) if any(cells)],
                    [cells for cells in block if any(cells)],
                )
            self._require_widths(rows, block)
            if block:
                empty = False
                columns = zip(*block, strict=True)
                yield {
                    name: Cells(self.path.name, name, rows, texts)
                    for name, texts in zip(self.header, columns, strict=True)
                }
        if empty:
            raise InputError(f"{self.path.name} must have rows", got="only a header")

    def _records(self) -> Iterator[list[str]]:
        with self._text() as text:
            yield from csv.reader(text, delimiter=self.delimiter, skipinitialspace=True)

    @contextmanager
    def _text(self) -> Iterator[io.TextIOWrapper]:
        try:
            with opened(self.path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield text
        except UnicodeDecodeError as cause:
            raise InputError(
                f"{self.path.name} must be text in UTF-8", got="other bytes", fix="save it as CSV UTF-8"
            ) from cause
        except csv.Error as cause:
            raise no_table(self.path, cause) from cause

    def _require_widths(self, rows: Sequence[int], block: Sequence[Sequence[str]]) -> None:
        for row, width in zip(rows, map(len, block), strict=True):
            if width != len(self.header):
                raise InputError(
                    f"each row of {self.path.name} must have {len(self.header)} cells, as the header has",
                    got=f"{width} in row {row}",
                )

    def _require_names(self) -> None:
        rule = f"{self.path.name} must name each of its columns in the first row"
        if not self.header:
            raise InputError(rule, got="an empty file" if self.path.stat().st_size == 0 else "an empty row")
        if all(is_number(name) for name in self.header):
            raise InputError(rule, got=f"the numbers {listed(self.header)}", fix="add a row of names")
        for position, name in enumerate(self.header):
            if not name:
                raise InputError(rule, got=f"nothing for column {position + 1}", fix="name it or remove it")
            if name in self.header[:position]:
                raise InputError(rule, got=f"{name!r} twice", fix="rename one of the two")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
