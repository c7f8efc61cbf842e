"""What all tasks on texts share: texts from the command line and from files, batches to evaluate on, notes on what was
cut."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import torch
from torch import nn

from neuropil.data.batches import EncodedTexts, LengthBatches
from neuropil.data.formats.lines import read_lines
from neuropil.errors import InputError

LINES_AT_ONCE = 256
EVALUATION_BATCH = 256
INITIAL_SCALE = 0.1
SUFFIXES = (".txt", ".gz", ".tsv", ".csv", ".jsonl", ".md")


def texts_of(words: Sequence[str], standard_input: Iterable[str]) -> Iterator[list[str]]:
    """Texts in the portions in which they are to be answered: lines of standard input one by one, files many lines at a
    time."""
    for word in words:
        yield from _portions(read_lines(Path(word))) if _is_file(word) else [[require_utf8(word)]]
    if words:
        return
    try:
        for line in standard_input:
            yield [require_utf8(line.rstrip("\r\n"))]
    except UnicodeDecodeError as cause:
        fix = "convert it first, for instance with iconv"
        raise InputError("standard input must be text in UTF-8", got="other bytes", fix=fix) from cause


def read_texts(paths: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Texts of files, a line each, and their names; what is no file is a text itself."""
    texts, names = list[str](), list[str]()
    for path in paths:
        found = list(chain.from_iterable(texts_of([str(path)], [])))
        texts += found
        names += [f"{path.name} line {number}" for number in range(1, len(found) + 1)] if path.is_file() else found
    return texts, names


def require_utf8(text: str, what: str = "a text") -> str:
    """Bytes that are no text come from the command line as halves of characters, which no tokenizer takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise InputError(f"{what} must be UTF-8", got=f"{text!r}") from cause
    return text


def in_order(encoded: EncodedTexts, device: torch.device) -> LengthBatches:
    """For evaluation."""
    return LengthBatches(encoded, EVALUATION_BATCH, seed=0, shuffle=False, device=device)


def shrink_embeddings(embedding: nn.Embedding) -> None:
    """Of a rare token little is learned, and what it was initialised with stays, which is noise."""
    with torch.no_grad():
        embedding.weight *= INITIAL_SCALE


def too_long_note(count: int, total: int, what: str, limit: int, consequence: str) -> list[str]:
    """A sentence, if any was too long."""
    have = f"{what} has" if count == 1 else f"{what}s have"
    return [f"{count:,} of {total:,} training {have} more than {limit:,} tokens{consequence}."] if count else []


def _portions(lines: Iterator[str]) -> Iterator[list[str]]:
    while portion := list(islice(lines, LINES_AT_ONCE)):
        yield portion


def _is_file(word: str) -> bool:
    """A word that ends like the name of a file is meant as one, and missed if it is not there."""
    try:
        return Path(word).is_file() or (Path(word).suffix in SUFFIXES and not any(map(str.isspace, word)))
    except OSError:  # a text may be too long for the name of a file
        return False
