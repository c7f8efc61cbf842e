"""Tokens of a long text in a file that is mapped into memory: two bytes for each where the vocabulary allows it.

Pages that were read are given back every now and then. The system keeps them for as long as nobody else needs the
room, but they do not count as memory of this process, which so stays the same however long the text is.
"""

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Int32, Int64, Integer
from torch import Tensor

from neuropil.files import replacing

SMALL = 2**16
"""Different tokens that two bytes can tell apart."""
READS_BETWEEN_RELEASES = 512
"""Each maps 64 kB or so: what lies around a page that is read is mapped with it."""
TOKENS_AT_ONCE = 2**22


class TokenFile:
    """Read as a row of tokens is, of which a slice is a tensor of its own. `fingerprint` is that of its content."""

    def __init__(self, path: Path, vocabulary: int, fingerprint: str):
        self.path, self.fingerprint, self._type = path, fingerprint, type_for(vocabulary)
        self._length, self._reads = path.stat().st_size // self._type.itemsize, 0
        with path.open("rb") as file:
            # Nothing cannot be mapped.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._length else None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: slice) -> Int32[Tensor, " token"]:
        begin, end, _ = place.indices(len(self))
        if self._map is None or begin >= end:
            return torch.empty(0, dtype=torch.int32)
        found = np.frombuffer(self._map, self._type, end - begin, begin * self._type.itemsize).astype(np.int32)
        self._reads += 1
        if self._reads % READS_BETWEEN_RELEASES == 0 or end - begin >= TOKENS_AT_ONCE:
            self._release()
        return torch.from_numpy(found)

    def blocks(self) -> Iterator[Int32[Tensor, " token"]]:
        for begin in range(0, len(self), TOKENS_AT_ONCE):
            yield self[begin : begin + TOKENS_AT_ONCE]

    def _release(self) -> None:
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


Tokens: TypeAlias = Integer[Tensor, " token"] | TokenFile


def type_for(vocabulary: int) -> np.dtype:
    return np.dtype(np.uint16 if vocabulary <= SMALL else np.int32)


def write_tokens(path: Path, rows: Iterable[Int32[np.ndarray, " token"]], vocabulary: int) -> None:
    """Whole or not at all."""
    with replacing(path) as part, part.open("wb") as file:
        for row in rows:
            file.write(row.astype(type_for(vocabulary)).data)


def count_tokens(tokens: Tokens, vocabulary: int) -> Int64[Tensor, " vocabulary"]:
    """How often each occurs."""
    blocks = tokens.blocks() if isinstance(tokens, TokenFile) else [tokens]
    total = torch.zeros(vocabulary, dtype=torch.int64)
    for block in blocks:
        total += block.bincount(minlength=vocabulary)
    return total
