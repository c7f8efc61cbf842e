"""Lines of text files, plain or gzip, in UTF-8, a piece of the file at a time.

A line ends at a line feed, with or without a carriage return before it, and nowhere else. Other separators, such as U+2028, occur
inside sentences, and a split there would shift one of two parallel files against the other.
"""

import codecs
from collections.abc import Iterator
from pathlib import Path

from neuropil.data.formats.contents import opened, tracked
from neuropil.data.messages import did_you_mean
from neuropil.errors import InputError

BYTES_PER_BLOCK = 1 << 18


def read_lines(path: Path, *, progress: bool = False) -> Iterator[str]:
    """The lines without their ends, lazily; with a progress bar, if one is wanted and it takes long."""
    size = require_file(path).stat().st_size
    number = 1
    with opened(path) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        # Of gzip, the packed file: how long that is, is known.
        packed = getattr(file, "fileobj", file)
        for percent in tracked(range(1, 101), f"Reading {path.name}") if progress else range(1, 101):
            while (percent == 100 or packed.tell() * 100 < percent * size) and (
                block := file.read(BYTES_PER_BLOCK) + file.readline()
            ):
                lines = _lines_of(block, number, path.name)
                number += len(lines)
                yield from lines


def require_file(path: Path) -> Path:
    if path.is_dir():
        raise InputError("texts are read from files", got=f"the folder {path.as_posix()!r}")
    if not path.exists():
        beside = [inner.name for inner in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(
            "texts are read from files that exist", got=f"{path.as_posix()!r}", fix=did_you_mean(path.name, beside)
        )
    return path


def _lines_of(block: bytes, number: int, name: str) -> list[str]:
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = number + block.count(b"\n", 0, cause.start)
        raise InputError(
            f"{name} must be text in UTF-8", got=f"other bytes in line {line:,}", fix="save it as UTF-8"
        ) from cause
    return text.removesuffix("\n").removesuffix("\r").replace("\r\n", "\n").split("\n")
