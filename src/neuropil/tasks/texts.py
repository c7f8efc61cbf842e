"""What all tasks on texts share: texts from the command line and from files, batches to evaluate on, notes on what was
cut."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from neuropil.data.batches import EncodedTexts, LengthBatches
from neuropil.data.formats.columns import choose_columns, short_names
from neuropil.data.formats.delimited import DelimitedFile
from neuropil.data.formats.lines import read_lines
from neuropil.data.formats.paths import require_file, suffix_of
from neuropil.data.labelled_texts.files import TEXTS
from neuropil.errors import InputError, counted, listed, plural

LINES_AT_ONCE = 256
EVALUATION_BATCH = 256
INITIAL_SCALE = 0.1
SUFFIXES = (".txt", ".gz", ".tsv", ".csv", ".jsonl", ".md")
TABLES = (".tsv", ".csv")


def texts_of(words: Sequence[str], standard_input: Iterable[str]) -> Iterator[list[str]]:
    """Texts in the portions in which they are to be answered: lines of standard input one by one, files many lines at a
    time."""
    for word in words:
        if _is_file(word):
            yield from _portions(text for _, text in _texts_in(Path(word)))
        else:
            yield [require_utf8(word)]
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
        if _is_file(str(path)):
            found = list(_texts_in(path))
            texts += [text for _, text in found]
            names += [f"{path.name} line {number}" for number, _ in found]
        else:
            texts.append(require_utf8(str(path)))
            names.append(texts[-1])
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
    have = f"{plural(what, total)} {'has' if count == 1 else 'have'}"
    return [f"{count:,} of {total:,} training {have} more than {limit:,} tokens{consequence}."] if count else []


def _texts_in(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file with their lines: each line is one, or in a table of several columns the cell of the column
    of texts."""
    if suffix_of(path) not in TABLES:
        yield from enumerate(read_lines(path), start=1)
        return
    table = DelimitedFile(require_file(path), texts=True)
    if len(table.header) < 2:
        yield from enumerate(read_lines(path), start=1)
        return
    (column,) = choose_columns(table.header, [None], [TEXTS], path.name)
    if column is None:
        raise InputError(
            f"the first row of {path.name} must name its column of texts, such as {TEXTS.words[0]}",
            got=f"{counted(len(table.header), 'column')}: {listed(short_names(table.header))}",
            fix="add a row of names; or call it .txt, if each line is a text",
        )
    yield from ((number, cells[column]) for number, cells in table.records() if number > 1 and any(cells))


def _portions(lines: Iterator[str]) -> Iterator[list[str]]:
    while portion := list(islice(lines, LINES_AT_ONCE)):
        yield portion


def _is_file(word: str) -> bool:
    """A word that ends like the name of a file is meant as one, and missed if it is not there."""
    try:
        return Path(word).is_file() or (Path(word).suffix in SUFFIXES and not any(map(str.isspace, word)))
    except OSError:  # a text may be too long for the name of a file
        return False
