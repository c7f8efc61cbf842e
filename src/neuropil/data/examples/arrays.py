"""Arrays and pictures as labelled inputs, whether a bundle of NumPy's held them or memory did."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float64

from neuropil.data.examples.dataset import (
    Column,
    Inputs,
    LabelledInputs,
    LabelledParts,
    Labels,
    LabelSets,
    Schema,
    missing_notes,
    with_indicators,
)
from neuropil.data.examples.labels import LabelColumns, holds_joined_labels, no_target, split_target
from neuropil.data.examples.tables import learn_table
from neuropil.data.formats.arrays import Array, describe_array, feature_rows, picture_bytes, require_finite
from neuropil.data.formats.columns import Cells, ColumnRole, choose_columns, find_column, read_numbers
from neuropil.data.formats.images import fit_picture, is_picture, suitable_shape
from neuropil.data.formats.memory import InMemory, MemoryTable
from neuropil.data.formats.values import Values, cell_texts, holds_cells
from neuropil.data.splits import PartName
from neuropil.errors import InputError, counted, listed

LABELS = ColumnRole("labels", "target", "label labels class y target")


def labelled_parts(
    parts: Mapping[PartName, LabelledInputs], target: str, note: str = "", columns: Sequence[Column] | None = None
) -> LabelledParts:
    """Features of a row have no names but numbers; `columns` are those of a trained model."""
    inputs = next(iter(parts.values())).inputs.values
    if inputs.ndim > 2:
        return LabelledParts(parts, note=note)
    learned, notes = feature_columns([part.inputs for part in parts.values()])
    columns = learned if columns is None else columns
    parts = {part: replace(each, inputs=as_features(each.inputs, columns)) for part, each in parts.items()}
    return LabelledParts(parts, columns=tuple(columns), target=target, notes=notes)


def feature_columns(parts: Sequence[Inputs]) -> tuple[list[Column], tuple[str, ...]]:
    """Those of rows of numbers, and what there is to say of missing ones."""
    missing = torch.stack([part.values.isnan().sum(0) for part in parts]).sum(0).tolist()
    counts = {f"feature {number}": count for number, count in enumerate(missing)}
    columns = [Column(name=name, kind="number", missing=count > 0) for name, count in counts.items()]
    return columns, missing_notes(counts)


def as_features(inputs: Inputs, columns: Sequence[Column]) -> Inputs:
    return replace(inputs, values=with_indicators(inputs.values, columns)) if inputs.values.ndim == 2 else inputs


def labelled_inputs(
    inputs: Inputs, labels: Array, keys: tuple[str, str], name: str, class_names: tuple[str, ...] | None = None
) -> LabelledInputs:
    if labels.ndim and len(labels) != len(inputs):  # before names are made for columns, of which none may have a row
        rule = f"{keys[0]} and {keys[1]} of {name} must belong together"
        raise InputError(rule, got=f"{counted(len(inputs), 'example')} and {counted(len(labels), 'label')}")
    return LabelledInputs(inputs, as_labels(labels, keys[1], name, class_names))


def as_inputs(array: Array, key: str, name: str) -> Inputs:
    what = f"{key} of {name}"
    values = feature_rows(array, what) if array.ndim <= 2 else picture_bytes(array, what)
    return Inputs(torch.from_numpy(values), lambda index: f"{name}[{index}]")


def label_sets(array: Array, key: str, name: str, names: tuple[str, ...] | None = None) -> LabelSets:
    """A column for each label."""
    outside = ~np.isin(array, (0, 1))
    if outside.any():
        row, column = (int(place[0]) for place in outside.nonzero())
        rule = f"{key} of {name} must hold 0 and 1, as there are several columns of it"
        raise InputError(rule, got=f"{array[row, column]:g} at [{row}, {column}]")
    if names is not None and len(names) != array.shape[1]:
        rule = f"{key} of {name} must have a column for each of its {len(names)} names"
        raise InputError(rule, got=f"{array.shape[1]}")
    return LabelSets(array.astype(bool), names or tuple(f"label {number}" for number in range(array.shape[1])))


def as_labels(array: Array, key: str, name: str, class_names: tuple[str, ...] | None = None) -> Labels | LabelSets:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return label_sets(array, key, name, class_names)
    if array.ndim != 1 or array.dtype.kind not in "biufUS":
        rule = f"{key} of {name} must hold one label for each example, or 0 and 1 for each of several"
        raise InputError(rule, got=describe_array(array))
    if array.dtype.kind in "bUS":
        names, positions = np.unique(array.astype(str), return_inverse=True)
        return Labels(positions, tuple(names.tolist()))
    require_finite(array, f"{key} of {name}")
    if class_names is None:
        return Labels(array.astype(np.float64))
    outside = ~np.isin(array, np.arange(len(class_names)))
    if outside.any():
        rule = f"{key} of {name} must number its {len(class_names)} class names from 0 to {len(class_names) - 1}"
        raise InputError(rule, got=f"{array[outside][0]} at [{int(outside.argmax())}]")
    return Labels(array.astype(np.int64), class_names)


# --- memory -----------------------------------------------------------------------------------------------------------


def array_column(memory: InMemory) -> str | None:
    """The first that holds more than a number or a text in each row, such as pictures; none in a table."""
    return next((name for name, values in memory.columns.items() if not holds_cells(values)), None)


def scored_column(table: MemoryTable, schema: Schema, weight: str | None = None) -> str | None:
    """The arrays or pictures for a trained model; none where the columns of the training data are: an array beside
    them is not asked for."""
    memory, answers = table.memory, (*table.memory.answers, table.memory.answer, schema.target, weight)
    if any(column.name in table.header for column in schema.columns):
        return None
    arrays = [name for name, each in memory.columns.items() if name not in answers and not holds_cells(each)]
    fitting = [name for name in arrays if _is_larger(memory.columns[name]) == (schema.kind == "image")] or arrays
    if len(fitting) > 1 and schema.kind == "table":
        rule = f"{memory.phrase} must hold one column of lists or arrays"
        raise InputError(rule, got=listed(fitting), fix="leave out those that the model was not trained on")
    return next(iter(fitting), None)


def read_memory(
    memory: InMemory,
    target: str | None,
    ignore: Sequence[str] = (),
    weight: str | None = None,
    *,
    multi_label: bool = False,
) -> LabelledParts:
    """As a file is read. It is a table unless its inputs are one column, of arrays or of pictures."""
    if (memory.answer or memory.answers) and target not in (None, memory.answer):
        got = f"answers apart and the target {target!r}"
        raise InputError(f"what to predict is given once of {memory.phrase}", got=got, fix="leave one of them out")
    target, weight = target or memory.answer or None, memory.weight_column(weight)
    beside = [name for name in memory.names if name not in (*_answers(memory, target), weight)]
    larger = [name for name in beside if name not in ignore and _is_larger(memory.columns.get(name, []))]
    alone = [name for name in beside if len(beside) == 1 and not holds_cells(memory.columns.get(name, [""]))]
    if not larger and not alone:
        return _learn_table(memory, target, ignore, weight, multi_label=multi_label)
    key, *_ = larger or alone
    what = "pictures" if larger else "arrays"
    if ignore:
        got = f"{listed(ignore)} for {what} {'in memory' if memory.article else f'in {memory.name}'}"
        raise InputError("--ignore names columns of a table", got=got, fix="leave it out")
    found = read_array_column(memory, key, target, weight=weight, multi_label=multi_label)
    if len(beside) == 1:
        return found
    others = [repr(name) for name in beside if name != key]
    left_out = f"{listed(others)} {'is' if len(others) == 1 else 'are'} left out"
    return replace(found, notes=(f"Inputs are the {what} of column {key!r}; {left_out}.", *found.notes))


def _answers(memory: InMemory, target: str | None) -> list[str]:
    """The columns to predict, as far as they are known by name or number; without a target, the one with a usual
    name."""
    if memory.answers:
        return memory.answers
    if target is None:
        place = choose_columns(memory.names, [None], [LABELS], memory.name)[0] if len(memory.names) > 1 else None
        return [] if place is None else [memory.names[place]]
    numbers = {str(number): name for number, name in enumerate(memory.names, 1)}
    return [name if name in memory.names else numbers.get(name, "") for name in split_target(target, memory.names)]


def _is_larger(values: Values) -> bool:
    """Than a row of numbers."""
    if isinstance(values, np.ndarray):
        return values.ndim > 2
    return bool(values) and (is_picture(values[0]) or np.ndim(values[0]) > 1)


def _learn_table(
    memory: InMemory, target: str | None, ignore: Sequence[str], weight: str | None, *, multi_label: bool
) -> LabelledParts:
    """In which rows may hold lists of numbers beside numbers and texts."""
    table = MemoryTable.with_lists(memory)
    ignored = [name for wanted in ignore for name in table.columns_of(wanted)]
    wanted = memory.answers or ([] if target is None else split_target(target, table.header))
    targets = [name for each in wanted for name in table.columns_of(each)]
    if targets:
        table.require_cells([name for name in table.header if name not in (*targets, *ignored, weight)])
    return learn_table(table, targets or None, ignored, weight, multi_label=multi_label)


def read_array_column(
    memory: InMemory,
    key: str,
    target: str | None,
    shape: tuple[int, ...] | None = None,
    columns: Sequence[Column] | None = None,
    weight: str | None = None,
    *,
    multi_label: bool = False,
) -> LabelledParts:
    """Of arrays or pictures, and their labels. Pictures get `shape`, or one that suits them. `columns` are those of a
    trained model."""
    target = target or memory.answer or None
    if memory.answers or multi_label or (target is not None and len(split_target(target, memory.names)) > 1):
        return _read_labels(memory, key, target, shape, columns, weight)
    names = [name for name in memory.names if name != weight]
    place = (
        find_column(names, target, memory.name) if target else choose_columns(names, [None], [LABELS], memory.name)[0]
    )
    if place is None or names[place] == key:
        raise InputError(f"{memory.phrase} must come with labels", got=str(memory), fix="give a pair (X, y)")
    inputs, note = array_inputs(memory, key, shape)
    labels, keys = np.asarray(memory.column(names[place])), (key, names[place])
    weights = None if weight is None else numbers_of(memory, weight)
    without = no_target()
    if labels.dtype.kind == "U" and len(labels) == len(inputs) and (labels == "").any():
        kept = np.flatnonzero(labels != "")
        for row in np.flatnonzero(labels == "").tolist():
            without.add(row)
        named, labels = inputs.name, labels[kept]
        inputs = Inputs(inputs.values[kept], lambda index: named(int(kept[index])))
        weights = None if weights is None else weights[kept]
    part = replace(labelled_inputs(inputs, labels, keys, memory.name), weights=weights)
    found = labelled_parts({"train": part}, keys[1], note, columns)
    left_out = [without.note(len(inputs) + without.count, "examples", "row")] if without.count else []
    return replace(found, notes=(*left_out, *found.notes))


def _read_labels(
    memory: InMemory,
    key: str,
    target: str | None,
    shape: tuple[int, ...] | None,
    columns: Sequence[Column] | None,
    weight: str | None,
) -> LabelledParts:
    """Several labels for each of the arrays or pictures in the column `key`, as a table would hold them."""
    wanted = memory.answers or split_target(target or "", memory.names)
    targets = [memory.names[find_column(memory.names, name, memory.name)] for name in wanted]
    table = MemoryTable(memory, {name: memory.column(name) for name in [*targets, *([weight] if weight else [])]})
    joined = len(targets) == 1 and holds_joined_labels(table, targets[0])
    answers = LabelColumns(targets, weight, joined=joined)
    for _ in answers.collect(table.blocks()):
        pass
    inputs, note = array_inputs(memory, key, shape)
    if len(inputs) != memory.num_rows:
        got = f"{counted(len(inputs), 'example')} and {counted(memory.num_rows, 'row')}"
        raise InputError(f"{key} and labels of {memory.phrase} must belong together", got=got)
    kept, named = np.array(answers.rows, dtype=np.int64), inputs.name
    inputs = Inputs(inputs.values[kept], lambda index: named(int(kept[index])))
    part = answers.labelled(inputs, memory.name)
    found = labelled_parts({"train": part}, targets[0] if len(targets) == 1 else "", note, columns)
    return replace(found, notes=(*answers.notes(len(inputs)), *found.notes))


def numbers_of(memory: InMemory, name: str) -> Float64[np.ndarray, " example"]:
    values = memory.column(name)
    return read_numbers(Cells(memory.name, name, range(len(values)), cell_texts(values, name, memory.phrase)))


def array_inputs(memory: InMemory, key: str, shape: tuple[int, ...] | None = None) -> tuple[Inputs, str]:
    """And a note on what was done to them."""
    values = memory.columns[key]
    if isinstance(values, np.ndarray):
        return as_inputs(values, key, memory.name), ""
    if is_picture(values[0]):
        shape, note = suitable_shape(iter(values)) if shape is None else (shape, "")
        pictures = torch.stack([fit_picture(image, shape, memory.name) for image in values])
        return Inputs(pictures, lambda index: f"{memory.name}[{index}]"), note
    shapes = [np.shape(value) for value in values]
    odd = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        first, other = ("×".join(map(str, shapes[row])) for row in (0, odd))
        got = f"{first} in row 0 and {other} in row {odd:,}"
        raise InputError(f"{key} of {memory.phrase} must have one shape in all rows", got=got)
    return as_inputs(np.stack(values), key, memory.name), ""
