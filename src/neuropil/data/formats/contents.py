"""What the readers of files have in common: the parts that they find, and how files are opened.

A reader says what a file holds; which classes there are, and what is held out, is decided afterwards and for all formats alike.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import BinaryIO, TypeAlias, TypeVar

from jaxtyping import Float32, UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Column
from neuropil.data.examples.labels import Labels
from neuropil.errors import InputError

PartName: TypeAlias = str
"""train, validation or test."""
PART_OF_WORD: Mapping[str, PartName] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}

Item = TypeVar("Item")
PATIENCE = 2.0
"""Seconds after which a progress bar appears."""


@dataclass(frozen=True)
class Inputs:
    values: UInt8[Tensor, "example channel height width"] | Float32[Tensor, "example feature"]
    name: Callable[[int], str]
    """Where the example with this number comes from: "cat.png", "rows.csv row 3"."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return tuple(self.values.shape[1:])


@dataclass(frozen=True)
class Part:
    inputs: Inputs
    labels: Labels


@dataclass(frozen=True)
class Reading:
    parts: Mapping[PartName, Part]
    columns: tuple[Column, ...] = ()
    target: str = ""
    note: str = ""
    """What was done to the data on the way, for the report."""

    @property
    def held_out(self) -> Part:
        """The part that a trained model has not seen, if the data says so; otherwise all there is."""
        return self.parts[last_part(self.parts)]


def part_of(words: Iterable[str]) -> PartName:
    """The part that one of the words names; a name that says nothing is for training."""
    return next((PART_OF_WORD[word] for word in words if word in PART_OF_WORD), "train")


def last_part(names: Iterable[PartName]) -> PartName:
    """The one to score a trained model on."""
    return max(names, key=("train", "validation", "test").index)


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
            raise InputError(
                f"{path.name} must be a whole gzip file",
                got="one that is cut off or damaged",
                fix="copy or download it again",
            ) from cause


def tracked(items: Sequence[Item], doing: str) -> Iterator[Item]:
    """The items; if they take long, with a progress bar that vanishes at the end."""
    began = monotonic()
    for done, item in enumerate(items):
        if monotonic() - began > PATIENCE:
            from rich.console import Console
            from rich.progress import track

            console = Console(stderr=True)
            yield from track(
                items[done:],
                doing,
                total=len(items),
                completed=done,
                console=console,
                transient=True,
                disable=not console.is_terminal,
            )
            return
        yield item
