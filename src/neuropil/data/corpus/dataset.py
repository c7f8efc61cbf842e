"""One long text in three parts, one after the other: the documentation that comes with Python, or the user's own files.

The embedded text is what `help()` shows on the topics of the language. Many of its paragraphs stand under several topics; each is kept
once, for otherwise a third of the test part would have been read in training.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from neuropil.config import Config, option
from neuropil.data.formats.lines import read_lines
from neuropil.data.messages import listed
from neuropil.errors import InputError

LEAST = 200
"""Characters from which on there is something to learn and something to hold out."""
BETWEEN_FILES = "\n\n"
BETWEEN_TOPICS = "\n\n\n"


class TextDataConfig(Config):
    data: tuple[Path, ...] = option(
        (),
        "your own text files in UTF-8, plain or gzip, or folders of them, read one after the other; without it, Python's own docs",
    )
    validation: float = option(0.05, "share before the test part that picks the best weights", low=0, high=0.5)
    test: float = option(0.05, "share at the end of the text that is held out for the final score", low=0.01, high=0.5)


@dataclass(frozen=True)
class Corpus:
    train: str
    validation: str
    test: str
    source: str
    """Where it comes from, as a phrase for the report: "5,447,521 characters (shakespeare.txt.gz)"."""
    notes: Sequence[str] = ()


def prepare_text(config: TextDataConfig) -> Corpus:
    if config.data:
        text, notes = read_text(config.data), ()
        source = f"{len(text):,} characters ({listed([path.name for path in config.data], most=3)})"
    else:
        text, note = python_documentation()
        source, notes = f"{len(text):,} characters of Python's own documentation", (note,)
    if len(text) < LEAST:
        raise InputError(f"a text to learn from must have at least {LEAST} characters", got=f"{len(text)}")
    begin_test = _next_line(text, len(text) - round(config.test * len(text)))
    begin_validation = _next_line(text, begin_test - round(config.validation * len(text)))
    return Corpus(text[:begin_validation], text[begin_validation:begin_test], text[begin_test:], source, notes)


def _next_line(text: str, place: int) -> int:
    """Where the next line begins; the place itself, where that would be more than half of what comes after it."""
    end = text.find("\n", place - 1, (place + len(text)) // 2)
    return end + 1 if end >= 0 else place


def read_text(paths: Sequence[Path]) -> str:
    """Of files, and of all files in folders, in the order of their names; hidden ones are left out."""
    files = chain.from_iterable(_files_in(path) if path.is_dir() else [path] for path in paths)
    return BETWEEN_FILES.join("\n".join(read_lines(path, progress=True)) for path in files)


def _files_in(folder: Path) -> list[Path]:
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = sorted(path for path in inside if not any(part.startswith(".") for part in path.parts))
    if not files:
        raise InputError("a folder of texts must hold files", got=f"{folder.as_posix()!r} without any")
    return [folder / path for path in files]


def python_documentation() -> tuple[str, str]:
    """The text, and what was left out of it."""
    from pydoc_data.topics import topics

    seen: set[str] = set()
    kept = [_new_paragraphs(topic, seen) for _, topic in sorted(topics.items())]
    text = BETWEEN_TOPICS.join(topic for topic in kept if topic)
    whole = sum(map(len, topics.values()))
    return (
        text,
        f"{whole - sum(map(len, kept)):,} of {whole:,} characters stand in paragraphs that occur twice, and are left out.",
    )


def _new_paragraphs(topic: str, seen: set[str]) -> str:
    """Those that have not been seen, however they are indented."""
    kept: list[str] = []
    for paragraph in re.split(r"\n\s*\n", topic):
        words = " ".join(paragraph.split())
        if words and words not in seen:
            seen.add(words)
            kept.append(paragraph.strip("\n"))
    return "\n\n".join(kept)
