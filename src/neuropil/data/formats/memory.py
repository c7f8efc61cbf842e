"""Data that Python holds: arrays, tables, lists and iterables, all brought to one form, columns of equal length.

    (X, y)                      columns x and y, of which y is the answer; so are a list of pairs and a torch Dataset
    (X, y, weights)             the same, and the weight of each example in the loss
    (X, Y)                      Y of several columns: a label each, 0 or 1
    a DataFrame, a mapping      a column for each name; of pandas, polars or Hugging Face's datasets
    an array, a list of texts   one column, x
    {"train": …, "test": …}     parts, each one of these; so is ((X, y), (X_test, y_test))

Each kind of data takes its columns from here where it would otherwise read a file, and all that follows is the same.
None of the libraries is imported: an object is known by the module of its type. An iterable is read to its end.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from neuropil.config import PythonValue
from neuropil.data.formats.columns import (
    Cells,
    ColumnRole,
    choose_columns,
    find_column,
    unclear_columns,
)
from neuropil.data.formats.delimited import ROWS_PER_BLOCK, Block, CellTable
from neuropil.data.formats.values import (
    Values,
    are_numbers,
    cell_texts,
    holds_cells,
    holds_lists_of_numbers,
    record,
    rows_of_one_length,
    values_of,
)
from neuropil.data.splits import PART_OF_WORD, PARTS, PartName, last_part
from neuropil.errors import InputError, listed
from neuropil.progress import counted

S = TypeVar("S")
INPUT, ANSWER, WEIGHTS = "x", "y", "weights"
MOST_ITEMS, MOST_BYTES = 1_000_000, 4 << 30
"""Of an iterable: one with more has no end, or is no data to hold in memory."""
LONGEST_FILE_NAME = 255
TRANSLATION = "translation"
"""Hugging Face's name of a column of mappings from languages to texts, which are columns under their own names."""
PARTS_OF_PAIRS = {2: ("train", "test"), 3: PARTS}
KINDS = "a pair (X, y), an array, a DataFrame, a mapping of columns, a list, a Dataset or another iterable"


class InMemory(PythonValue):
    """`name` is what errors and the report call it. `answer` is the column that was given apart from the others, if one
    was, `answers` are several, and `weight` is that of weights; `dates` are those of an index. What is wrong with an
    `unreadable` column matters only if it is asked for. The only column is `unnamed` if it was given without a name.
    Data that comes in `parts` has its columns there. One that is read from `config.json` has no columns, only what is
    `recorded` of them, by which the same data is known again."""

    article = "the "
    """Before the name in a sentence; none before that of a file."""

    def __init__(
        self,
        kind: str,
        columns: Mapping[str, Values],
        answer: str = "",
        dates: list[str] | None = None,
        recorded: Mapping[str, Any] | None = None,
        unreadable: Mapping[str, InputError] | None = None,
        parts: Mapping[PartName, "InMemory"] | None = None,
        weight: str = "",
        answers: Sequence[str] = (),
        *,
        unnamed: bool = False,
    ):
        self.unnamed = unnamed
        self.kind, self.name, self.parts = kind, f"{kind} in memory", parts or {}
        self.columns, self.answer, self.dates, self.unreadable = columns, answer, dates, unreadable or {}
        self.weight = weight or next((part.weight for part in self.parts.values() if part.weight), "")
        self.answers = [*answers] or next((part.answers for part in self.parts.values() if part.answers), [])
        every = columns if dates is None else {**columns, "index": dates}
        inside = {f"{part} {name}": each for part in self.parts for name, each in self.parts[part].recorded.items()}
        self.recorded = recorded or inside or {name: record(each) for name, each in every.items() if len(each)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InMemory) and self.recorded == other.recorded

    def __hash__(self) -> int:
        return hash(str(self.recorded))

    def __str__(self) -> str:
        """arrays in memory (x 150×4 float64, y 150 text)"""
        shapes = [f"{name} {'×'.join(map(str, each['shape']))} {each['type']}" for name, each in self.recorded.items()]
        return f"{self.name} ({listed(shapes, most=4)})"

    @property
    def phrase(self) -> str:
        """For the middle of a sentence: "the arrays in memory", or "rows.jsonl"."""
        return f"{self.article}{self.name}"

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def training(self) -> "InMemory":
        """The part to learn from, or all there is."""
        return self.parts["train"] if self.parts else self

    @property
    def held_out(self) -> "InMemory":
        """The part that a trained model has not seen, or all there is."""
        return self.parts[last_part(self.parts)] if self.parts else self

    @property
    def others(self) -> dict[PartName, "InMemory"]:
        """The parts beside the one to learn from."""
        return {name: part for name, part in self.parts.items() if name != "train"}

    @property
    def names(self) -> list[str]:
        return [*self.columns, *self.unreadable]

    def column(self, name: str) -> Values:
        if name in self.unreadable:
            raise self.unreadable[name]
        return self.columns[name]

    def weight_column(self, wanted: str | None) -> str | None:
        """Its name: as the user said it, or of the third of (X, y, weights)."""
        if self.weight and wanted not in (None, self.weight):
            got = f"weights apart and the column {wanted!r}"
            raise InputError(f"weights are given once of the {self.name}", got=got, fix="leave one of them out")
        if wanted is not None:
            return self.names[find_column(self.names, wanted, self.name)]
        return self.weight or None

    def to_dict(self) -> dict[str, Any]:
        return {"in_memory": self.kind, "answer": self.answer, "columns": dict(self.recorded)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["in_memory"], {}, values["answer"], recorded=values["columns"])

    def two_columns(self, wanted: Sequence[str | None], roles: tuple[ColumnRole, ColumnRole]) -> tuple[str, str]:
        """The names of the columns for the two roles: as the user named them, a pair by its places, or by usual
        names."""
        names = [name for name in self.names if name != self.weight]
        if self.answer and len(names) == 2 and not any(wanted):
            return names[0], names[1]
        first, second = choose_columns(names, wanted, roles, self.name)
        if first is None or second is None:
            raise unclear_columns(names, roles, self.name)
        return names[first], names[second]

    def texts(self, name: str) -> list[str]:
        """Those of a column; numbers as they would be written."""
        return [*cell_texts(self.column(name), name, self.phrase)]

    def only_texts(self, role: ColumnRole) -> list[str]:
        """Those of the only column, or of the one with a usual name."""
        names = self.names
        (place,) = [0] if len(names) == 1 else choose_columns(names, [None], [role], self.name)
        if place is None or not isinstance(self.column(names[place]), list):
            rule = f"{self.phrase} must hold {role.plural}, in a column such as {role.words[0]!r} if there are several"
            raise InputError(rule, got=str(self))
        return self.texts(names[place])


# --- whatever a user gives --------------------------------------------------------------------------------------------


def are_paths(data: Any) -> bool:
    """Whether this names files, or none. A text has a line break, or is longer than a file's name may be; in a list of
    which nothing exists, one with spaces and no suffix is a text too."""
    if isinstance(data, str):
        return "\n" not in data and max(map(len, os.fsencode(data).split(b"/"))) <= LONGEST_FILE_NAME
    if isinstance(data, Path) or (isinstance(data, tuple) and not data):
        return True
    if not isinstance(data, list | tuple) or not data or not all(isinstance(item, str | Path) for item in data):
        return False
    if not all(are_paths(item) for item in data):
        return False
    return any(Path(item).exists() for item in data) or all(
        isinstance(item, Path) or len(item.split()) == 1 or Path(item).suffix[1:].isalnum() for item in data
    )


def in_memory(data: Any, *, parts: bool = False) -> InMemory:
    """Data with `parts` of its own is taken only where they are asked for."""
    if isinstance(data, InMemory):
        return data
    if given := _parts_in(data):
        if parts:
            return _in_parts(given)
        example = next(iter(given))
        fix = f"give one of them, as in data[{example!r}]" if isinstance(data, Mapping) else "give one of them"
        raise InputError("data in memory must be one part", got=f"the parts {listed([*given])}", fix=fix)
    found = _taken(data)
    if found.unreadable and not found.columns:
        raise next(iter(found.unreadable.values()))
    if not found.columns or not found.num_rows:
        raise InputError("data in memory must hold something", got=f"an empty {type(data).__name__}")
    first, *others = found.columns
    for other in others:
        if len(found.columns[other]) != found.num_rows:
            got = f"{found.num_rows:,} and {len(found.columns[other]):,}"
            raise InputError(f"{first} and {other} of the {found.name} must be equally long", got=got)
    return found


def require_unweighted(source: object) -> None:
    """Of data to score a trained model on."""
    if isinstance(source, InMemory) and source.weight:
        got, fix = f"weights in the {source.name}", "give a pair (X, y)"
        raise InputError("scores count each example once", got=got, fix=fix)


def training_part(source: S | InMemory) -> tuple[S | InMemory, dict[PartName, InMemory]]:
    """Of whatever data is given as: what to learn from, and the other parts that data in memory has of its own."""
    return (source.training, source.others) if isinstance(source, InMemory) else (source, {})


def _parts_in(data: Any) -> dict[str, Any]:
    """By name, where data comes in parts: a mapping with the usual names, or two or three pairs (X, y)."""
    if isinstance(data, Mapping) and data and {*data} <= PART_OF_WORD.keys():
        return dict(data)
    if isinstance(data, tuple) and len(data) in PARTS_OF_PAIRS and all(map(_is_pair_of_columns, data)):
        return dict(zip(PARTS_OF_PAIRS[len(data)], data, strict=True))
    return {}


def _is_pair_of_columns(data: Any) -> bool:
    """(X, y) or (X, y, weights), of which each holds a row for every example."""
    if not isinstance(data, tuple) or (len(data) != 2 and not _is_weighted(data)):
        return False
    return all(hasattr(each, "__len__") and not isinstance(each, str | bytes) for each in data)


def _is_weighted(data: tuple[Any, ...]) -> bool:
    """(X, y, weights), the last of numbers. Three rows of numbers are three examples."""
    if len(data) != 3 or not all(hasattr(each, "__len__") and not isinstance(each, str | bytes) for each in data):
        return False
    inputs, _, weights = data
    return _is_row_of_numbers(weights) and not _is_row_of_numbers(inputs)


def _is_row_of_numbers(values: Any) -> bool:
    if hasattr(values, "tolist"):
        return getattr(values, "ndim", 1) == 1 and are_numbers(values.tolist())
    return isinstance(values, list | tuple) and are_numbers(values)


def _in_parts(given: Mapping[str, Any]) -> InMemory:
    parts = dict[PartName, InMemory]()
    for name, data in given.items():
        # A list of words is one of texts here, as no files are looked for
        if isinstance(data, str | Path) and are_paths(data):
            fix = "read them first, as pandas.read_csv does"
            raise InputError("parts of data are given in memory", got=f"a path for {name!r}", fix=fix)
        part = PART_OF_WORD[name]
        if part in parts:
            raise InputError(f"data in memory must have one {part} part", got=f"{listed([*given])}")
        parts[part] = in_memory(data)
        parts[part].name = f"{part} part of {parts[part].name}"
    if "train" not in parts:
        raise InputError("data in memory must have a part to train on", got=f"only {' and '.join(parts)}")
    return InMemory(parts["train"].kind, {}, parts=parts)


def _taken(data: Any) -> InMemory:
    library, kind = type(data).__module__.split(".")[0], type(data).__name__
    if isinstance(data, DataLoader):
        return _taken(data.dataset)
    if kind == "LazyFrame":
        return _taken(data.collect())
    if library == "datasets" and kind in ("Dataset", "IterableDataset"):
        return _named("dataset", _columns_of_dataset(data))
    if library in ("pandas", "polars") and kind == "DataFrame":
        names = Counter(map(str, data.columns))
        error = InputError("a DataFrame must name each of its columns once", got=listed([*names.elements()]))
        columns = ((name, data[name] if names[str(name)] == 1 else error) for name in data.columns)
        return _named(kind, columns, _dates(data))
    if library in ("pandas", "polars") and hasattr(data, "dtype"):
        name = getattr(data, "name", None)
        return _named("Series", [(name or INPUT, data)], _dates(data), unnamed=not name)
    if isinstance(data, Mapping):
        if not all(hasattr(each, "__len__") and not isinstance(each, str | Mapping) for each in data.values()) or (
            library == "datasets"
        ):
            rule = "a mapping must hold columns, or the parts train, validation and test"
            raise InputError(rule, got=f"a {kind} of {listed([*map(str, data)])}", fix="give those that are meant")
        return _named("mapping", data.items())
    if isinstance(data, tuple) and len(data) == 2:
        return _with_answers(*data)
    if isinstance(data, tuple) and _is_weighted(data):
        return _with_weights(_with_answers(*data[:2]), data[2])
    if isinstance(data, str):
        return InMemory("text", {INPUT: [data]}, unnamed=True)
    if isinstance(data, np.ndarray | Tensor):
        return InMemory("array", {INPUT: values_of(data, INPUT)}, unnamed=True)
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        items: Any = data
        return _of_items((items[place] for place in range(len(items))), "dataset")
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return _of_items(data, "list" if isinstance(data, list | tuple) else "iterable")
    raise InputError(f"data must be paths of files, or in memory {KINDS}", got=f"a value of type {kind}")


def _with_answers(inputs: Any, answers: Any) -> InMemory:
    """A pair: what is given, and what is to be answered."""
    given, answer = in_memory(inputs), in_memory(answers)
    name, values = next(iter(answer.columns.items()))
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    several = dict(answer.columns) if len(answer.columns) > 1 else {}
    if isinstance(values, np.ndarray) and values.ndim == 2:
        several = {f"label {number}": column for number, column in enumerate(values.T)}
    if several:
        return _with_labels(given, several)
    name = ANSWER if name in (INPUT, *given.columns) else name
    kind = {"array": "arrays", "list": "lists"}.get(given.kind, given.kind)
    return InMemory(kind, {**given.columns, name: values}, name, given.dates, unreadable=given.unreadable)


def _with_labels(given: InMemory, labels: Mapping[str, Values]) -> InMemory:
    both = [name for name in labels if name in given.columns]
    if both:
        raise InputError("labels must have other names than inputs", got=f"{listed(both)} for both")
    kind, columns = {"array": "arrays", "list": "lists"}.get(given.kind, given.kind), {**given.columns, **labels}
    return InMemory(kind, columns, dates=given.dates, unreadable=given.unreadable, answers=[*labels])


def _with_weights(given: InMemory, weights: Any) -> InMemory:
    ((_, values),) = in_memory(weights).columns.items()
    name = WEIGHTS if WEIGHTS not in given.columns else f"{WEIGHTS} of the loss"
    columns, own = {**given.columns, name: values}, {"unreadable": given.unreadable, "answers": given.answers}
    return InMemory(given.kind, columns, given.answer, given.dates, weight=name, **own)


def _of_items(items: Iterable[Any], kind: str) -> InMemory:
    """Pairs are inputs with answers, mappings are rows; anything else is an input."""
    found = _read(items, kind)
    if found and all(_is_pair(item) for item in found):
        inputs, answers = zip(*found, strict=True)
        return InMemory(kind, {INPUT: values_of(inputs, INPUT), ANSWER: values_of(answers, ANSWER)}, ANSWER)
    if found and all(isinstance(item, Mapping) for item in found):
        return _named(kind, [("", found)])
    return InMemory(kind, {INPUT: values_of(found, INPUT)}, unnamed=True)


def _is_pair(item: Any) -> bool:
    """A list of two numbers is an input of two features."""
    return isinstance(item, list | tuple) and len(item) == 2 and (isinstance(item, tuple) or not are_numbers(item))


def _read(items: Iterable[Any], kind: str) -> list[Any]:
    if isinstance(items, list | tuple):
        return [*items]
    found, size = list[Any](), 0
    for item in counted(items, f"Reading the {kind}"):
        found.append(item)
        parts = item.values() if isinstance(item, Mapping) else item if isinstance(item, tuple) else (item,)
        size += sum(getattr(part, "nbytes", 0) for part in parts)
        if len(found) > MOST_ITEMS or size > MOST_BYTES:
            rule = f"an iterable is read to its end, within {MOST_ITEMS:,} items and {MOST_BYTES >> 30} GiB"
            raise InputError(rule, got="more", fix="give the beginning of it, as in itertools.islice(data, 10_000)")
    return found


# --- columns ----------------------------------------------------------------------------------------------------------


def _named(
    kind: str, columns: Iterable[tuple[Any, Any]], dates: list[str] | None = None, *, unnamed: bool = False
) -> InMemory:
    """An error stands for a column that cannot be read."""
    found, unreadable = dict[str, Values](), dict[str, InputError]()
    for name, column in _flat(columns):
        if isinstance(column, InputError):
            unreadable[name] = column
        elif name in found or name in unreadable:
            found.pop(name, None)
            unreadable[name] = _named_twice(name)
        else:
            try:
                found[name] = values_of(column, name)
            except InputError as error:
                unreadable[name] = error
    return InMemory(kind, found, dates=dates, unreadable=unreadable, unnamed=unnamed)


def _flat(columns: Iterable[tuple[Any, Any]], before: str = "") -> Iterator[tuple[str, Any]]:
    """Where a column holds mappings, one for each of their keys, under its full name: user.age."""
    for key, column in columns:
        name, values = f"{before}{key}", [*column] if isinstance(column, list | tuple) else column
        there = [value for value in values if value is not None] if isinstance(values, list) else []
        if there and all(isinstance(value, Mapping) for value in there):
            keys = dict.fromkeys(inner for value in there for inner in value)
            inside = ((inner, [None if value is None else value.get(inner) for value in values]) for inner in keys)
            yield from _flat(inside, "" if name in ("", TRANSLATION) else f"{name}.")
        else:
            yield name, values


def _names_of_list(name: str, length: int, others: Sequence[str]) -> list[str]:
    names = [f"{name} {number}" for number in range(length)]
    if both := next((each for each in names if each in others), None):
        raise _named_twice(both)
    return names


def _named_twice(name: str) -> InputError:
    return InputError("each column must have a name of its own", got=f"{name!r} twice", fix="rename one")


def _columns_of_dataset(data: Any) -> Iterator[tuple[str, list[Any]]]:
    """Of Hugging Face's; where numbers stand for classes, the classes."""
    plain = data.with_format(None)
    if type(data).__name__ == "IterableDataset":
        rows = _read(plain, "dataset")
        plain = {name: [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)}
    for name, feature in (data.features or dict.fromkeys(plain)).items():  # one that is iterable may have none
        values = [*counted(plain[name], f"Reading {name}")]
        classes = getattr(getattr(feature, "feature", feature), "names", None)
        if classes:
            word = {-1: None, None: None, **dict(enumerate(classes))}
            values = [[*map(word.get, each)] if isinstance(each, list) else word[each] for each in values]
        yield name, values


def _dates(data: Any) -> list[str] | None:
    """Of pandas, where they stand in the index."""
    index = getattr(data, "index", None)
    index = index.to_timestamp() if type(index).__name__ == "PeriodIndex" and index is not None else index
    return [*map(str, index)] if type(index).__name__ == "DatetimeIndex" and index is not None else None


# --- a table ----------------------------------------------------------------------------------------------------------


class MemoryTable(CellTable):
    """Columns as cells, which is what a file would hold of them. Rows are counted from 0."""

    def __init__(self, memory: InMemory, columns: Mapping[str, Values] | None = None):
        """Of other `columns` than those of the memory, where they are given."""
        self.memory, self.name = memory, memory.name
        self.columns = memory.columns if columns is None else columns
        self.unreadable = dict(memory.unreadable)
        self.lists = dict[str, list[str]]()
        """What each column of lists of numbers has become."""
        self.header = [*self.columns, *self.unreadable]

    @classmethod
    def with_lists(cls, memory: InMemory) -> Self:
        """Where the rows of a column hold lists of numbers, with a column for each of these: tags 0, tags 1 and so
        on."""
        table, columns = cls(memory), dict[str, Values]()
        for name, values in memory.columns.items():
            if not holds_lists_of_numbers(values):
                columns[name] = values
                continue
            try:
                rows = rows_of_one_length(values, f"column {name!r} of {memory.phrase}")
                table.lists[name] = _names_of_list(name, rows.shape[1], memory.names)
                columns |= zip(table.lists[name], rows.T, strict=True)
            except InputError as error:
                table.unreadable[name] = error
        table.columns, table.header = columns, [*columns, *table.unreadable]
        return table

    def columns_of(self, wanted: str) -> list[str]:
        """The name of a column that is given by its name or number; all that its lists have become."""
        return self.lists.get(wanted) or [self.column(wanted)]

    def require_cells(self, names: Iterable[str]) -> None:
        """Of columns to learn from."""
        for name in names:
            try:
                if name in self.unreadable:
                    raise self.unreadable[name]
                cell_texts(self.columns[name], name, self.memory.phrase)
            except InputError as error:
                raise InputError(error.rule, got=error.got, fix=error.fix or f"add --ignore {name}") from error

    def require_columns(self, names: Iterable[str]) -> None:
        names = [*names]
        for name in names:
            whole = name.rpartition(" ")[0]
            if name not in self.header and whole in self.unreadable:
                raise self.unreadable[whole]
        super().require_columns(names)

    def blocks(self, required: Collection[str] | None = None) -> Iterator[Block]:
        for name in self.header if required is None else required:
            if name in self.unreadable:
                raise self.unreadable[name]
        columns = {
            name: values
            for name, values in self.columns.items()
            if required is None or name in required or holds_cells(values)
        }
        length = len(next(iter(self.columns.values())))
        for begin in range(0, length, ROWS_PER_BLOCK):
            rows = range(begin, min(begin + ROWS_PER_BLOCK, length))
            yield {
                name: Cells(self.name, name, rows, cell_texts(values[begin : rows.stop], name, self.memory.phrase))
                for name, values in columns.items()
            }
