"""Columns of a table: which ones are meant, by name, by number or by guess, and the numbers that their cells hold."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from jaxtyping import Float, Float64, Int, Int64, UInt

from neuropil.errors import InputError, did_you_mean, listed, shortened

LONGEST_NAME = 40
"""Letters in the name of a column, at most, and of what is shown of a cell."""
LARGEST = float(np.finfo(np.float32).max)
SINGLE_PRECISION = f"within ±{LARGEST:.2g}".replace("e+", "e")
MISSING_NUMBERS = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
EMPTY = frozenset(("",))
MISSING_TEXTS = frozenset(("", "nan"))  # "NA" or "none" may well be a category
BOOLEANS = frozenset(("true", "false"))
"""Whatever the case of their letters."""
UNNAMED = "column {}"
"""What a column is called that has no name; pandas writes none for its index."""


@dataclass(frozen=True)
class ColumnRole:
    """What a column is for, the option that names it, and its usual names, the first of which counts most."""

    plural: str
    option: str
    usual: str

    @property
    def words(self) -> list[str]:
        return self.usual.split()


@dataclass(frozen=True)
class Cells:
    """A piece of one column."""

    file: str
    column: str
    rows: Sequence[int]
    texts: Sequence[str]

    def where(self, index: int) -> str:
        return f"row {self.rows[index]}, column {self.column!r} of {self.file}"

    def take(self, chosen: Iterable[int]) -> "Cells":
        chosen = list(chosen)
        rows, texts = ([values[index] for index in chosen] for values in (self.rows, self.texts))
        return replace(self, rows=rows, texts=texts)


@dataclass(frozen=True)
class NumberTexts(Sequence[str]):
    """Numbers in memory as the texts that a file would hold of them, to their last digit, and nothing where there is
    none. They need not be read again."""

    numbers: Float[np.ndarray, " row"] | Int[np.ndarray, " row"] | UInt[np.ndarray, " row"]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> "NumberTexts": ...

    def __getitem__(self, index: int | slice) -> "str | NumberTexts":
        if isinstance(index, slice):
            return NumberTexts(self.numbers[index])
        number = self.numbers[index].item()
        return "" if number != number else str(number)


def find_column(names: Sequence[str], wanted: str, file: str, *, by_number: bool = True) -> int:
    """By its name, or by its number from 1 on."""
    if wanted in names:
        return names.index(wanted)
    if by_number and wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    got = listed(short_names(names))
    raise InputError(f"{file} must have the column {wanted!r}", got=got, fix=did_you_mean(wanted, names))


def choose_columns(
    names: Sequence[str], wanted: Sequence[str | None], roles: Sequence[ColumnRole], file: str, *, guess: bool = True
) -> list[int | None]:
    """For each role the column that is wanted, or by `guess` the one with its usual name, or the only one left."""
    chosen = [None if name is None else find_column(names, name, file) for name in wanted]
    for place, column in enumerate(chosen):
        if column is not None and column in chosen[:place]:
            rule = f"{' and '.join(role.plural for role in roles)} must be different columns"
            raise InputError(rule, got=f"{wanted[place]!r} for both")
    for place, role in enumerate(roles):
        if chosen[place] is None and guess:
            left = {name.lower(): at for at, name in reversed([*enumerate(names)]) if at not in chosen}
            found = chosen[place] = next((left[word] for word in role.words if word in left), None)
            if found is not None and [name.lower() for name in names].count(names[found].lower()) > 1:
                fix = f"rename one, or add {role.option} with a number"
                raise InputError(f"{file} must name each of its columns once", got=f"{names[found]!r} twice", fix=fix)
    if len(names) == len(roles) and chosen.count(None) == 1:
        chosen[chosen.index(None)] = next(at for at in range(len(names)) if at not in chosen)
    return chosen


def unclear_columns(names: Sequence[str], roles: Sequence[ColumnRole], file: str) -> InputError:
    columns, words = (" and ".join(f"one of {role.plural}" for role in roles), " and ".join(r.words[0] for r in roles))
    rule = f"{file} must have {columns.replace('one of', 'one column of', 1)}, such as {words}"
    got = f"{len(names)}: {listed(short_names(names))}"
    return InputError(rule, got=got, fix=f"name them with {' and '.join(role.option for role in roles)}")


def is_header(cells: Sequence[str], usual: Callable[[str], bool], *, every: bool = False) -> bool:
    """Whether a first row names columns: short, all different, not all numbers; and one or each of them is `usual`. Two
    that are usual do whatever the others are: pandas writes no name for its index."""
    names = [cell.strip().lower() for cell in cells]
    if all(map(is_number, names)):
        return False
    if not every and len(set(filter(usual, names))) > 1:
        return True
    short = all(0 < len(name) <= LONGEST_NAME for name in names)
    if not short or len(set(names)) < len(names):
        return False
    return (all if every else any)(map(usual, names))


def short_names(names: Sequence[str]) -> list[str]:
    """A first row without names may hold a text of any length."""
    return [shortened(name, LONGEST_NAME) for name in names]


def is_number(text: str) -> bool:
    try:
        _floats([text])
    except ValueError:
        return False
    return True


def numbers_in(texts: Sequence[str]) -> Float64[np.ndarray, " row"] | None:
    """With NaN for what is missing; none where a text is neither a number nor stands for a missing one."""
    try:
        return _floats(texts)
    except ValueError:
        if not all(is_number(text) or is_missing(text) for text in set(texts)):
            return None
    return np.array([np.nan if is_missing(text) else float(text) for text in texts])


def is_missing(text: str, words: frozenset[str] = MISSING_NUMBERS) -> bool:
    return text.strip().lower() in words


def read_numbers(cells: Cells, *, gaps: bool = False) -> Float64[np.ndarray, " row"]:
    """All finite, also as float32; with `gaps`, NaN where a cell says that there is no value."""
    try:
        numbers = _floats(cells.texts)
    except ValueError:
        numbers = np.array([float(text) if is_number(text) else np.nan for text in cells.texts])
    good = np.abs(numbers) <= LARGEST
    for index in np.flatnonzero(~good).tolist():
        if gaps and is_missing(cells.texts[index]):
            continue
        require_value(cells, index, MISSING_NUMBERS)
        if is_large(cells.texts[index]):
            what = f"a number {SINGLE_PRECISION}"
        elif gaps and not is_number(cells.texts[index]):
            what = "a number, or nothing where there is no value"
        else:
            what = "a finite number"
        raise InputError(f"{cells.where(index)} must hold {what}", got=shown(cells.texts[index]))
    return numbers


def is_large(text: str) -> bool:
    """Whether it is a number that single precision does not hold, but not infinity itself."""
    return is_number(text) and any(map(str.isdecimal, text)) and abs(float(text)) > LARGEST


def shown(text: str) -> str:
    """What a cell holds, for a sentence."""
    return repr(shortened(text, LONGEST_NAME))


def _floats(texts: Sequence[str]) -> Float64[np.ndarray, " row"]:
    if isinstance(texts, NumberTexts):
        return texts.numbers.astype(np.float64)
    if "_" in "".join(texts):  # Python reads 1_1 as 11; in a table it is a name
        raise ValueError
    return np.fromiter(map(float, texts), np.float64, len(texts))


def spelled(text: str, known: Collection[str]) -> str:
    """The known name that a text stands for: itself, or a boolean in another case."""
    text = text.strip()
    if text in known or text.lower() not in BOOLEANS:
        return text
    return next((name for name in known if name.lower() == text.lower()), text)


def spelling_notes(what: str, names: Iterable[str]) -> list[str]:
    """On names that differ by case only: booleans are one value, all others are told apart."""
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        alike.setdefault(name.lower(), []).append(name)
    several = {name: listed([*map(repr, group)]) for name, group in alike.items() if len(group) > 1}
    notes = [f"{what} holds {group}, which are one value." for name, group in several.items() if name in BOOLEANS]
    apart = [group for name, group in several.items() if name not in BOOLEANS]
    if apart:
        found = listed([f"({group})" for group in apart], 5)
        notes.append(f"{what} holds values that differ by case only, and they are told apart: {found}.")
    return notes


def require_value(cells: Cells, index: int, missing: frozenset[str], what: str = "hold a value") -> None:
    text = cells.texts[index]
    if is_missing(text, missing):
        got = shown(text) if text.strip() else "an empty cell"
        raise InputError(f"{cells.where(index)} must {what}", got=got, fix="fill it in or remove the row")


def read_positions(cells: Cells, known: Mapping[str, int]) -> Int64[np.ndarray, " row"]:
    """The position of each cell's text among the known ones, or -1."""
    lookup = {text: known.get(spelled(text, known), -1) for text in set(cells.texts)}
    return np.fromiter(map(lookup.__getitem__, cells.texts), np.int64, len(cells.texts))
