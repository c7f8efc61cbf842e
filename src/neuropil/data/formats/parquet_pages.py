"""Pages of a Parquet file: what they say of their size is judged before Arrow allocates as much.

A column chunk is its pages one after the other. Before each is a PageHeader in Thrift's compact protocol:

    2 uncompressed_page_size    3 compressed_page_size    7 dictionary_page_header { 1 num_values }
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuropil.errors import InputError
from neuropil.memory import require_room

BYTES_OF_VALUE = 16
"""Of a dictionary in memory: where a text begins, and its length."""
MOST_NESTED = 64
LONGEST_NUMBER = 10
"""Bytes of 64 bits, seven in each."""
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
FIXED = {TRUE: 1, FALSE: 1, BYTE: 1, DOUBLE: 8, UUID: 16}


class ParquetBytes(io.BufferedReader):
    """A Parquet file for Arrow, which asks for the footer first and then, once `pages` is set, for a whole column
    chunk at a time."""

    def __init__(self, path: Path):
        super().__init__(io.FileIO(path))
        self.path, self.pages = path, False

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        if self.pages:
            self._judge([*pages_in(content)])
        return content

    def _judge(self, pages: "Sequence[Page]") -> None:
        if any(page.values > page.unpacked for page in pages):  # each takes a byte or more
            raise damaged(self.path)
        needed = max((page.unpacked + BYTES_OF_VALUE * page.values for page in pages), default=0)
        require_room(f"each page of {self.path.name}", needed, fix="write the file with smaller pages")


def damaged(path: Path) -> InputError:
    rule, got = f"{path.name} must be a whole Parquet file", "one that is cut off or damaged"
    return InputError(rule, got=got, fix="copy or download it again")


@dataclass(frozen=True)
class Page:
    unpacked: int
    """Bytes."""
    values: int
    """Of a dictionary; 0 of other pages."""


def pages_in(chunk: bytes) -> Iterator[Page]:
    """Up to the first that is cut off or that cannot be read: Arrow says what that is."""
    place = 0
    while place < len(chunk):
        header = _Thrift(chunk, place)
        try:
            found = header.struct()
            unpacked, packed = found[2, I32], found[3, I32]
        except (IndexError, KeyError, ValueError):
            return
        yield Page(unpacked, found.get((7, STRUCT), {}).get((1, I32), 0))
        place = header.place + packed
        if packed < 0:
            return


class _Thrift:
    """Numbers and structs by field and type, as Thrift's own readers take only a field of the type that they know; all
    else is passed over."""

    def __init__(self, content: bytes, place: int):
        self.content, self.place = content, place

    def struct(self, depth: int = 0) -> dict[tuple[int, int], Any]:
        found, field = dict[tuple[int, int], Any](), 0
        while head := self._byte():
            step, kind = divmod(head, 16)
            field = field + step if step else _signed(self._number())
            found[field, kind] = None if kind in (TRUE, FALSE) else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > MOST_NESTED:
            raise ValueError
        if kind == STRUCT:
            return self.struct(depth)
        if kind in (I16, I32, I64):
            return _signed(self._number() & (2**64 - 1 if kind == I64 else 2**32 - 1))
        if kind == BINARY:
            length = self._number()  # which moves the place
            self.place += length
        elif kind in (LIST, SET):
            count, inside = divmod(self._byte(), 16)
            for _ in range(self._number() if count == 15 else count):
                self._value(inside, depth + 1)
        elif kind == MAP:
            if count := self._number():
                key, value = divmod(self._byte(), 16)
                for _ in range(count):
                    self._value(key, depth + 1)
                    self._value(value, depth + 1)
        elif kind in FIXED:
            self.place += FIXED[kind]
        else:
            raise ValueError
        if self.place > len(self.content):
            raise IndexError
        return None

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _number(self) -> int:
        """Seven bits in each byte, the lowest first; the last is below 128."""
        number = 0
        for place in range(LONGEST_NUMBER):
            byte = self._byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number
        raise ValueError


def _signed(number: int) -> int:
    """0, -1, 1, -2 and so on are written as 0, 1, 2, 3."""
    return number >> 1 ^ -(number & 1)
