"""Texts with their classes in three parts: sentences of libraries' documentation, or the user's own, from a TSV or CSV.

Columns go by their names in the first row, where there are names; otherwise the one with fewer different values holds
the labels. Nothing is left out in silence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64

from neuropil.config import option
from neuropil.data.examples.dataset import Labels, encode_classes
from neuropil.data.formats.columns import (
    Cells,
    ColumnRole,
    choose_columns,
    find_column,
    is_header,
    is_number,
    read_numbers,
    spelled,
    spelling_notes,
    unclear_columns,
)
from neuropil.data.formats.delimited import DelimitedFile, Record, read_records, require_two_columns
from neuropil.data.formats.lines import Tally, count_copies
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.formats.paths import require_file
from neuropil.data.formats.shards import holds_shards, read_shards
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.labelled_texts.embedded import read_docstrings
from neuropil.data.splits import SplitConfig, Splits, split
from neuropil.data.weights import require_weights, zero_weights_note
from neuropil.errors import InputError, counted, listed

TEXT_NAMES = "text texts review reviews sentence content body message comment document tweet question utterance"
LABEL_NAMES = "label labels class category sentiment target topic polarity intent emotion rating stars y"
TEXTS = ColumnRole("texts", "--text-column", TEXT_NAMES)
LABELS = ColumnRole("labels", "--label-column", LABEL_NAMES)
LONG = 20_000
"""Letters of a text that are worth a note."""
FEW = 5
"""A class with fewer texts has a score that means little."""


class TextColumns(NamedTuple):
    """Names or numbers of columns, as far as the user gave them."""

    text: str | None = None
    label: str | None = None


class LabelledTextConfig(SplitConfig):
    weighted = True
    data: Path | InMemory | None = option(
        None, "TSV, CSV, JSONL or Parquet of texts with labels; default sentences of libraries' documentation"
    )
    text_column: str | None = option(None, "the column that holds the texts, where it is not clear")
    label_column: str | None = option(None, "the column that holds the labels, where it is not clear")
    weight_column: str | None = option(None, "the column with the weight of each text in the loss")

    @property
    def columns(self) -> TextColumns:
        return TextColumns(self.text_column, self.label_column)


def prepare_labelled_texts(config: LabelledTextConfig, seed: int) -> Splits[LabelledTexts]:
    """The same for the same seed; each part is in the order of the data, with every class in its right proportion."""
    source, own = training_part(config.data)
    weight = config.weight_column
    texts, notes = _embedded(config) if source is None else read_labelled_texts(source, config.columns, weight=weight)
    where = "the data" if config.data is None else config.data.name
    if len(texts.classes) < 2:
        raise InputError(f"{where} must have texts of at least 2 classes", got=f"only {listed(texts.classes)!r}")
    parts = {
        name: read_labelled_texts(part, config.columns, texts.classes, weight if weight in part.names else None)
        for name, part in own.items()
    }
    splits = split(texts, config, seed, strata=texts.targets, notes=[*notes, *_rare(texts)], own=parts)
    if not len(splits.train) or not len(splits.test):
        rule = f"{where} must hold different texts, some to learn from and some to score"
        raise InputError(rule, got=f"{len(set(texts.keys)):,}")
    return splits


def read_labelled_texts(
    source: Path | InMemory,
    columns: TextColumns,
    classes: tuple[str, ...] | None = None,
    weight: str | None = None,
) -> tuple[LabelledTexts, list[str]]:
    """All texts that have a label, and notes on the others. `classes` are those of a trained model; `weight` names the
    column of weights in the loss."""
    if not isinstance(source, InMemory) and source.exists() and holds_shards(source):
        source = read_shards(source)
    if isinstance(source, InMemory):
        file = read_labelled_memory(source, columns, classes, weight)
    else:
        file = read_labelled_file(source, columns, classes, weight)
    file = _without_zero_weights(file, source.name)
    known = file.labels.occurring() if classes is None else classes
    targets = encode_classes(file.labels, known, lambda index: f"{source.name} row {file.rows[index]:,}")
    phrase = f"{counted(len(file.texts), 'text')} in {counted(len(known), 'class')} ({source.name})"
    notes = spelling_notes("The column of labels", file.labels.names or ()) if classes is None else []
    weights = None if file.weights is None else torch.from_numpy(file.weights).float()
    return LabelledTexts(file.texts, targets, known, phrase, weights), [*file.notes, *notes]


def _without_zero_weights(file: "LabelledFile", name: str) -> "LabelledFile":
    """A text that does not count is left out, so that nothing else depends on it either."""
    if file.weights is None:
        return file
    require_weights(file.weights, lambda index: f"{name} row {file.rows[index]:,}", name)
    kept, left_out = np.flatnonzero(file.weights), np.flatnonzero(file.weights == 0)
    if not len(left_out):
        return file
    note = zero_weights_note(len(left_out), len(file.texts), "texts", f"row {file.rows[left_out[0]]:,}")
    labels = replace(file.labels, values=file.labels.values[kept])
    texts, rows = [file.texts[index] for index in kept.tolist()], [file.rows[index] for index in kept.tolist()]
    return LabelledFile(texts, labels, rows, [*file.notes, note], file.weights[kept])


def _rare(texts: LabelledTexts) -> list[str]:
    counts = texts.targets.bincount(minlength=len(texts.classes))
    rare = int((counts < FEW).sum())
    if not rare:
        return []
    name, count = texts.classes[int(counts.argmin())], int(counts.min())
    have = "1 class has" if rare == 1 else f"{rare:,} classes have"
    fewer = f"{have} fewer than {FEW} texts (the rarest: {name!r} with {count})"
    return [f"{fewer}, so that little can be learned about them."]


def _embedded(config: LabelledTextConfig) -> tuple[LabelledTexts, list[str]]:
    if any(name is not None for name in (config.text_column, config.label_column, config.weight_column)):
        raise InputError("columns are named in a TSV or CSV", got="names for the embedded texts", fix="leave them out")
    found = read_docstrings()
    classes = tuple(found)
    texts = [text for sentences in found.values() for text in sentences]
    targets = torch.arange(len(classes)).repeat_interleave(torch.tensor([*map(len, found.values())]))
    source = f"{len(texts):,} first sentences of docstrings in {len(classes)} libraries, as installed"
    note = "No sentence occurs twice, in whatever library, case or spacing."
    return LabelledTexts(texts, targets, classes, source), [note]


@dataclass(frozen=True)
class LabelledFile:
    texts: Sequence[str]
    labels: Labels
    rows: Sequence[int]
    """Where each text stands."""
    notes: list[str] = field(default_factory=list)
    weights: Float64[np.ndarray, " text"] | None = None


def read_labelled_file(
    path: Path, wanted: TextColumns, classes: Sequence[str] | None = None, weight: str | None = None
) -> LabelledFile:
    """`classes` are those of a trained model: they tell the labels from the texts even in a file of a few rows."""
    table = DelimitedFile(require_file(path), texts=True)
    records = read_records(table, "texts with labels")
    names = [cell.strip() for cell in records[0][1]]
    require_two_columns(table, names, ", a text and its label")
    text, label = choose_columns(names, wanted, (TEXTS, LABELS), path.name)
    if text is None or label is None:
        if len(names) > 2:
            raise unclear_columns(names, (TEXTS, LABELS), path.name)
        label = _label_by_content(records, classes)
        text = 1 - label
    named = weight is not None or any(name in wanted for name in names) or _are_names(names, records, label, classes)
    found = _labelled([(row, cells[text], cells[label]) for row, cells in records[named:]], path.name, classes)
    if named and None in wanted:
        taken = f"The first row of {path.name} is taken for the names of its columns"
        found.notes.insert(0, f"{taken}: {names[text]!r} tells {names[label]!r}.")
    if weight is None:
        return found
    place = find_column(names, weight, path.name)
    weight_of = {row: cells[place] for row, cells in records}
    return _weighted(found, names[place], path.name, [weight_of[row] for row in found.rows])


def read_labelled_memory(
    memory: InMemory, wanted: TextColumns, classes: Sequence[str] | None = None, weight: str | None = None
) -> LabelledFile:
    """Rows are counted from 0."""
    text, label = memory.two_columns(wanted, (TEXTS, LABELS))
    rows = [*zip(range(memory.num_rows), memory.texts(text), memory.texts(label), strict=True)]
    found, name = _labelled(rows, memory.name, classes), memory.weight_column(weight)
    if name is None:
        return found
    weights = memory.texts(name)
    return _weighted(found, name, memory.name, [weights[row] for row in found.rows])


def _weighted(file: LabelledFile, column: str, name: str, weights: Sequence[str]) -> LabelledFile:
    return replace(file, weights=read_numbers(Cells(name, column, file.rows, weights)))


def _labelled(rows: Sequence[tuple[int, str, str]], name: str, classes: Sequence[str] | None) -> LabelledFile:
    texts, labels, places, notes = _collect(rows)
    if not texts:
        raise InputError(f"{name} must hold texts with labels", got="none")
    if classes is None and len(set(labels)) > max(2, len(labels) // 2):
        rule = f"labels of {name} must repeat, for a class is learned from several texts"
        got = f"{len(set(labels)):,} different ones for {len(labels):,} texts"
        raise InputError(rule, got=got, fix="name the right column with --label-column")
    return LabelledFile(texts, as_labels(labels), places, notes)


def as_labels(labels: Sequence[str]) -> Labels:
    """Numbers if all are, so that 10 comes after 2 and 1.0 is 1; names otherwise."""
    if all(is_number(label) and math.isfinite(float(label)) for label in set(labels)):
        return Labels(np.array([float(label) for label in labels]))
    names = {name: place for place, name in enumerate(dict.fromkeys(labels))}
    return Labels(np.array([names[label] for label in labels]), tuple(names))


def _label_by_content(records: Sequence[Record], classes: Sequence[str] | None) -> int:
    """Of two columns the one with more cells that are classes, or with fewer different values, or with shorter ones."""
    columns = [[cells[place].strip() for _, cells in records] for place in (0, 1)]
    if classes is not None:
        known = set(classes)
        hits = [sum(spelled(cell, known) in known for cell in column) for column in columns]
        return int(hits[1] > hits[0])
    keys = [(len(set(column)), sum(map(len, column))) for column in columns]
    return int(keys[1] < keys[0])


def _are_names(names: Sequence[str], records: Sequence[Record], label: int, classes: Sequence[str] | None) -> bool:
    """Whether the first row is one of names: usual or plain words, and none of the labels, which come again."""
    usual = {*TEXTS.words, *LABELS.words}
    plain = is_header(names, lambda name: name.replace("_", "").replace("-", "").isalnum(), every=True)
    if is_number(names[label]) or not (plain or is_header(names, usual.__contains__)):
        return False
    if classes is not None:
        return spelled(names[label], classes) not in classes
    return all(cells[label].strip() != names[label] for _, cells in records[1:])


def _collect(rows: Sequence[tuple[int, str, str]]) -> tuple[list[str], list[str], list[int], list[str]]:
    """Texts, labels, their rows and notes."""
    empty = Tally("is empty and is left out", "are empty and are left out")
    unlabelled = Tally("has no label and is left out", "have no label and are left out")
    long = Tally(f"has more than {LONG:,} characters", f"have more than {LONG:,} characters")
    copies = count_copies()
    disputed = Tally("has another label than an earlier copy of it", "have another label than an earlier copy of them")
    texts, labels, places = [], [], []
    label_of: dict[str, str] = {}
    for number, text, label in rows:
        label = label.strip()
        if not text.strip():
            empty.add(number)
        elif not label:
            unlabelled.add(number)
        else:
            if len(text) > LONG:
                long.add(number)
            if text in label_of:
                (copies if label_of[text] == label else disputed).add(number)
            label_of.setdefault(text, label)
            texts.append(text)
            labels.append(label)
            places.append(number)
    found = [tally for tally in (empty, unlabelled, long, copies, disputed) if tally.count]
    return texts, labels, places, [tally.note(len(rows), "texts", "row") for tally in found]
