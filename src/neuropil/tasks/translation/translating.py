"""Texts from the command line, translated as they come."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from neuropil.data.formats.lines import read_lines
from neuropil.errors import InputError
from neuropil.inspection.recording import attention_modules
from neuropil.inspection.report.alignment import Alignment, write_alignments
from neuropil.tasks.translation.experiment import Translator

LINES_AT_ONCE = 256
SUFFIXES = (".txt", ".gz", ".tsv", ".csv", ".jsonl", ".md")
MOST_ALIGNED = 50
"""Texts whose attention one page shows."""


def texts_of(words: Sequence[str], standard_input: Iterable[str]) -> Iterator[list[str]]:
    """Texts in the portions in which they are to be answered: lines of standard input one by one, files many lines at a time."""
    for word in words:
        yield from _portions(read_lines(Path(word))) if _is_file(word) else [[_readable(word)]]
    if words:
        return
    try:
        for line in standard_input:
            yield [_readable(line.rstrip("\r\n"))]
    except UnicodeDecodeError as cause:
        raise InputError(
            "standard input must be text in UTF-8", got="other bytes", fix="convert it first, for instance with iconv"
        ) from cause


def translated(
    translator: Translator, portions: Iterable[list[str]], *, beam: int, length_penalty: float, attention: Path | None
) -> Iterator[tuple[str, str]]:
    """Each text with its translation on one line, as soon as it is known; `attention` is the page that shows where the model looked."""
    if attention is not None and not attention_modules(translator.model):
        raise InputError("--attention shows where a model looked", got="a model without attention", fix="leave it out")
    alignments: list[Alignment] = []
    for texts in portions:
        found = translator.translate(texts, beam_width=beam, length_penalty=length_penalty).texts
        yield from zip(texts, (" ".join(answer.splitlines()) for answer in found), strict=True)
        if attention is not None:
            pairs = zip(texts, found, strict=True)
            alignments += [
                translator.align(text, answer) for text, answer in islice(pairs, MOST_ALIGNED - len(alignments)) if text
            ]
    if attention is not None:
        write_alignments(attention, alignments, "Where the model looked")


def _portions(lines: Iterator[str]) -> Iterator[list[str]]:
    while portion := list(islice(lines, LINES_AT_ONCE)):
        yield portion


def _readable(text: str) -> str:
    """Bytes that are no text come from the command line as halves of characters, which no tokenizer takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise InputError("a text must be UTF-8", got=f"{text!r}") from cause
    return text


def _is_file(word: str) -> bool:
    """A word that ends like the name of a file is meant as one, and missed if it is not there."""
    try:
        return Path(word).is_file() or (Path(word).suffix in SUFFIXES and not any(map(str.isspace, word)))
    except OSError:  # a text may be too long for the name of a file
        return False
