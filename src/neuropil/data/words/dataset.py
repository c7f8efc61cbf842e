"""What the data room hands out for word vectors: sentences as one long row of word numbers in each of three parts.

    the cat sat · on the mat ·   →   0 4 9 -1 2 0 7 -1

Word 0 is the most frequent one; `END` stands after each sentence. The row lies in a file that is mapped into memory, so
that a corpus may be larger than memory: it takes four bytes for each word.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Int32, Int64

from neuropil.data.splits import Splits
from neuropil.files import write_text

END, UNKNOWN = -1, -2
"""What is no word of the vocabulary is `UNKNOWN` while phrases are found, and is left out afterwards."""
NUMBERS_AT_ONCE = 1 << 22
VOCABULARY_FILE = "vocabulary.tsv"


@dataclass(frozen=True)
class Vocabulary:
    """Words with their counts in the training part, the most frequent first."""

    words: tuple[str, ...]
    counts: Int64[np.ndarray, " word"]

    @classmethod
    def most_frequent(cls, counts: Mapping[str, int], *, min_count: int, size: int | None = None) -> Self:
        """Of equally frequent words, in the order of the alphabet."""
        kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)[:size]
        return cls(tuple(word for _, word in kept), np.array([-count for count, _ in kept], np.int64))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def save(self, folder: Path) -> None:
        lines = (f"{word}\t{count}\n" for word, count in zip(self.words, self.counts.tolist(), strict=True))
        write_text(folder / VOCABULARY_FILE, "".join(lines))


@dataclass(frozen=True)
class EncodedWords:
    """Sentences as word numbers, each with `END` after it. `pages` are those of the file, where they are in one."""

    numbers: Int32[np.ndarray, " place"]
    pages: mmap.mmap | None = field(default=None, compare=False)

    def __len__(self) -> int:
        """Words."""
        return self.num_words

    @cached_property
    def num_words(self) -> int:
        return sum(int((block >= 0).sum()) for block in self.blocks())

    def blocks(self) -> Iterator[Int32[np.ndarray, " place"]]:
        for begin in range(0, len(self.numbers), NUMBERS_AT_ONCE):
            yield self.numbers[begin : begin + NUMBERS_AT_ONCE]
            self.release()

    def release(self) -> None:
        """Give back what was read of the file, so that it does not count as memory of this process."""
        if self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)

    @property
    def num_sentences(self) -> int:
        return sum(int((block == END).sum()) for block in self.blocks())

    def counts(self, size: int) -> Int64[np.ndarray, " word"]:
        return sum(
            (np.bincount(block[block >= 0], minlength=size) for block in self.blocks()), np.zeros(size, np.int64)
        )


@dataclass(frozen=True, kw_only=True)
class WordCorpus(Splits[EncodedWords]):
    vocabulary: Vocabulary
    source: str
    """Where it comes from, as a phrase for the report: "1,550,660 words (docstrings of installed libraries)"."""


class NumberFile:
    """Word numbers that are written to a file without a name, and mapped into memory when all are there."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as what is mapped)
        self.length = 0

    def write(self, numbers: Iterable[int] | Int32[np.ndarray, " place"]) -> None:
        block = np.asarray(numbers, np.int32)
        self.file.write(block.data)
        self.length += len(block)

    def mapped(self) -> EncodedWords:
        with self.file as file:
            if not self.length:  # nothing cannot be mapped
                return EncodedWords(np.empty(0, np.int32))
            file.flush()
            # One that can be written, for compiled functions are compiled once more for what cannot.
            pages = mmap.mmap(file.fileno(), 0)
            return EncodedWords(np.frombuffer(pages, np.int32), pages)
