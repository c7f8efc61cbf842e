"""Test sets of word vectors in the files that the field shares, plain or gzip.

questions-words.txt    : capital-common-countries         analogies in sections
                       Athens Greece Baghdad Iraq         Athens is to Greece as Baghdad is to Iraq
wordsim353.tsv         # Word 1  Word 2  Human (mean)     pairs, and how similar people find them
                       tiger     cat     7.35
"""

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from neuropil.data.formats.lines import Tally, read_lines
from neuropil.errors import DataWarning, InputError

Analogy: TypeAlias = tuple[str, str, str, str]
Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class AnalogyQuestions:
    """Of (a, b, c, d) the last is to be found: a is to b as c is to d."""

    unit: ClassVar[str] = "analogies"
    sections: dict[str, list[Analogy]]

    @property
    def keys(self) -> Iterable[str]:
        return (" ".join(each) for section in self.sections.values() for each in section)


@dataclass(frozen=True)
class SimilarityPairs:
    unit: ClassVar[str] = "pairs"
    pairs: list[Pair]
    similarities: list[float]
    """As people judged each pair, on any scale."""

    @property
    def keys(self) -> Iterable[str]:
        return ("\t".join(pair) for pair in self.pairs)


def read_questions(path: Path) -> AnalogyQuestions | SimilarityPairs:
    """What kind it is, the first line says that is no comment: a section or four words, or two words and a number."""
    lines = list(_lines(path))
    if any(line.startswith(":") or len(_cells(line)) == 4 for _, line in lines[:1]):
        return _analogies(path, lines)
    return _pairs(path, lines)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(read_lines(path, progress=True), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def _analogies(path: Path, lines: list[tuple[int, str]]) -> AnalogyQuestions:
    sections: dict[str, list[Analogy]] = {}
    odd = Tally("has not four words and is left out", "have not four words and are left out")
    name = path.stem
    for number, line in lines:
        if line.startswith(":"):
            name = line[1:].strip()
            sections.setdefault(name, [])
            continue
        match line.split():
            case a, b, c, d:
                sections.setdefault(name, []).append((a, b, c, d))
            case _:
                odd.add(number)
    _warn(odd, len(lines), path)
    if not any(sections.values()):
        raise InputError(f"{path.name} must hold analogies, four words on a line", got="none")
    return AnalogyQuestions(sections)


def _pairs(path: Path, lines: list[tuple[int, str]]) -> SimilarityPairs:
    pairs, similarities = list[Pair](), list[float]()
    odd = Tally("is not two words and a number and is left out", "are not two words and a number and are left out")
    for place, (number, line) in enumerate(lines):
        match _cells(line):
            case word, other, similarity if (value := _number(similarity)) is not None:
                pairs.append((word, other))
                similarities.append(value)
            case _ if place:  # the first may name the columns
                odd.add(number)
    _warn(odd, len(lines), path)
    if not pairs:
        rule = f"{path.name} must hold analogies (four words on a line) or pairs (two words and a number)"
        raise InputError(rule, got="neither")
    return SimilarityPairs(pairs, similarities)


def _cells(line: str) -> list[str]:
    """Between tabs, else between commas, else between spaces."""
    between = "\t" if "\t" in line else "," if "," in line else r"\s+"
    return [cell.strip() for cell in re.split(between, line.strip())]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _warn(odd: Tally, total: int, path: Path) -> None:
    if odd.count:
        warnings.warn(odd.note(total, f"lines of {path.name}"), DataWarning, stacklevel=3)
