"""Where a long text stands: plain files, JSONL and Parquet, folders and patterns of them; read a piece at a time.

    book.txt  pages.txt.gz      a document each
    'shards/*.jsonl'            a document on each line, under a name such as "text"
    parquet/                    a document in each row

The text is its documents one after the other, with an empty line between each two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from neuropil.data.formats.columns import ColumnRole, choose_columns, find_column, unclear_columns
from neuropil.data.formats.jsonl import read_objects, text_in
from neuropil.data.formats.lines import read_characters, read_lines
from neuropil.data.formats.parquet import SUFFIX as PARQUET
from neuropil.data.formats.parquet import ParquetTable
from neuropil.data.formats.paths import require_file, suffix_of
from neuropil.data.formats.shards import JSONL, is_shard, matching
from neuropil.errors import InputError, counted, listed

BETWEEN_DOCUMENTS = "\n\n"
CORPUS = ColumnRole("texts", "--text-column", "text texts content document")
UNPACKED = 4
"""Bytes of text for each of gzip, about."""


@dataclass(frozen=True)
class TextFiles:
    """The files of a text, in order; `text_column` is what the user says of shards."""

    files: tuple[Path, ...]
    text_column: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return listed([path.name for path in self.files], most=3)

    @cached_property
    def num_bytes(self) -> int:
        """Of the text, about: gzip does not say how much is in it."""
        return sum(map(self._bytes_of, self.files))

    def pieces(self) -> Iterator[str]:
        """Of the whole text, each of some kilobytes, or one document."""
        begun = False
        for path in self.files:
            for document in self.documents(path):
                if begun:
                    yield BETWEEN_DOCUMENTS
                yield from document
                begun = True

    def lines(self) -> Iterator[str]:
        """Of the whole text, with an empty one after each document."""
        for path in self.files:
            if is_shard(path):
                for document in self.documents(path):
                    yield from (*"".join(document).split("\n"), "")
            else:
                yield from read_lines(path)
                yield ""

    def documents(self, path: Path) -> Iterator[Iterator[str]]:
        """Of one file, each in pieces."""
        suffix = suffix_of(path)
        if suffix in JSONL:
            return self._objects(path)
        return self._rows(path) if suffix == PARQUET else iter([read_characters(path)])

    def _objects(self, path: Path) -> Iterator[Iterator[str]]:
        name = None
        for number, found in read_objects(path, progress=False):
            if found:
                name = name or self._field(found, number, path)
                if text := text_in(found, name, number, path.name):
                    yield iter([text.replace("\r\n", "\n")])

    def _field(self, found: Mapping[str, Any], number: int, path: Path) -> str:
        """By the first object. The field that is wanted or called "text" is of texts, and refused where it is not."""
        texts = [key for key, value in found.items() if value is None or isinstance(value, str)]
        wanted = [key for key in found if key in (self.text_column, CORPUS.words[0])]
        if not texts and not wanted and self.text_column is None:
            rule, got = f"each line of {path.name} must have a text", f"none in line {number:,}, of {listed([*found])}"
            raise InputError(rule, got=got)
        return self._column([key for key in found if key in texts or key in wanted], [*found], path)

    def _rows(self, path: Path) -> Iterator[Iterator[str]]:
        table = ParquetTable(path)
        name = self._column(table.text_columns, table.names, path)
        return (iter([row[name].replace("\r\n", "\n")]) for row in table.rows([name]) if row[name])

    def _column(self, texts: Sequence[str], names: Sequence[str], path: Path) -> str:
        """Of those that hold `texts`, the one that is wanted, that has a usual name, or that is alone."""
        if self.text_column is not None and self.text_column not in texts:
            find_column(names, self.text_column, path.name, by_number=False)  # refuses one that is not there
        if not texts or (self.text_column is not None and self.text_column not in texts):
            got = f"none in {listed(names)}" if self.text_column is None else f"something else in {self.text_column!r}"
            raise InputError(f"{path.name} must have a column of texts", got=got)
        (place,) = choose_columns(texts, [self.text_column], [CORPUS], path.name)
        if place is None:
            raise unclear_columns(texts, [CORPUS], path.name)
        return texts[place]

    def _bytes_of(self, path: Path) -> int:
        if suffix_of(path) == PARQUET:
            return ParquetTable(path).num_bytes
        with require_file(path).open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return path.stat().st_size * (UNPACKED if packed else 1)


def text_files(paths: Sequence[Path], text_column: str | None = None) -> TextFiles:
    """Of files, folders and patterns such as shards/*.jsonl. Of a folder that holds JSONL or Parquet, only these; and
    each file once, whatever links and patterns lead to it: what is held out would be in the training part too."""
    files, repeated, notes = dict[Path, Path](), list[str](), list[str]()
    for path in paths:
        inside = files_in(path) if path.is_dir() else matching(path)
        shards = [file for file in inside if is_shard(file)]
        if path.is_dir() and shards and len(shards) < len(inside):
            others = [file.name for file in inside if not is_shard(file)]
            are = "is" if len(others) == 1 else "are"
            left_out = (
                f"{counted(len(others), 'file')} of {path.name} {are} neither JSONL nor Parquet, and {are} left out"
            )
            notes.append(f"{left_out}: {listed(others, most=3)}.")
        for file in shards if path.is_dir() and shards else inside:
            if (target := file.resolve()) in files:
                repeated.append(file.name)
            else:
                files[target] = file
    if repeated:
        are, total = "is" if len(repeated) == 1 else "are", len(files) + len(repeated)
        same = f"{len(repeated):,} of {total:,} files {are} the same as one before, and {are} read once"
        notes.append(f"{same}: {listed(repeated, most=3)}.")
    found = tuple(files.values())
    if text_column is not None and not any(map(is_shard, found)):
        rule, got = "--text-column names a column of JSONL or Parquet", f"{text_column!r} for {found[0].name}"
        raise InputError(rule, got=got, fix="leave it out")
    return TextFiles(found, text_column, tuple(notes))


def files_in(folder: Path) -> list[Path]:
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = sorted(path for path in inside if not any(part.startswith(".") for part in path.parts))
    if not files:
        raise InputError("a folder of texts must hold files", got=f"{folder.as_posix()!r} without any")
    return [folder / path for path in files]
