"""Labels of a table: the columns of what is to be predicted, one label or number, or several labels, and the weights
that stand beside them.

    one label, one number    a column of texts or numbers
    several labels           a column of 0 and 1 for each, or one column of labels that are joined, as in red|round
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
from jaxtyping import Bool

from neuropil.data.examples.dataset import Column, Inputs, LabelledInputs, Labels, LabelSets, Schema
from neuropil.data.formats.columns import (
    MISSING_NUMBERS,
    MISSING_TEXTS,
    Cells,
    is_missing,
    is_number,
    read_numbers,
    read_positions,
    shown,
)
from neuropil.data.formats.delimited import Block, CellTable
from neuropil.data.formats.lines import Tally
from neuropil.errors import InputError, listed

SEPARATOR = "|"
"""Between the labels of one cell."""
YES, NO = frozenset(("1", "1.0", "true", "yes")), frozenset(("0", "0.0", "false", "no"))
"""What the cells of a label may hold, whatever the case of their letters."""


def split_target(target: str, names: Sequence[str]) -> list[str]:
    """One column, or several with commas between, unless that is the name of one."""
    if target in names or "," not in target:
        return [target]
    return [name.strip() for name in target.split(",")]


def no_target() -> Tally:
    return Tally("has no target and is left out", "have no target and are left out")


class AnswerColumns(ABC):
    """What is to be predicted of a table, and the weights of its rows, gathered while its blocks pass by on their way
    to become inputs; rows without a target are left out."""

    def __init__(self, targets: Sequence[str], weight: str | None = None):
        self.targets, self.weight = targets, weight
        self.weights: list[np.ndarray] = []
        self.rows: list[int] = []
        """Those that are kept."""
        self.without = no_target()

    @abstractmethod
    def is_missing(self, text: str) -> bool: ...

    @abstractmethod
    def look(self, cells: Sequence[Cells]) -> None:
        """At those of each target, in rows that have all of them."""

    @abstractmethod
    def labels(self) -> Labels | LabelSets:
        """Of all that was looked at."""

    def collect(self, blocks: Iterable[Block]) -> Iterator[Block]:
        for block in blocks:
            cells = block[self.targets[0]]
            texts = zip(*(block[name].texts for name in self.targets), strict=True)
            kept = [index for index, row in enumerate(texts) if not any(map(self.is_missing, row))]
            if len(kept) < len(cells.texts):
                for index in sorted(set(range(len(cells.texts))) - set(kept)):
                    self.without.add(cells.rows[index])
                block = {name: each.take(kept) for name, each in block.items()}
            self.look([block[name] for name in self.targets])
            self.rows += block[self.targets[0]].rows
            if self.weight is not None:
                self.weights.append(read_numbers(block[self.weight]))
            yield block

    @property
    def column_names(self) -> list[str]:
        return [*self.targets] if self.weight is None else [*self.targets, self.weight]

    def labelled(self, inputs: Inputs, file: str) -> LabelledInputs:
        if not len(inputs):
            raise InputError(f"{file} must have rows with a target", got=f"{self.without.count:,} without")
        return LabelledInputs(inputs, self.labels(), np.concatenate(self.weights) if self.weights else None)

    def notes(self, num_rows: int) -> list[str]:
        total = num_rows + self.without.count
        return [self.without.note(total, "rows", "row")] if self.without.count else []


class TargetColumn(AnswerColumns):
    """One label, or one number."""

    def __init__(self, column: Column, weight: str | None = None):
        super().__init__([column.name], weight)
        self.column = column
        self.names: dict[str, int] = {}
        self.values: list[np.ndarray] = []

    def is_missing(self, text: str) -> bool:
        return is_missing(text, MISSING_NUMBERS if self.column.kind == "number" else MISSING_TEXTS)

    def look(self, cells: Sequence[Cells]) -> None:
        (own,) = cells
        if self.column.kind == "number":
            self.values.append(read_numbers(own))
            return
        for text in sorted(set(own.texts)):
            self.names.setdefault(text.strip(), len(self.names))
        self.values.append(read_positions(own, self.names))

    def labels(self) -> Labels:
        names = tuple(self.names) if self.column.kind == "category" else None
        return Labels(np.concatenate(self.values), names)


class LabelColumns(AnswerColumns):
    """Several labels: a column of 0 and 1 for each, or one column of labels that are `joined`, as in `a|b`, in which an
    empty cell has none."""

    def __init__(self, targets: Sequence[str], weight: str | None = None, *, joined: bool = False):
        super().__init__(targets, weight)
        self.joined = joined
        self.sets: list[tuple[str, ...]] = []
        self.values: list[np.ndarray] = []

    def is_missing(self, text: str) -> bool:
        return not self.joined and is_missing(text)

    def look(self, cells: Sequence[Cells]) -> None:
        if self.joined:
            self.sets += [labels_in(text) for text in cells[0].texts]
        else:
            self.values.append(np.stack([read_truths(each) for each in cells], axis=1))

    def labels(self) -> LabelSets:
        if not self.joined:
            return LabelSets(np.concatenate(self.values), tuple(self.targets))
        names = tuple(sorted({name for labels in self.sets for name in labels}))
        places = {name: place for place, name in enumerate(names)}
        values = np.zeros((len(self.sets), len(names)), dtype=bool)
        for row, labels in enumerate(self.sets):
            values[row, [places[name] for name in labels]] = True
        return LabelSets(values, names)


def labels_in(text: str) -> tuple[str, ...]:
    pieces = (piece.strip() for piece in text.split(SEPARATOR))
    return tuple(piece for piece in pieces if not is_missing(piece, MISSING_TEXTS))


def read_truths(cells: Cells) -> Bool[np.ndarray, " row"]:
    lowered = [text.strip().lower() for text in cells.texts]
    for index, text in enumerate(lowered):
        if text not in YES and text not in NO:
            rule = f"{cells.where(index)} must hold 0 or 1, as each of several targets does"
            raise InputError(rule, got=shown(cells.texts[index]), fix="give one target to predict classes or numbers")
    return np.array([text in YES for text in lowered], dtype=bool)


def holds_joined_labels(table: CellTable, target: str) -> bool:
    """Whether a column holds labels, and not a truth value in each cell."""
    texts = {text.strip() for block in table.blocks([target]) for text in set(block[target].texts)}
    others = sorted(text for text in texts if text.lower() not in YES | NO and not is_missing(text))
    if others and all(is_missing(text) or is_number(text) for text in texts):  # each would be a label of its own
        rule = "a target of several labels must hold 0 and 1, or labels that are joined, as in red|round"
        got, fix = f"numbers such as {others[0]} in column {target!r}", "leave --multi-label out to predict them"
        raise InputError(rule, got=got, fix=fix)
    return bool(others)


def answers_of(schema: Schema, name: str = "", weight: str | None = None) -> AnswerColumns:
    """As the training data has them, or by another `name` where there is one."""
    name = name or schema.target
    if schema.labels:
        return LabelColumns([name] if name else schema.labels, weight, joined=bool(name) and schema.labels != (name,))
    return TargetColumn(Column(name=name, kind="category" if schema.classes else "number"), weight)


def require_same_kind(labels: Labels | LabelSets, schema: Schema, where: str) -> None:
    if isinstance(labels, LabelSets) != bool(schema.labels):
        what = "several labels" if schema.labels else "one label"
        got = "one" if schema.labels else f"{listed(cast(LabelSets, labels).names)}"
        raise InputError(f"{where} must have {what} for each example, as the training data had", got=got)
