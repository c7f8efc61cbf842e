"""Texts with labels from a TSV or CSV: which column is which is found out, and nothing is left out in silence.

Columns go by their names in the first row, where there are names; otherwise the one with fewer different values holds the labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neuropil.data.examples.labels import Labels
from neuropil.data.formats.delimited import is_number
from neuropil.data.formats.lines import require_file
from neuropil.data.formats.notes import Tally
from neuropil.data.formats.text_tables import Record, read_records, suffix_of
from neuropil.data.messages import did_you_mean, listed
from neuropil.errors import InputError

TEXT_WORDS = frozenset(
    (
        "text",
        "texts",
        "review",
        "reviews",
        "sentence",
        "content",
        "body",
        "message",
        "comment",
        "document",
        "tweet",
        "question",
        "utterance",
    )
)
LABEL_WORDS = frozenset(
    (
        "label",
        "labels",
        "class",
        "category",
        "sentiment",
        "target",
        "topic",
        "polarity",
        "intent",
        "emotion",
        "rating",
        "stars",
        "y",
    )
)
LONGEST_NAME = 40
"""Letters in the name of a column, at most."""
LONG = 20_000
"""Letters of a text that are worth a note."""


class TextColumns(NamedTuple):
    """Names of columns, as far as the user gave them."""

    text: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class LabelledFile:
    name: str
    texts: Sequence[str]
    labels: Labels
    lines: Sequence[int]
    """Where each text stands."""
    notes: list[str] = field(default_factory=list)


class _Layout(NamedTuple):
    """Where the texts and labels stand, and what the file calls them, if anything."""

    text: int
    label: int
    names: Sequence[str] | None


def read_labelled_file(path: Path, wanted: TextColumns, classes: Sequence[str] | None = None) -> LabelledFile:
    """`classes` are those of a trained model: they tell the labels from the texts even in a file of a few lines."""
    records = _records(require_file(path))
    layout = _layout(records, wanted, path, classes)
    rows = records if layout.names is None else records[1:]
    texts, labels, lines, notes = _collect(
        [(number, cells[layout.text], cells[layout.label]) for number, cells in rows]
    )
    if not texts:
        raise InputError(f"{path.name} must hold texts with labels", got="none")
    if classes is None and len(set(labels)) > max(2, len(labels) // 2):
        raise InputError(
            f"labels of {path.name} must repeat, for a class is learned from several texts",
            got=f"{len(set(labels)):,} different ones for {len(labels):,} texts",
            fix="name the right column with --label-column",
        )
    if layout.names is not None and None in wanted:
        text, label = layout.names[layout.text], layout.names[layout.label]
        notes.insert(
            0, f"The first line of {path.name} is taken for the names of its columns: {text!r} tells {label!r}."
        )
    return LabelledFile(path.name, texts, as_labels(labels), lines, notes)


def as_labels(labels: Sequence[str]) -> Labels:
    """Numbers if all are, so that 10 comes after 2 and 1.0 is 1; names otherwise."""
    if all(is_number(label) and math.isfinite(float(label)) for label in set(labels)):
        return Labels(np.array([float(label) for label in labels]))
    names = {name: place for place, name in enumerate(dict.fromkeys(labels))}
    return Labels(np.array([names[label] for label in labels]), tuple(names))


def _records(path: Path) -> list[Record]:
    """The rows that hold anything at all, all of one width."""
    records = [(number, cells) for number, cells in read_records(path) if any(cells)]
    if not records:
        raise InputError(f"{path.name} must hold texts with labels", got="an empty file")
    width = len(records[0][1])
    if width == 1:
        between = "" if suffix_of(path) == ".csv" else " with a tab between them"
        raise InputError(f"{path.name} must have two columns{between}, a text and its label", got="one")
    for number, cells in records:
        if len(cells) != width:
            raise InputError(
                f"each line of {path.name} must have {width} columns, as the first has",
                got=f"{len(cells)} in line {number:,}",
            )
    return records


def _layout(records: Sequence[Record], wanted: TextColumns, path: Path, classes: Sequence[str] | None) -> _Layout:
    names = [cell.strip() for cell in records[0][1]]
    if any(wanted):
        return _named(names, wanted, path)
    text, label = _only(names, TEXT_WORDS), _only(names, LABEL_WORDS)
    if text is None or label is None:
        if len(names) > 2:
            fix = "choose with --text-column and --label-column, which name columns in the first line"
            got = f"{len(names)}: {listed(short_names(names))}"
            raise InputError(f"{path.name} must have two columns, or two that you name", got=got, fix=fix)
        if text is not None:
            label = 1 - text
        elif label is None:
            label = _label_by_content(records, classes)
        text = 1 - label
    return _Layout(text, label, names if _are_names(names, records, label, classes) else None)


def _named(names: Sequence[str], wanted: TextColumns, path: Path) -> _Layout:
    for name in wanted:
        if name is not None and name not in names:
            raise InputError(
                f"{path.name} must have the column {name!r}",
                got=listed(short_names(names)),
                fix=did_you_mean(name, names),
            )
    if wanted.text == wanted.label:
        raise InputError("texts and labels must be different columns", got=f"{wanted.text!r} for both")
    text, label = (None if name is None else names.index(name) for name in wanted)
    others = [place for place in range(len(names)) if place not in (text, label)]
    if len(others) > 1 and (text is None or label is None):
        missing = "--text-column" if text is None else "--label-column"
        raise InputError(
            f"{path.name} has {len(names)} columns", got=f"only {_given(wanted)!r}", fix=f"name another with {missing}"
        )
    return _Layout(others[0] if text is None else text, others[0] if label is None else label, names)


def _given(wanted: TextColumns) -> str | None:
    return wanted.text if wanted.label is None else wanted.label


def _only(names: Sequence[str], words: frozenset[str]) -> int | None:
    """The one column whose name is among the words."""
    places = [place for place, name in enumerate(names) if name.lower() in words]
    return places[0] if len(places) == 1 else None


def _label_by_content(records: Sequence[Record], classes: Sequence[str] | None) -> int:
    """Of two columns the one with more cells that are classes, or with fewer different values, or with shorter ones."""
    columns = [[cells[place].strip() for _, cells in records] for place in (0, 1)]
    if classes is not None:
        known = set(classes)
        hits = [sum(cell in known for cell in column) for column in columns]
        return int(hits[1] > hits[0])
    keys = [(len(set(column)), sum(map(len, column))) for column in columns]
    return int(keys[1] < keys[0])


def _are_names(names: Sequence[str], records: Sequence[Record], label: int, classes: Sequence[str] | None) -> bool:
    """Whether the first line is one of names: short, all different, and none of the labels, which come again."""
    if (
        len(set(names)) < len(names)
        or not all(0 < len(name) <= LONGEST_NAME for name in names)
        or all(map(is_number, names))
    ):
        return False
    if is_number(names[label]):
        return False
    if classes is not None:
        return names[label] not in classes
    if any(cells[label].strip() == names[label] for _, cells in records[1:]):
        return False
    usual = any(name.lower() in TEXT_WORDS | LABEL_WORDS for name in names)
    return usual or all(name.replace("_", "").replace("-", "").isalnum() for name in names)


def short_names(names: Sequence[str]) -> list[str]:
    """A first line without names may be a text of any length."""
    return [name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…" for name in names]


def _collect(rows: Sequence[tuple[int, str, str]]) -> tuple[list[str], list[str], list[int], list[str]]:
    """Texts, labels, lines and notes."""
    empty = Tally("is empty and is left out", "are empty and are left out")
    unlabelled = Tally("has no label and is left out", "have no label and are left out")
    long = Tally(f"has more than {LONG:,} characters", f"have more than {LONG:,} characters")
    copies = Tally("is an exact copy of an earlier one", "are exact copies of earlier ones")
    disputed = Tally("has another label than an earlier copy of it", "have another label than an earlier copy of them")
    texts, labels, lines = [], [], []
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
            lines.append(number)
    notes = [tally.note(len(rows), "texts") for tally in (empty, unlabelled, long, copies, disputed) if tally.count]
    return texts, labels, lines, notes
