"""Lines of text files, plain or gzip, in UTF-8, a piece of the file at a time.

A line ends at a line feed, with or without a carriage return before it, and nowhere else. Other separators, such as
U+2028, occur inside sentences, and a split there would shift one of two parallel files against the other.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neuropil.data.formats.paths import blocks_of, opened, require_file
from neuropil.errors import InputError

BYTES_PER_BLOCK = 1 << 18
WINDOWS = "cp1252"
"""Latin-1 with more characters, in which Windows writes."""


def encoding_of(path: Path) -> str:
    """UTF-8 if all bytes are; UTF-16 by its mark, or by zeros in every second place; otherwise what Windows writes."""
    with opened(require_file(path)) as file:
        start = file.read(BYTES_PER_BLOCK)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        for name, zeros, others in (("utf-16-le", start[1::2], start[::2]), ("utf-16-be", start[::2], start[1::2])):
            if zeros.count(0) > len(zeros) // 2 and others.count(0) == 0:
                return name
        decoder, encoding, line = codecs.getincrementaldecoder("utf-8")(), "utf-8-sig", 1
        while True:
            if (place := start.find(0)) >= 0:
                got = f"a NUL byte in line {line + start.count(10, 0, place):,}"
                raise InputError(f"{path.name} must be text", got=got, fix="remove it, or save the file as UTF-8")
            try:
                decoder.decode(start, final=not start)
            except UnicodeDecodeError:
                encoding = WINDOWS
            if not start:
                return encoding
            line, start = line + start.count(10), file.read(BYTES_PER_BLOCK)


@dataclass
class Tally:
    """Oddities of a file that are counted on the way: what is said of one and of many, and where the first was met."""

    one: str
    many: str
    count: int = 0
    first: int = 0

    def add(self, number: int) -> None:
        self.count, self.first = self.count + 1, self.first if self.count else number

    def note(self, total: int, things: str, place: str = "line") -> str:
        odd = self.one if self.count == 1 else self.many
        return f"{self.count:,} of {total:,} {things} {odd} (first: {place} {self.first:,})."


def count_copies() -> Tally:
    return Tally("is an exact copy of an earlier one", "are exact copies of earlier ones")


def read_lines(path: Path, *, progress: bool = False) -> Iterator[str]:
    """The lines without their ends, lazily; with a progress bar, if one is wanted and it takes long."""
    number = 1
    with opened(require_file(path)) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for block in blocks_of(file, path, lambda: file.read(BYTES_PER_BLOCK) + file.readline(), progress=progress):
            lines = _lines_of(block, number, path.name)
            number += len(lines)
            yield from lines


def read_characters(path: Path) -> Iterator[str]:
    """The text of a file without the end of its last line, in pieces of a block each, however long its lines are. It
    is what `read_lines` would give, with a line feed between each two."""
    lines, held = 1, ""
    with opened(require_file(path)) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        for block in blocks_of(file, path, lambda: file.read(BYTES_PER_BLOCK), progress=False):
            try:
                text = held + decoder.decode(block)
            except UnicodeDecodeError as cause:
                # What the decoder held back of the block before has no line feed.
                raise _not_utf8(
                    path.name, lines + held.count("\n") + cause.object.count(b"\n", 0, cause.start)
                ) from cause
            # What may be the end of the last line, and half of a line's end, waits for the next block.
            text, held = _without_last_end(text)
            lines += text.count("\n")
            yield text.replace("\r\n", "\n")
        if decoder.getstate()[0]:
            raise _not_utf8(path.name, lines + held.count("\n"))


def _without_last_end(text: str) -> tuple[str, str]:
    """A text, and the line feed or carriage return at its end."""
    kept = text.removesuffix("\n").removesuffix("\r")
    return kept, text[len(kept) :]


def _not_utf8(name: str, line: int) -> InputError:
    return InputError(f"{name} must be text in UTF-8", got=f"other bytes in line {line:,}", fix="save it as UTF-8")


def _lines_of(block: bytes, number: int, name: str) -> list[str]:
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise _not_utf8(name, number + block.count(b"\n", 0, cause.start)) from cause
    return text.removesuffix("\n").removesuffix("\r").replace("\r\n", "\n").split("\n")
