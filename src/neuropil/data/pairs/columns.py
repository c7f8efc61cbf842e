"""Which two columns of a file of pairs are meant, and how files with columns hand out their rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from neuropil.data.messages import did_you_mean, listed
from neuropil.errors import InputError

COLUMN_WORDS = frozenset(
    (
        "source",
        "target",
        "src",
        "tgt",
        "trg",
        "input",
        "output",
        "original",
        "text",
        "translation",
        "question",
        "answer",
    )
)

Row: TypeAlias = tuple[int, str, str]
"""The number of a line and its two texts."""
Names: TypeAlias = tuple[str | None, str | None]
"""Of the source's and the target's column, as far as the user gave them."""


@dataclass(frozen=True)
class FoundPairs:
    rows: Iterator[Row]
    """Read from the file as they are asked for."""
    named: str = ""
    """How the file, and not the user, named the two columns, as the beginning of a sentence. Empty if it did not."""
    names: tuple[str, str] = ("", "")


def choose_columns(names: Sequence[str], wanted: Names, file: str) -> tuple[int, int] | None:
    """The places of source and target among the names, or None where two are there and the user wants none in particular."""
    for name in wanted:
        if name is not None and name not in names:
            raise InputError(f"{file} must have the column {name!r}", got=listed(names), fix=did_you_mean(name, names))
    source, target = (None if name is None else names.index(name) for name in wanted)
    if source is not None and target is not None:
        return source, target
    if len(names) > 2:
        fix = "choose two with --source-column and --target-column"
        raise InputError(
            f"{file} must have two columns, or two that you name", got=f"{len(names)}: {listed(names)}", fix=fix
        )
    if source is not None:
        return source, 1 - source
    return None if target is None else (1 - target, target)


def are_names(cells: Sequence[str]) -> bool:
    """Whether these are names of columns and not a pair of texts: usual words, or languages by their names or codes."""
    words = [cell.strip().lower() for cell in cells]
    return len(set(words)) == len(words) and all(
        word in COLUMN_WORDS or word.replace("_", "-") in _languages() for word in words
    )


@cache
def _languages() -> frozenset[str]:
    """ "german" and "de" and "pt-br". Codes of three letters are left out: too many of them are English words."""
    from babel import Locale

    named = Locale("en").languages
    codes = {str(code).lower().replace("_", "-") for code in named}
    return frozenset(
        {code for code in codes if len(code.split("-")[0]) == 2} | {str(name).lower() for name in named.values()}
    )
