"""Text in rows and columns: CSV, TSV and their kin, plain or gzip.

It is handed out row by row or in blocks, so that a large table never stands in memory as text. Rows are counted as a
spreadsheet does: the first is row 1.
"""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TypeAlias

from neuropil.data.formats.columns import UNNAMED, Cells, find_column, is_number, short_names
from neuropil.data.formats.lines import encoding_of, read_lines
from neuropil.data.formats.paths import blocks_of, opened, require_file, require_fits, suffix_of
from neuropil.errors import InputError, listed

SUFFIXES = frozenset((".csv", ".tsv", ".tab", ".txt"))
DELIMITERS = ",;\t|"
LINES_LOOKED_AT = 20
LONGEST_CELL = 1 << 24
"""Letters: more of them have a quote that never ends."""
csv.field_size_limit(LONGEST_CELL)  # of the whole process: the csv module has no other
DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*$")
THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*$")
NAMES_FIRST = "{} must name each of its columns in the first row"
ROWS_PER_BLOCK, LINES_PER_BLOCK = 1_000, 50
"""Few enough for the processor's cache, and where rows are only passed on, not to wake the garbage collector."""

Record: TypeAlias = tuple[int, list[str]]
"""The number of a row and its cells."""


Block: TypeAlias = Mapping[str, Cells]
"""Some rows, by the names of their columns."""


def is_delimited(path: Path) -> bool:
    return suffix_of(path) in SUFFIXES


class CellTable(ABC):
    """Rows in named columns, of a file or of memory."""

    name: str
    """What errors call it."""
    header: list[str]

    def column(self, wanted: str) -> str:
        """The name of a column that is given by its name or number."""
        return self.header[find_column(self.header, wanted, self.name)]

    def require_columns(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self.header]
        if len(missing) == 1:
            find_column(self.header, missing[0], self.name, by_number=False)
        if missing:
            rule = f"{self.name} must have the columns {listed([repr(name) for name in missing])}"
            raise InputError(rule, got=listed(short_names(self.header)))

    @abstractmethod
    def blocks(self, required: Collection[str] | None = None) -> Iterator[Block]:
        """The rows that hold anything at all, some thousands at a time. Columns other than those `required`, which are
        all unless they are given, may be missing from them if they cannot be read."""


class DelimitedFile(CellTable):
    """A table with the names of its columns in the first row, the `header`.

    In a table of `texts` the first row may be a text already, and cells hold whatever was written: spaces at their
    beginning stay, and what is not called a CSV is divided by tabs and has no quotes, so that a lone " belongs to the
    text. They are in UTF-8; the encoding of other tables is recognised, unless it is given.
    """

    def __init__(self, path: Path, *, texts: bool = False, encoding: str | None = None):
        require_fits(require_file(path))
        self.path, self.name, self.texts = path, path.name, texts
        self.encoding = "utf-8-sig" if texts else encoding or encoding_of(path)
        self.tabbed = texts and suffix_of(path) != ".csv"
        if not self.tabbed:
            with self._text() as text:
                self.delimiter = _delimiter_of(list(islice(text, LINES_LOOKED_AT)))
        self.header = [name.strip() for name in next(self.records(), (1, []))[1]]
        if not texts:
            self._require_names()
            self.header = [name or UNNAMED.format(number) for number, name in enumerate(self.header, 1)]

    def records(self) -> Iterator[Record]:
        """All rows from the first on, lazily. Empty rows come as they are; all others have equally many cells."""
        for number, block in self._blocks():
            yield from enumerate(block, number)

    def blocks(self, required: Collection[str] | None = None) -> Iterator[Block]:
        if not self.texts:
            self._require_each_once(self.header if required is None else required)
        empty = True
        for number, block in self._blocks():
            if number == 1:
                continue
            rows: Sequence[int] = range(number, number + len(block))
            if not all(map(any, block)):
                rows = [row for row, cells in zip(rows, block, strict=True) if any(cells)]
                block = [cells for cells in block if any(cells)]
            if block:
                empty = False
                columns = dict(zip(self.header, zip(*block, strict=True), strict=True))
                self._require_one_meaning(columns, self.header if required is None else required)
                yield {name: Cells(self.path.name, name, rows, self._numbers(each)) for name, each in columns.items()}
        if empty:
            raise InputError(f"{self.path.name} must have rows", got="only a header")

    def _require_one_meaning(self, columns: Mapping[str, Sequence[str]], required: Collection[str]) -> None:
        """Beside decimal commas, 2.471 may be more than two thousand."""
        if self.texts or self.delimiter == ",":
            return
        with_commas = {name for name, texts in columns.items() if "," in "".join(texts)}
        if not any(DECIMAL_COMMA.match(text) for name in with_commas for text in columns[name]):
            return
        for name in (name for name in columns if name in required and name not in with_commas):
            dotted = [text for text in columns[name] if "." in text]
            if dotted and all(map(THOUSANDS.match, dotted)):
                rule = f"column {name!r} of {self.name} must hold numbers that can be read in one way"
                got = f"{dotted[0]!r} in a table with decimal commas"
                raise InputError(rule, got=got, fix="write 2471 or 2,471")

    def _numbers(self, texts: Sequence[str]) -> Sequence[str]:
        """Where commas do not divide cells, one within a number stands before its decimals: 1.234,5 is 1234.5."""
        if self.texts or self.delimiter == "," or "," not in "".join(texts):
            return texts
        return [text.replace(".", "").replace(",", ".") if DECIMAL_COMMA.match(text) else text for text in texts]

    def _blocks(self) -> Iterator[tuple[int, list[list[str]]]]:
        """Some rows at a time, and the number of the first of them."""
        number, width = 1, 0
        for block in self._uneven_blocks():
            if set(map(len, block)) != {width}:
                width = self._require_even(block, width)
            yield number, block
            number += len(block)

    def _uneven_blocks(self) -> Iterator[list[list[str]]]:
        return self._tabbed() if self.tabbed else self._quoted()

    def _tabbed(self) -> Iterator[list[list[str]]]:
        lines = read_lines(self.path, progress=True)
        while block := [line.split("\t") for line in islice(lines, LINES_PER_BLOCK)]:
            yield block

    def _quoted(self) -> Iterator[list[list[str]]]:
        with self._text() as text:
            rows = csv.reader(text, delimiter=self.delimiter, skipinitialspace=not self.texts)
            sizes = chain([1], repeat(LINES_PER_BLOCK if self.texts else ROWS_PER_BLOCK))  # the header comes alone
            yield from blocks_of(text.buffer, self.path, lambda: list(islice(rows, next(sizes))))

    @contextmanager
    def _text(self) -> Iterator[io.TextIOWrapper]:
        try:
            with opened(self.path) as file, io.TextIOWrapper(file, encoding=self.encoding, newline="") as text:
                yield text
        except LookupError as cause:
            rule = "--encoding must be one that Python knows, such as utf-8, utf-16 or cp1252"
            raise InputError(rule, got=repr(self.encoding)) from cause
        except UnicodeDecodeError as cause:
            if not self.texts:
                rule, got = f"{self.path.name} must be text in {self.encoding}", f"other bytes ({cause.reason})"
                raise InputError(rule, got=got, fix="give its --encoding") from cause
            for _ in read_lines(self.path):
                pass  # names the line that is damaged
            raise
        except csv.Error as cause:
            rule = f"{self.path.name} must be a table of text"
            raise InputError(rule, got=f"a {cause}", fix="is there a quote that never ends?") from cause

    def _require_even(self, block: Sequence[Sequence[str]], width: int) -> int:
        """All rows that hold anything must be as wide as the first, whose width is given back."""
        widths = [len(cells) for cells in block if any(cells)]
        width = width or next(iter(widths), 0)
        if set(widths) - {width}:
            rows = enumerate(chain.from_iterable(self._uneven_blocks()), 1)
            odd = [f"{len(cells)} in row {row:,}" for row, cells in rows if any(cells) and len(cells) != width]
            rule = f"each row of {self.path.name} must have {width} cells, as the first has"
            raise InputError(rule, got=listed(odd, 5), fix=self.fix_of_ends())
        return width

    def fix_of_ends(self) -> str | None:
        with opened(self.path) as file:
            lone = not self.tabbed and re.search(rb"\r(?!\n)", file.read())
        return "put cells with a carriage return in quotes, or end all lines with line feeds" if lone else None

    def _require_names(self) -> None:
        rule = NAMES_FIRST.format(self.name)
        if not self.header:
            raise InputError(rule, got="an empty file" if self.path.stat().st_size == 0 else "an empty row")
        if all(is_number(name) for name in self.header):
            raise InputError(rule, got=f"the numbers {listed(self.header)}", fix="add a row of names")
        if not any(self.header):
            raise InputError(rule, got="empty cells", fix="add a row of names")

    def _require_each_once(self, names: Collection[str]) -> None:
        counts = Counter(name for name in self.header if name in names)
        if several := [
            f"{name!r} {'twice' if count == 2 else f'{count} times'}" for name, count in counts.items() if count > 1
        ]:
            raise InputError(NAMES_FIRST.format(self.name), got=listed(several), fix="rename all but one")


def read_records(table: DelimitedFile, what: str) -> list[Record]:
    """All rows of a table of texts that hold anything; `what` they are stands in the errors."""
    records = [(number, cells) for number, cells in table.records() if any(cell.strip() for cell in cells)]
    if not records:
        raise InputError(f"{table.path.name} must hold {what}", got="an empty file")
    return records


def require_two_columns(table: DelimitedFile, names: Sequence[str], what: str, fix: str | None = None) -> None:
    if len(names) == 1:
        between = " with a tab between them" if table.tabbed else ""
        rule = f"{table.path.name} must have two columns{between}{what}"
        raise InputError(rule, got="one", fix=table.fix_of_ends() or fix)


def _delimiter_of(lines: Sequence[str]) -> str:
    """The one that makes most cells of the first row, and as many of the next ones."""

    def cells(delimiter: str) -> tuple[bool, int]:
        first, *others = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row] or [0]
        return first > 1 and set(others[:-1]) <= {first}, first  # the last may end in the middle of a cell

    return max(DELIMITERS, key=cells)
