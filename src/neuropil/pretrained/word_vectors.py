"""Word vectors in the files of word2vec and of GloVe, plain or gzip, both ways.

word2vec           71290 300⏎                   how many words, and the width of their vectors
                   the 0.418 0.2497 …⏎          a word and its numbers
word2vec-binary    71290 300⏎
                   the 300 × float32            little-endian; then a line feed or none
glove              the 0.418 0.2497 …⏎          as word2vec, without the first line

Which of them a file is, its first lines say, and not its name. It is read a piece at a time into one array.
"""

import gzip
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn, TypeAlias, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from neuropil.data.formats.lines import Tally
from neuropil.data.formats.paths import blocks_of, opened, require_file, suffix_of
from neuropil.errors import DataWarning, InputError
from neuropil.files import replacing
from neuropil.memory import require_room
from neuropil.progress import tracked

VectorFormat: TypeAlias = Literal["word2vec", "word2vec-binary", "glove"]
SUFFIXES: dict[str, VectorFormat] = {".bin": "word2vec-binary", ".vec": "word2vec", ".txt": "word2vec"}
"""What files are called; GloVe's are told by their first line when they are read, and asked for to be written."""
BYTES_PER_BLOCK, ROWS_PER_BLOCK = 1 << 20, 1_000
LONGEST_LINE, LONGEST_WORD = 1 << 22, 1 << 14
"""Bytes; what is longer is no line of numbers and no word."""
GROWTH = 1.1
"""By which the array of a file grows that does not say how many words it has."""
ANEW = "copy or download it again"
HEADER = re.compile(rb"\s*(\d{1,18})[ \t]+(\d{1,9})\s*")

Record: TypeAlias = tuple[bytes, Sequence[float] | Float32[np.ndarray, " width"]]


@dataclass(frozen=True)
class Layout:
    format: VectorFormat
    width: int
    count: int | None
    """Of words, if the file says it."""


def holds_vectors(path: Path) -> bool:
    """By the name of the file."""
    return suffix_of(path) in SUFFIXES


def read_vectors(path: Path, vocabulary_size: int | None = None) -> tuple[list[str], Float[Tensor, "word width"]]:
    """The words and their vectors; of a large file the first `vocabulary_size` alone, which are the most frequent. A
    word that occurs again is left out, with a warning."""
    layout = layout_of(path)
    wanted = _wanted(path, layout, vocabulary_size)
    vectors = np.empty((wanted or ROWS_PER_BLOCK, layout.width), np.float32)
    words: dict[str, None] = {}
    copies = Tally("repeats an earlier one and is left out", "repeat earlier ones and are left out")
    number = 0
    records = _binary_records if layout.format == "word2vec-binary" else _text_records
    for number, (name, values) in enumerate(records(path, layout, vocabulary_size), 1):
        word = _decoded(name, number, path)
        if word in words:
            copies.add(number)
            continue
        if len(words) == len(vectors):
            _resize(vectors, int(GROWTH * len(vectors)) + 1)
        vectors[len(words)] = values
        words[word] = None
    _resize(vectors, len(words))
    if copies.count:
        warnings.warn(copies.note(number, f"words of {path.name}", "word"), DataWarning, stacklevel=2)
    return list(words), torch.from_numpy(vectors)


def _resize(vectors: Float32[np.ndarray, "word width"], count: int) -> None:
    """In place: the system moves the pages of a large array, and copies nothing."""
    vectors.resize((count, vectors.shape[1]), refcheck=False)


def _decoded(name: bytes, number: int, path: Path) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError as cause:
        shown = f"{_shown(name)} as word {number:,}"
        raise InputError(f"the words of {path.name} must be in UTF-8", got=shown, fix=ANEW) from cause


def _shown(content: bytes) -> str:
    """Where it begins, for a sentence."""
    return repr(content[:30].decode("utf-8", "replace"))


def begins_with_vectors(path: Path) -> bool:
    """By its first line; where that has one number, as a heading may, by its second too."""
    first, second = _first_lines(path)
    count = len(_numbers_after_word(first))
    return HEADER.fullmatch(first) is not None or count > 1 or (count == 1 == len(_numbers_after_word(second)))


def _first_lines(path: Path) -> tuple[bytes, bytes]:
    with opened(require_file(path, "word vectors")) as file:
        return file.readline(LONGEST_LINE), file.readline(LONGEST_LINE)


def _numbers_after_word(line: bytes) -> list[bytes]:
    """At the end of a line."""
    numbers = line.split()[1:]
    while numbers and not _are_numbers(numbers):
        del numbers[0]  # of a word with a space in it
    return numbers


def layout_of(path: Path) -> Layout:
    first, second = _first_lines(path)
    if header := HEADER.fullmatch(first):
        count, width = map(int, header.groups())
        if not count or not width:
            raise InputError(f"{path.name} must hold word vectors", got=f"{count} of width {width}")
        numbers = second.split()[1:]
        # Bytes of float32 that happen to be digits and a line end are not to be taken for text.
        text = len(numbers) >= min(width, 2) and _are_numbers(numbers[-2:])
        return Layout("word2vec" if text else "word2vec-binary", width, count)
    numbers = _numbers_after_word(first)
    if not numbers:
        rule = f"{path.name} must begin with a word and its numbers, or with the count and the width of its vectors"
        raise InputError(rule, got=_shown(first.rstrip()) if first else "an empty file")
    return Layout("glove", len(numbers), None)


def _are_numbers(words: Sequence[bytes]) -> bool:
    try:
        list(map(float, words))
    except ValueError:
        return False
    return True


def _wanted(path: Path, layout: Layout, vocabulary_size: int | None) -> int | None:
    """Rows to make room for, if that is known."""
    with opened(path) as file:
        packed = isinstance(file, gzip.GzipFile)
    if layout.count is None:
        if packed or vocabulary_size is None:
            return None
        return min(vocabulary_size, path.stat().st_size // (2 * layout.width) + 1)  # a number, and a sign between
    wanted = min(layout.count, vocabulary_size or layout.count)
    shortest = 4 * layout.width + 1 if layout.format == "word2vec-binary" else 2 * layout.width
    if not packed and wanted * shortest > path.stat().st_size:
        rule = f"{path.name} must have {layout.count:,} vectors of width {layout.width:,}, as its first line says"
        raise InputError(rule, got=f"a file of {path.stat().st_size:,} bytes", fix=ANEW)
    require_room("word vectors", 4 * wanted * layout.width)
    return wanted


def _text_records(path: Path, layout: Layout, vocabulary_size: int | None) -> Iterator[Record]:
    number, width = 0, layout.width
    with opened(path) as file:
        if layout.count is not None:
            file.readline()
        for block in blocks_of(
            file, path, lambda: file.read(BYTES_PER_BLOCK) + _whole_line(file.readline(LONGEST_LINE), path)
        ):
            for line in block.split(b"\n"):
                if line.isspace() or not line:
                    continue
                if number == vocabulary_size:
                    return
                number += 1
                # From the right: GloVe has words with spaces in them. These split at ASCII's alone, not at U+00A0.
                word, *numbers = line.rsplit(None, width) if line[:1] != b" " else [b"", *line.split()]
                before = word.split()[1:]
                if len(numbers) != width or (before and _are_numbers(before[-1:])):
                    found = len(line.split()) - 1
                    _refuse_line(path, number, layout, f"{found:,} number{'' if found == 1 else 's'}")
                try:
                    yield word, list(map(float, numbers))
                except ValueError:
                    wrong = next(each for each in numbers if not _are_numbers([each]))
                    _refuse_line(path, number, layout, _shown(wrong))
    _require_count(path, layout, number)


def _whole_line(line: bytes, path: Path) -> bytes:
    if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
        rule = f"a line of {path.name} may have {LONGEST_LINE:,} bytes"
        raise InputError(rule, got="a longer one", fix=ANEW)
    return line


def _refuse_line(path: Path, number: int, layout: Layout, got: str) -> NoReturn:
    line = number + (layout.count is not None)
    raise InputError(f"line {line:,} of {path.name} must be a word and {layout.width:,} numbers", got=got, fix=ANEW)


def _binary_records(path: Path, layout: Layout, vocabulary_size: int | None) -> Iterator[Record]:
    size, buffer, place = 4 * layout.width, b"", 0
    count = layout.count or 0
    with opened(path) as file:
        file.readline()
        blocks = blocks_of(file, path, lambda: file.read(BYTES_PER_BLOCK))
        for number in range(min(count, vocabulary_size or count)):
            while (end := buffer.find(b" ", place, place + LONGEST_WORD)) < 0 or len(buffer) < end + 1 + size:
                block = next(blocks, b"")
                if end < 0 and len(buffer) - place >= LONGEST_WORD:
                    got = f"{_shown(buffer[place : place + 30])} as word {number + 1:,}"
                    raise InputError(f"{path.name} must have a space after each word", got=got, fix=ANEW)
                if not block:
                    _require_count(path, layout, number)
                buffer, place = buffer[place:] + block, 0
            yield buffer[place:end].lstrip(b"\n"), np.frombuffer(buffer, "<f4", layout.width, end + 1)
            place = end + 1 + size
        if vocabulary_size is None or vocabulary_size >= count:
            rest = buffer[place:] + next(blocks, b"")
            _require_count(path, layout, count + bool(rest.strip()))


def _require_count(path: Path, layout: Layout, found: int) -> None:
    if layout.count is not None and found != layout.count:
        got = f"{found:,}" if found < layout.count else "more"
        raise InputError(f"{path.name} must have {layout.count:,} vectors, as its first line says", got=got, fix=ANEW)


# --- out -------------------------------------------------------------------------------------------------------------


def format_of(path: Path) -> VectorFormat:
    """By the name of a file that is to be written."""
    if not holds_vectors(path):
        raise InputError(f"word vectors are written to a file that ends in {', '.join(SUFFIXES)}", got=f"{path.name!r}")
    return SUFFIXES[suffix_of(path)]


def write_vectors(
    path: Path, words: Sequence[str], vectors: Float[Tensor, "word width"], format: VectorFormat | None = None
) -> None:
    """Byte for byte as gensim writes them; numbers of the text formats are the shortest that are read as the same
    float32. A name that ends in .gz is packed."""
    format = format or format_of(path)
    if format not in get_args(VectorFormat):
        raise InputError(f"word vectors are written as {', '.join(get_args(VectorFormat))}", got=f"{format!r}")
    names = _without_spaces(words)
    with replacing(path) as part, _opened_for_writing(part, packed=path.name.lower().endswith(".gz")) as file:
        if format != "glove":
            file.write(f"{len(names)} {vectors.shape[1]}\n".encode())
        for begin in tracked(range(0, len(names), ROWS_PER_BLOCK), f"Writing {path.name}"):
            some = slice(begin, begin + ROWS_PER_BLOCK)
            rows = vectors[some].detach().cpu().numpy().astype("<f4")
            if format == "word2vec-binary":
                records = (f"{name} ".encode() + row.tobytes() for name, row in zip(names[some], rows, strict=True))
            else:
                texts = rows.astype(str).tolist()
                records = (f"{name} {' '.join(row)}\n".encode() for name, row in zip(names[some], texts, strict=True))
            file.write(b"".join(records))


def _without_spaces(words: Sequence[str]) -> Sequence[str]:
    """A word ends at a space in these files."""
    odd = Tally("has a space in it, which is written as _", "have spaces in them, which are written as _")
    written = []
    for number, word in enumerate(words, 1):
        name = re.sub(r"[ \t\n\r\v\f]", "_", word)
        if name != word:
            odd.add(number)
        written.append(name)
    if odd.count:
        warnings.warn(odd.note(len(words), "words", "word"), DataWarning, stacklevel=3)
    return written


@contextmanager
def _opened_for_writing(path: Path, *, packed: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as plain:
        if not packed:
            yield plain
            return
        with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as file:  # the same bytes whenever it is written
            yield cast(BinaryIO, file)
