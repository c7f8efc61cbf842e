"""Paths that a user gives: what is there, what it is by its name, and its bytes, unpacked where they are gzip."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from neuropil.errors import InputError, closest
from neuropil.memory import require_room
from neuropil.progress import tracked

Block = TypeVar("Block")
PART_OF_ROWS = "give a part of its rows"


def suffix_of(path: Path) -> str:
    """In small letters; of a packed file, what it has below .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def require_path(path: Path, rule: str) -> Path:
    if not path.exists():
        missing = next(part for part in (path, *path.parents) if part.parent.is_dir())
        meant = closest(missing.name, [inner.name for inner in missing.parent.iterdir()])
        fix = f"did you mean {missing.with_name(meant).as_posix()!r}?" if meant else None
        raise InputError(rule, got=f"{path.as_posix()!r}", fix=fix)
    return path


def require_file(path: Path, what: str = "texts") -> Path:
    if path.is_dir():
        raise InputError(f"{what} are read from files", got=f"the folder {path.as_posix()!r}")
    return require_path(path, f"{what} are read from files that exist")


def require_fits(path: Path) -> None:
    """Of a file whose rows are all held in memory, which takes as many bytes as it has, or more."""
    require_room(path.name, path.stat().st_size, fix=PART_OF_ROWS)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if it is gzip; what matters is how it begins, not how it is called."""
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        try:
            if packed:
                with gzip.open(plain) as unpacked:
                    yield unpacked  # type: ignore[misc]  # GzipFile reads as a BinaryIO does
            else:
                yield plain
        except (EOFError, zlib.error, gzip.BadGzipFile) as cause:
            got = "one that is cut off or damaged"
            rule = f"{path.name} must be a whole gzip file"
            raise InputError(rule, got=got, fix="copy or download it again") from cause


def blocks_of(file: object, path: Path, read: Callable[[], Block], *, progress: bool = True) -> Iterator[Block]:
    """What `read` takes from the opened file until there is nothing left; with a progress bar, if it takes long."""
    size = path.stat().st_size
    packed: Any = getattr(file, "fileobj", file)  # of gzip, the packed file: how long that is, is known
    for percent in tracked(range(1, 101), f"Reading {path.name}") if progress else range(1, 101):
        while (percent == 100 or packed.tell() * 100 < percent * size) and (block := read()):
            yield block
