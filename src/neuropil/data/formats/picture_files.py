"""Pictures that stay in their files: only their names are in memory, and each is read when a batch asks for it.

A name takes as many bytes as the longest of them has letters, so that a million pictures take some tens of megabytes.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from neuropil.data.prefetch import prefetched

Pictures: TypeAlias = UInt8[Tensor, "picture channel height width"]
Read: TypeAlias = Callable[[Path, tuple[int, ...]], UInt8[Tensor, "channel height width"]]

SAMPLED, SAMPLED_BYTES = 10_000, 2**28
"""Pictures that stand for all of them, at most."""
LOOKED_AT, PIECES = 4_096, 16
"""Bytes of each piece by which a large file is told from others of its size, and how many of them."""


@dataclass(frozen=True)
class PictureFiles:
    """Read as a tensor of bytes is: what is taken of it by a number, a slice or an index is a tensor."""

    root: Path
    names: Shaped[np.ndarray, " picture"]
    """Of the files below the root."""
    size: tuple[int, ...]
    """Channels, height and width that `read` brings each to."""
    read: Read
    change: Callable[[Pictures], Pictures] | None = None
    """What is done to them afterwards."""
    changed_size: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), *(self.changed_size or self.size)))

    def path(self, number: int) -> Path:
        return self.root / os.fsdecode(self.names[number])

    def __getitem__(self, place: int | slice | Int64[Tensor, " chosen"]) -> Tensor:
        if isinstance(place, int):
            return self[torch.tensor([place % len(self)])][0]
        numbers = torch.arange(len(self))[place] if isinstance(place, slice) else place
        found = torch.empty(len(numbers), *self.size, dtype=torch.uint8)

        def fill(pair: tuple[int, int]) -> None:
            at, number = pair
            found[at] = self.read(self.path(number), self.size)

        for _ in readers().map(fill, enumerate(numbers.tolist())):  # raises what one of them did
            pass
        return found if self.change is None else self.change(found)

    def index_select(self, dim: int, index: Int64[Tensor, " chosen"]) -> Pictures:
        """As of a tensor; `dim` is the first."""
        return self[index]

    def take(self, index: Int64[Tensor, " chosen"]) -> "PictureFiles":
        """Without reading them."""
        return replace(self, names=self.names[index.numpy()])

    def split(self, size: int) -> Iterator[Pictures]:
        """One after the other, the next ones ahead of their use."""
        begins = range(0, len(self), size)
        return prefetched(partial(self.__getitem__, slice(begin, begin + size)) for begin in begins)

    def then(self, change: Callable[[Pictures], Pictures], size: tuple[int, ...]) -> "PictureFiles":
        return replace(self, change=change, changed_size=size)

    @property
    def spread(self) -> Int64[Tensor, " chosen"]:
        """Numbers of those that stand for all, at even distances."""
        most = min(len(self), SAMPLED, max(SAMPLED_BYTES // self.shape[1:].numel(), 1))
        return torch.linspace(0, len(self) - 1, most, dtype=torch.double).round().long()

    @property
    def keys(self) -> list[bytes]:
        """Equal for files with the same content alone. Only of files that have the size of another something is read:
        all of a small one, pieces of a large one, and all of it where these are those of another too."""
        keys = [os.stat(self.path(number)).st_size.to_bytes(8, "little") for number in range(len(self))]
        return self._told_apart(self._told_apart(keys, _some_digest), _rest_digest)

    def _told_apart(self, keys: Sequence[bytes], digest: Callable[[Path], bytes]) -> list[bytes]:
        """Those that are there several times, with more to them."""
        times = Counter(keys)

        def key(number: int) -> bytes:
            known = keys[number]
            return known if times[known] == 1 else known + digest(self.path(number))

        numbers = range(len(self))
        parts = (numbers[begin : begin + SAMPLED] for begin in numbers[::SAMPLED])  # what waits for a thread is held
        return [found for part in parts for found in readers().map(key, part)]

    @property
    def fingerprint(self) -> UInt8[Tensor, " byte"]:
        """By the names and sizes of the files."""
        digest = hashlib.sha256(repr((self.size, self.changed_size)).encode())
        for number, name in enumerate(self.names.tolist()):
            digest.update(b"%b %d\n" % (name, os.stat(self.path(number)).st_size))
        return torch.tensor([*digest.digest()], dtype=torch.uint8)


def as_names(names: Sequence[str]) -> Shaped[np.ndarray, " picture"]:
    return np.array([os.fsencode(name) for name in names], dtype=np.bytes_)


@cache
def readers() -> ThreadPoolExecutor:
    """Decoding releases Python's lock."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="pictures")


def _some_digest(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= LOOKED_AT * PIECES:
            digest.update(file.read())
        else:
            for begin in np.linspace(0, size - LOOKED_AT, PIECES).astype(int).tolist():
                file.seek(begin)
                digest.update(file.read(LOOKED_AT))
    return digest.digest()


def _rest_digest(path: Path) -> bytes:
    """Of a file that has been read in pieces alone."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= LOOKED_AT * PIECES:
            return b""
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=8)).digest()
