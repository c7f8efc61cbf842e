"""One long text in three parts: the documentation that comes with Python, or the user's own files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from neuropil.config import option
from neuropil.data.corpus.dataset import Corpus
from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.corpus.sources import BETWEEN_DOCUMENTS, CORPUS, TextFiles, text_files
from neuropil.data.corpus.stored import (
    MOST_HELD_OUT,
    MOST_IN_MEMORY,
    StoredText,
    held_out_places,
    store_text,
)
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.splits import SplitConfig, scoring_share, validation_share
from neuropil.errors import InputError, listed
from neuropil.memory import require_room, written
from neuropil.progress import measured

LEAST = 200
"""Characters from which on there is something to learn and something to hold out."""


class TextDataConfig(SplitConfig):
    data: tuple[Path, ...] | InMemory = option(
        (),
        "your own texts: files in UTF-8, JSONL or Parquet, folders or patterns of them; without it, Python's own "
        "documentation",
    )
    text_column: str | None = option(None, "the column of JSONL or Parquet that holds the texts, where it is not clear")
    validation: float = validation_share(0.05, "share before the test part, held out for early stopping")
    test: float = scoring_share(0.05, "share at the end of the text, held out for the final score", high=0.5)


def prepare_text(config: TextDataConfig) -> Corpus:
    learned, own = training_part(config.data)
    notes: tuple[str, ...] = ()
    if isinstance(learned, InMemory):
        require_no_column(config.text_column, learned.name)
        text = text_in_memory(learned)
        source = f"{len(text):,} characters ({learned.name})"
    elif learned:
        files = text_files(learned, config.text_column)
        if files.num_bytes > MOST_IN_MEMORY:
            stored = store_text(files, config.validation, config.test)
            if stored.summary.num_bytes > MOST_IN_MEMORY:  # and not only what else the files hold
                return _stored(stored, names_of(learned))
        text, notes = whole_text(files), files.notes
        source = f"{len(text):,} characters ({names_of(learned)})"
    else:
        require_no_column(config.text_column, "the embedded text")
        text, note = python_documentation()
        source, notes = f"{len(text):,} characters of Python's own documentation", (note,)
    if len(text) < LEAST or not text.strip():
        got = f"{len(text)}" if len(text) < LEAST else "white space alone"
        raise InputError(f"{names_of(config.data)} must have at least {LEAST} characters to learn from", got=got)
    shares = (0.0 if name in own else getattr(config, name) for name in ("validation", "test"))
    begin_validation, begin_test = held_out_places(text, *(round(share * len(text)) for share in shares))
    parts = {"validation": text[begin_validation:begin_test], "test": text[begin_test:]}
    parts |= {name: text_in_memory(part) for name, part in own.items()}
    return Corpus(text[:begin_validation], parts["validation"], parts["test"], notes, source=source)


def _stored(text: StoredText, name: str) -> Corpus:
    found = text.summary
    total = len(text) + len(found.validation) + len(found.test)
    # No path: a run that is resumed with another cache folder has the same notes.
    note = (
        f"The text has more than {written(MOST_IN_MEMORY)} and is read from disk: its tokens are kept in the user's "
        f"cache folder, its vocabulary is learned from {sum(map(len, found.sample)):,} characters that are spread "
        f"evenly over it, at most {MOST_HELD_OUT:,} characters are held out for validation and for the test each, and "
        f"baselines read the last {len(found.ending):,} before them."
    )
    source = f"{total:,} characters ({name})"
    return Corpus(text, found.validation, found.test, (*text.files.notes, note), source=source)


def require_no_column(column: str | None, data: str) -> None:
    if column is not None:
        rule = "--text-column names a column of JSONL or Parquet"
        raise InputError(rule, got=f"{column!r} for {data}", fix="leave it out")


def names_of(source: Sequence[Path] | InMemory) -> str:
    return source.name if isinstance(source, InMemory) else listed([path.name for path in source], most=3)


def read_text(source: Sequence[Path] | InMemory) -> str:
    """Of texts in memory; of files, and of all files in folders, in the order of their names; hidden ones are left
    out."""
    return text_in_memory(source) if isinstance(source, InMemory) else whole_text(text_files(source))


def text_in_memory(memory: InMemory) -> str:
    return BETWEEN_DOCUMENTS.join(memory.only_texts(CORPUS)).replace("\r\n", "\n")


def whole_text(files: TextFiles) -> str:
    return "".join(measured(_bounded(files), f"Reading {files.name}", len, files.num_bytes))


def _bounded(files: TextFiles) -> Iterator[str]:
    """A packed file may hold a thousand times its size, and does not say so: memory is asked about on the way."""
    read, known = 0, MOST_IN_MEMORY
    for piece in files.pieces():
        read += len(piece)
        if read > known:
            require_room(f"the text of {files.name}", 2 * read)
            known = read + MOST_IN_MEMORY
        yield piece
