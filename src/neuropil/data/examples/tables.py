"""Tables: numbers stay as they are, texts become categories with one feature per value.

A table is read twice: `survey` finds out what each column is, `encode` turns it into features. A trained model brings
its columns along, and then only the second is done.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int64

from neuropil.data.examples.dataset import MOST_NUMBER_CLASSES, Column, Inputs, LabelledInputs, LabelledParts, Labels
from neuropil.data.formats.columns import (
    MISSING_TEXTS,
    Cells,
    are_numbers,
    is_missing,
    is_number,
    read_numbers,
    require_value,
)
from neuropil.data.formats.delimited import DELIMITERS, Block, CellTable, DelimitedFile
from neuropil.data.formats.lines import read_lines
from neuropil.data.formats.paths import suffix_of
from neuropil.errors import InputError, did_you_mean, listed

MOST_CATEGORIES, MOST_CLASSES = 100, 1_000
NUMBER_WITH_COMMAS = re.compile(r"\s*[+-]?\d+(,\d+)+(\.\d+)?\s*$")


def read_table(path: Path, target: str | None) -> LabelledParts:
    if suffix_of(path) == ".txt" and not set(DELIMITERS) & set(next(read_lines(path), "")):
        rule = f"{path.name} must be a table, with a delimiter between its cells"
        raise InputError(rule, got="plain text", fix="train an lstm or a gpt2 on plain text")
    return learn_table(DelimitedFile(path), target)


def learn_table(table: CellTable, target: str | None) -> LabelledParts:
    """Find out what the columns are; all but the target become inputs."""
    if target is None:
        rule = f"the table {table.name} needs a target, the column to predict"
        raise InputError(rule, fix=f"choose from {listed(table.header)}")
    target = table.column(target)
    if len(table.header) == 1:
        raise InputError(f"{table.name} must have columns beside its target", got=f"only {target!r}")
    columns, answer = survey(table, target)
    return LabelledParts({"train": read_labelled_rows(table, columns, answer)}, columns=columns, target=target)


def read_labelled_rows(table: CellTable, columns: Sequence[Column], answer: Column) -> LabelledInputs:
    """Columns are found by name; those that are not asked for are passed over."""
    table.require_columns([answer.name])
    targets = TargetColumn(answer)
    inputs = encode(table, columns, targets.collect(table.blocks()))
    return LabelledInputs(inputs, targets.labels())


def read_rows(table: CellTable, columns: Sequence[Column]) -> Inputs:
    return encode(table, columns, table.blocks())


def survey(table: CellTable, target: str) -> tuple[tuple[Column, ...], Column]:
    """What each column is, and what the target is."""
    columns = {name: SurveyedColumn(name, MOST_CLASSES if name == target else MOST_CATEGORIES) for name in table.header}
    for block in table.blocks():
        for name, cells in block.items():
            columns[name].look(cells)
    answer = columns.pop(target)
    return tuple(column.conclude(table.name) for column in columns.values()), answer.conclude(table.name)


class SurveyedColumn:
    def __init__(self, name: str, most: int):
        self.name, self.most = name, most
        # Complete while there are at most `most`; whether they are numbers is known only at the end.
        self.texts: set[str] = set()
        self.first_text: str | None = None

    def look(self, cells: Cells) -> None:
        if len(self.texts) <= self.most:
            self.texts.update(cells.texts)
        if self.first_text is None and not are_numbers(cells.texts):
            odd = (not is_number(text) and not is_missing(text) for text in cells.texts)
            index = next(index for index, is_odd in enumerate(odd) if is_odd)
            self.first_text = f"{cells.texts[index]!r} in row {cells.rows[index]}"

    def conclude(self, file: str) -> Column:
        if self.first_text is None:
            return Column(name=self.name, kind="number")
        commas = sorted(text for text in self.texts if NUMBER_WITH_COMMAS.match(text))
        if commas and all(text in commas or is_number(text) or is_missing(text) for text in self.texts):
            rule = f"column {self.name!r} of {file} must hold numbers with a decimal point and no other marks"
            raise InputError(rule, got=repr(commas[0]), fix="write 1234.5, or divide the cells by semicolons")
        if sum(map(is_number, self.texts)) > MOST_NUMBER_CLASSES:
            rule = f"column {self.name!r} of {file} must hold numbers only, as it does elsewhere"
            raise InputError(rule, got=self.first_text, fix="correct the cell")
        if len(self.texts) > self.most:
            rule = f"column {self.name!r} of {file} must hold numbers, or at most {self.most:,} different texts"
            raise InputError(rule, got=f"more texts, the first {self.first_text}", fix="remove the column")
        values = {text.strip() for text in self.texts if not is_missing(text, MISSING_TEXTS)}
        return Column(name=self.name, kind="category", values=tuple(sorted(values)))


class TargetColumn:
    """The labels of a table, gathered while its blocks pass by on their way to become inputs."""

    def __init__(self, column: Column):
        self.column = column
        self.names: dict[str, int] = {}
        self.values: list[np.ndarray] = []

    def collect(self, blocks: Iterable[Block]) -> Iterator[Block]:
        for block in blocks:
            cells = block[self.column.name]
            if self.column.kind == "number":
                self.values.append(read_numbers(cells))
            else:
                for text in sorted(set(cells.texts)):
                    if not is_missing(text, MISSING_TEXTS):
                        self.names.setdefault(text.strip(), len(self.names))
                self.values.append(read_positions(cells, self.names))
            yield block

    def labels(self) -> Labels:
        return Labels(np.concatenate(self.values), tuple(self.names) if self.column.kind == "category" else None)


def encode(table: CellTable, columns: Sequence[Column], blocks: Iterable[Block]) -> Inputs:
    table.require_columns(column.name for column in columns)
    features: list[np.ndarray] = []
    rows: list[int] = []
    for block in blocks:
        features.append(np.concatenate([encode_column(block[column.name], column) for column in columns], axis=1))
        rows += block[table.header[0]].rows
    return Inputs(torch.from_numpy(np.concatenate(features)), lambda index: f"{table.name} row {rows[index]}")


def encode_column(cells: Cells, column: Column) -> Float64[np.ndarray, "row feature"]:
    if column.kind == "number":
        return read_numbers(cells)[:, None]
    positions = read_positions(cells, {value: position for position, value in enumerate(column.values)})
    return (positions[:, None] == np.arange(len(column.values))).astype(np.float64)


def read_positions(cells: Cells, known: Mapping[str, int]) -> Int64[np.ndarray, " row"]:
    """The position of each cell's text among the known ones."""
    lookup = {text: known.get(text.strip(), -1) for text in set(cells.texts)}
    positions = np.fromiter(map(lookup.__getitem__, cells.texts), np.int64, len(cells.texts))
    if (positions < 0).any():
        index = int(np.argmin(positions))
        require_value(cells, index, MISSING_TEXTS)
        text = cells.texts[index]
        fix = did_you_mean(text, known) or f"it may be {listed(list(known))}"
        raise InputError(f"{cells.where(index)} must hold a category of the training data", got=repr(text), fix=fix)
    return positions
