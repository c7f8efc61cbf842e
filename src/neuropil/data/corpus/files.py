"""One long text in three parts: the documentation that comes with Python, or the user's own files."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from neuropil.config import option
from neuropil.data.corpus.dataset import Corpus
from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.formats.columns import ColumnRole
from neuropil.data.formats.lines import read_lines
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.splits import SplitConfig, scoring_share, validation_share
from neuropil.errors import InputError, listed

LEAST = 200
"""Characters from which on there is something to learn and something to hold out."""
BETWEEN_FILES = "\n\n"
CORPUS = ColumnRole("texts", "data", "text texts content document")


class TextDataConfig(SplitConfig):
    data: tuple[Path, ...] | InMemory = option(
        (), "your own texts in UTF-8, plain or gzip, or folders of them; without it, Python's own documentation"
    )
    validation: float = validation_share(0.05, "share before the test part, held out for early stopping")
    test: float = scoring_share(0.05, "share at the end of the text, held out for the final score", high=0.5)


def prepare_text(config: TextDataConfig) -> Corpus:
    learned, own = training_part(config.data)
    if learned:
        text, notes = read_text(learned), ()
        source = f"{len(text):,} characters ({names_of(learned)})"
    else:
        text, note = python_documentation()
        source, notes = f"{len(text):,} characters of Python's own documentation", (note,)
    if len(text) < LEAST:
        raise InputError(
            f"{names_of(config.data)} must have at least {LEAST} characters to learn from", got=f"{len(text)}"
        )
    begin_test = begin_validation = len(text)
    if "test" not in own:
        begin_test = begin_validation = _next_line(text, len(text) - round(config.test * len(text)))
    if "validation" not in own:
        begin_validation = _next_line(text, begin_test - round(config.validation * len(text)))
    parts = {"validation": text[begin_validation:begin_test], "test": text[begin_test:]}
    parts |= {name: read_text(part) for name, part in own.items()}
    return Corpus(text[:begin_validation], parts["validation"], parts["test"], notes, source=source)


def _next_line(text: str, place: int) -> int:
    """Where the next line begins; the place itself, where that would be more than half of what comes after it."""
    end = text.find("\n", place - 1, (place + len(text)) // 2)
    return end + 1 if end >= 0 else place


def names_of(source: Sequence[Path] | InMemory) -> str:
    return source.name if isinstance(source, InMemory) else listed([path.name for path in source], most=3)


def read_text(source: Sequence[Path] | InMemory) -> str:
    """Of texts in memory; of files, and of all files in folders, in the order of their names; hidden ones are left
    out."""
    if isinstance(source, InMemory):
        return BETWEEN_FILES.join(source.only_texts(CORPUS)).replace("\r\n", "\n")
    files = chain.from_iterable(files_in(path) if path.is_dir() else [path] for path in source)
    return BETWEEN_FILES.join("\n".join(read_lines(path, progress=True)) for path in files)


def files_in(folder: Path) -> list[Path]:
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = sorted(path for path in inside if not any(part.startswith(".") for part in path.parts))
    if not files:
        raise InputError("a folder of texts must hold files", got=f"{folder.as_posix()!r} without any")
    return [folder / path for path in files]
