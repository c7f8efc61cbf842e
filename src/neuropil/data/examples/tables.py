"""Tables: what each column is, and how its cells become features.

Numbers stay as they are, texts become categories with one feature per value, dates their parts; identifiers and free
texts are left out. A table is read twice: `survey` finds out what each column is, `encode` turns it into features. A
trained model brings its columns along, and then only the second is done.
"""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from jaxtyping import Float64

from neuropil.data.examples.dataset import (
    MOST_NUMBER_CLASSES,
    Column,
    Inputs,
    LabelledInputs,
    LabelledParts,
    missing_notes,
)
from neuropil.data.examples.labels import AnswerColumns, LabelColumns, TargetColumn, holds_joined_labels, split_target
from neuropil.data.formats.columns import (
    MISSING_NUMBERS,
    MISSING_TEXTS,
    UNNAMED,
    Cells,
    is_missing,
    is_number,
    numbers_in,
    read_numbers,
    read_positions,
    shown,
    spelled,
    spelling_notes,
)
from neuropil.data.formats.delimited import DELIMITERS, CellTable, DelimitedFile
from neuropil.data.formats.lines import WINDOWS, Tally
from neuropil.data.formats.paths import opened, suffix_of
from neuropil.data.series.dates import date_formats, parse_dates
from neuropil.errors import DataWarning, InputError, did_you_mean, listed, together

MOST_CATEGORIES, MOST_CLASSES, MOST_COUNTED = 100, 1_000, 2_000
STRAY = 0.1
"""Share of texts among numbers, at most, that are mistakes and not what the column is about."""
ENOUGH_ROWS = 20
"""To tell from the cells of a column that it is different in each row."""
NUMBER_WITH_COMMAS = re.compile(r"\s*[+-]?\d+(,\d+)+(\.\d+)?\s*$")
NAMED_LIKE_IDENTIFIERS = re.compile(
    r"(?i:(?<![a-z])(id|uuid|guid)(?![a-z])|^(index|idx|key|row|number|no|nr|#)$)|[a-z]I[dD]\b"
)
DIGIT = re.compile(r"\d")
WHOLE = re.compile(r"[+-]?\d+")
EXACT_DIGITS = 15
DATE_PARTS = ("year", "month", "weekday", "day of year", "elapsed days", "hour")
DAY = np.timedelta64(1, "D")


def read_table(
    path: Path,
    target: str | None,
    ignore: Sequence[str] = (),
    encoding: str | None = None,
    weight: str | None = None,
    *,
    multi_label: bool = False,
) -> LabelledParts:
    """Find out what the columns are; all but the target, the weights and those to ignore become inputs."""
    if suffix_of(path) == ".txt":
        with opened(path) as file:
            if not set(DELIMITERS.encode()) & set(file.readline()):
                rule = f"{path.name} must be a table, with a delimiter between its cells"
                raise InputError(rule, got="plain text", fix="train an lstm or a gpt2 on plain text")
    table = DelimitedFile(path, encoding=encoding)
    reading = learn_table(table, target, ignore, weight, multi_label=multi_label)
    if encoding is not None or table.encoding != WINDOWS:
        return reading
    note = f"{path.name} is not UTF-8 and was read as Latin-1 (cp1252); --encoding names another."
    return LabelledParts(reading.parts, reading.columns, reading.target, notes=(note, *reading.notes))


def learn_table(
    table: CellTable,
    target: str | Sequence[str] | None,
    ignore: Sequence[str] = (),
    weight: str | None = None,
    *,
    multi_label: bool = False,
) -> LabelledParts:
    """Of a table in a file or in memory. Several targets are labels; with `multi_label` one is a set of them."""
    if target is None:
        rule = f"the table {table.name} needs a target, the column to predict"
        raise InputError(rule, fix=f"choose from {listed(table.header)}")
    wanted = split_target(target, table.header) if isinstance(target, str) else target
    targets, ignored = ([*map(table.column, names)] for names in (wanted, ignore))
    for each in targets:
        if each in ignored:
            raise InputError("the target cannot be ignored", got=f"{each!r} for both")
    if weight is not None:
        weight = table.column(weight)
        if weight in (*targets, *ignored):
            what = "predicted" if weight in targets else "ignored"
            raise InputError(f"the column of weights cannot be {what}", got=f"{weight!r} for both")
        ignored.append(weight)
    if {*table.header} == {*targets, *ignored}:
        raise InputError(f"{table.name} must have columns beside its target", got=f"only {listed(targets)!r}")
    one = len(targets) == 1
    if one and not multi_label:
        found = survey(table, targets[0], ignored)
        answers: AnswerColumns = TargetColumn(cast(Column, found.answer), weight)
    else:
        found = survey(table, None, [*ignored, *targets])
        answers = LabelColumns(targets, weight, joined=one and holds_joined_labels(table, targets[0]))
    inputs, _ = encode(table, found.columns, answers)
    part, notes = answers.labelled(inputs, table.name), (*found.notes, *answers.notes(len(inputs)))
    name = targets[0] if one else ""
    return LabelledParts({"train": part}, columns=found.columns, target=name, notes=notes)


def read_labelled_rows(table: CellTable, columns: Sequence[Column], targets: AnswerColumns) -> LabelledInputs:
    """Columns are found by name."""
    table.require_columns([*(column.name for column in columns), *targets.column_names])
    inputs, notes = encode(table, columns, targets)
    warn_of([*notes, *targets.notes(len(inputs))])
    return targets.labelled(inputs, table.name)


def read_rows(table: CellTable, columns: Sequence[Column]) -> Inputs:
    table.require_columns([column.name for column in columns])
    inputs, notes = encode(table, columns)
    warn_of(notes)
    return inputs


def warn_of(notes: Sequence[str]) -> None:
    for note in notes:
        warnings.warn(note, DataWarning, stacklevel=2)


# --- what the columns are ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SurveyedTable:
    columns: tuple[Column, ...]
    answer: Column | None
    notes: tuple[str, ...]


def survey(table: CellTable, target: str | None, ignored: Sequence[str] = ()) -> SurveyedTable:
    """What each column is, and what the target is, if there is one; all that is wrong with them is said at once."""
    surveyed = {name: SurveyedColumn(name, table.name) for name in table.header if name not in ignored}
    for block in table.blocks(surveyed):
        for name, column in surveyed.items():
            column.look(block[name])
    problems: list[InputError] = []
    found: dict[str, Column | None] = {}
    for name, column in surveyed.items():
        try:
            found[name] = column.as_target() if name == target else column.as_input()
        except InputError as error:
            problems.append(error)
    if problems:
        raise together(problems, table.name)
    answer = None if target is None else found.pop(target)
    columns = tuple(column for column in found.values() if column is not None)
    notes = [note for column in surveyed.values() for note in column.notes]
    if not columns or (answer is None and target is not None):
        rule = f"{table.name} must have columns to learn from beside its target"
        raise InputError(rule, got="none", fix=" ".join(notes).removesuffix("."))
    counts = {column.name: surveyed[column.name].num_missing(column.kind) for column in columns}
    return SurveyedTable(columns, answer, (*notes, *missing_notes(counts)))


class SurveyedColumn:
    """What was seen of a column so far; whether its texts are numbers is known only at the end."""

    def __init__(self, name: str, file: str):
        self.name, self.file = name, file
        self.counts = Counter[str]()
        """Of the first texts, until there are many different ones."""
        self.num_rows = self.num_counted = self.missing_numbers = self.missing_texts = 0
        self.whole = True
        self.first_text = ""
        self.infinite: InputError | None = None
        self.formats: list[str] | None = None
        """Of dates, that fit all texts; none before there was a text."""
        self.hours = False
        self.notes: list[str] = []

    @property
    def where(self) -> str:
        return f"column {self.name!r} of {self.file}"

    def num_missing(self, kind: str) -> int:
        return self.missing_texts if kind == "category" else self.missing_numbers

    def look(self, cells: Cells) -> None:
        texts, numbers = cells.texts, numbers_in(cells.texts)
        self.num_rows += len(texts)
        if len(self.counts) <= MOST_COUNTED:
            self.counts.update(map(str.strip, texts))
            self.num_counted += len(texts)
        gaps = range(len(texts)) if numbers is None else np.flatnonzero(np.isnan(numbers)).tolist()
        self.missing_numbers += sum(is_missing(texts[index]) for index in gaps)
        self.missing_texts += sum(is_missing(texts[index], MISSING_TEXTS) for index in gaps)
        if numbers is None:
            self._look_at_texts(cells)
        elif len(gaps) < len(texts):
            self.formats = []
            self.whole = self.whole and bool((numbers == np.floor(numbers))[~np.isnan(numbers)].all())
            if self.infinite is None and (np.abs(numbers) > np.finfo(np.float32).max).any():
                try:
                    read_numbers(cells, gaps=True)
                except InputError as error:
                    self.infinite = error

    def _look_at_texts(self, cells: Cells) -> None:
        texts = [text for text in cells.texts if not is_missing(text)]
        if not self.first_text:
            index = next(i for i, text in enumerate(cells.texts) if not is_number(text) and not is_missing(text))
            self.first_text = f"{shown(cells.texts[index])} in row {cells.rows[index]}"
        if self.formats is None:
            self.formats = date_formats(texts) if all(map(DIGIT.search, texts)) else []
        parsed = {form: parse_dates(texts, form)[0] for form in self.formats}
        self.formats = [form for form, dates in parsed.items() if not np.isnat(dates).any()]
        self.hours = self.hours or any(bool((dates.astype("M8[D]") != dates).any()) for dates in parsed.values())

    def as_target(self) -> Column:
        self._require_numbers()
        known = self._known()
        if self.first_text and len(known) > MOST_CLASSES:
            rule = f"{self.where} must hold numbers, or at most {MOST_CLASSES:,} different texts"
            raise InputError(rule, got=f"more texts, the first {self.first_text}", fix="choose another target")
        if not known:
            raise InputError(f"{self.where} must hold what to predict", got="empty cells")
        return Column(name=self.name, kind="category" if self.first_text or self._merged(known) else "number")

    def _merged(self, known: Counter[str]) -> bool:
        """Whether different labels would become one number, as 01 and 1 do; numbers with too many digits are none."""
        if len({float(text) for text in known}) == len(known) or not all(map(WHOLE.fullmatch, known)):
            return False
        if all(len(text.lstrip("+-0")) <= EXACT_DIGITS for text in known):
            return len(known) <= MOST_CLASSES
        rule = f"{self.where} must hold numbers of at most {EXACT_DIGITS} digits, to tell them apart"
        raise InputError(rule, got=shown(max(known, key=len)), fix="subtract what they have in common")

    def as_input(self) -> Column | None:
        """What it becomes; nothing, with a note, if it is left out."""
        if self.missing_numbers == self.num_rows:
            return self._left_out("is empty")
        if self.formats:
            return self._date(self.formats)
        self._require_numbers()
        known, missing = self._known(), self.num_missing("category" if self.first_text else "number") > 0
        num_values = sum(known.values())
        different = len(known) == num_values >= ENOUGH_ROWS
        if not self.first_text:
            unnamed = re.fullmatch(UNNAMED.format(r"\d+"), self.name)
            if self.whole and (unnamed or NAMED_LIKE_IDENTIFIERS.search(self.name)):
                if different:
                    return self._left_out("has another whole number in each row, as an index or identifier has,")
                if len(known) >= max(ENOUGH_ROWS, num_values // 2):  # some rows are copies of others
                    what = f"has {len(known):,} different whole numbers in {num_values:,} rows"
                    return self._left_out(f"{what}, as an index or identifier has,")
            return Column(name=self.name, kind="number", missing=missing)
        if different or len(known) > max(MOST_CATEGORIES, num_values // 2):
            return self._left_out(f"has {len(known):,} different texts in {num_values:,} rows")
        values = [value for value, _ in known.most_common(MOST_CATEGORIES)]
        if len(values) < len(known):
            others = "the others count as none of them"
            self.notes.append(f"Of column {self.name!r} the {len(values)} commonest texts are categories; {others}.")
        self.notes += spelling_notes(f"Column {self.name!r}", self.counts)
        return Column(name=self.name, kind="category", values=tuple(sorted(values)), missing=missing)

    def _known(self) -> Counter[str]:
        """How often each value occurs that is not missing; a boolean in any case is one value."""
        missing, known = MISSING_TEXTS if self.first_text else MISSING_NUMBERS, Counter[str]()
        for text, count in self.counts.items():
            if not is_missing(text, missing):
                known[spelled(text, known)] += count
        return known

    def _require_numbers(self) -> None:
        """Unless what the column holds is meant as text."""
        known = self._known()
        if not self.first_text:
            if self.infinite is not None:
                raise self.infinite
            return
        commas = sorted(text for text in known if NUMBER_WITH_COMMAS.match(text))
        numbers = [text for text in known if is_number(text)]
        if commas and all(text in commas or is_number(text) or is_missing(text) for text in known):
            rule = f"{self.where} must hold numbers with a decimal point and no other marks"
            raise InputError(rule, got=shown(commas[0]), fix="write 1234.5, or divide the cells by semicolons")
        odd = sum(known.values()) - sum(known[text] for text in numbers)
        if len(numbers) > MOST_NUMBER_CLASSES and odd < STRAY * sum(known.values()):
            rule = f"{self.where} must hold numbers only, as it does elsewhere"
            raise InputError(rule, got=self.first_text, fix="correct the cell, or add --ignore")

    def _date(self, formats: Sequence[str]) -> Column:
        parts = DATE_PARTS if self.hours else DATE_PARTS[:-1]
        self.notes.append(f"Column {self.name!r} holds dates and becomes {', '.join(parts)}.")
        if len(formats) > 1:
            doubt = f"Dates of column {self.name!r} are read with the month first"
            self.notes.append(f"{doubt}; write 2020-12-31 if the day comes first.")
        missing = self.missing_numbers > 0
        return Column(name=self.name, kind="date", values=parts, missing=missing, date_format=formats[0])

    def _left_out(self, why: str) -> None:
        self.notes.append(f"Column {self.name!r} {why} and is left out.")


# --- cells become features --------------------------------------------------------------------------------------------


def encode(
    table: CellTable, columns: Sequence[Column], targets: AnswerColumns | None = None
) -> tuple[Inputs, list[str]]:
    """Features, with NaN where a number is missing; and notes on cells such as the columns did not have before. All
    that cannot be read is said at once; columns that are not asked for are passed over."""
    names = [column.name for column in columns]
    blocks = table.blocks(names) if targets is None else targets.collect(table.blocks([*names, *targets.column_names]))
    features: list[np.ndarray] = []
    rows: list[int] = []
    odd: dict[str, Tally] = {}
    problems: dict[str, InputError] = {}
    for block in blocks:
        encoded = []
        for column in columns:
            try:
                encoded.append(encode_column(block[column.name], column, odd))
            except InputError as error:
                problems.setdefault(column.name, error)
        features.append(np.concatenate(encoded, axis=1) if encoded else np.empty((0, 0)))
        rows += block[names[0]].rows
    if problems:
        raise together([*problems.values()], table.name)
    inputs = Inputs(torch.from_numpy(np.concatenate(features)), lambda index: f"{table.name} row {rows[index]}")
    return inputs, [tally.note(len(rows), f"rows of {table.name}", "row") for tally in odd.values()]


def encode_column(cells: Cells, column: Column, odd: dict[str, Tally]) -> Float64[np.ndarray, "row feature"]:
    """`odd` counts missing values where training saw none, and categories that it did not see."""
    name = column.name
    if column.kind == "number":
        numbers = read_numbers(cells, gaps=True)
        features, missing = numbers[:, None], np.isnan(numbers)
    elif column.kind == "date":
        features = date_features(cells, column)
        missing = np.isnan(features[:, 0])
    else:
        positions = read_positions(cells, {value: position for position, value in enumerate(column.values)})
        features = (positions[:, None] == np.arange(len(column.values))).astype(np.float64)
        missing = np.array([is_missing(text, MISSING_TEXTS) for text in cells.texts])
        for index in np.flatnonzero((positions < 0) & ~missing).tolist():
            means = did_you_mean(cells.texts[index], column.values)
            what = f"{cells.texts[index]!r} ({means})" if means else repr(cells.texts[index])
            new = f"a new category in column {name!r} that counts as none, such as {what}"
            odd.setdefault(f"{name} new", Tally(f"has {new}", f"have {new}")).add(cells.rows[index])
    if column.missing:
        return np.column_stack([features, missing])
    for index in np.flatnonzero(missing).tolist():
        done = "counts as no category" if column.kind == "category" else "gets the mean of the training part"
        new = f"no value in column {name!r}, where training data had one throughout, and"
        odd.setdefault(name, Tally(f"has {new} {done}", f"have {new} {done.replace('s', '', 1)}")).add(
            cells.rows[index]
        )
    return features


def date_features(cells: Cells, column: Column) -> Float64[np.ndarray, "row part"]:
    """NaN where there is no date."""
    dates, instants = parse_dates(cells.texts, column.date_format)
    for index in np.flatnonzero(np.isnat(dates)).tolist():
        if not is_missing(cells.texts[index]):
            rule = f"{cells.where(index)} must hold a date as in the training data"
            raise InputError(rule, got=shown(cells.texts[index]))
    day, month, year = (dates.astype(f"M8[{unit}]") for unit in "DMY")
    elapsed = (instants - np.datetime64(0, "s")) / DAY
    parts = {
        "year": year.astype(np.int64) + 1970.0,
        "month": (month - year).astype(np.int64) + 1.0,
        "weekday": (day.astype(np.int64) + 3.0) % 7,  # 1970 began on a Thursday; Monday is 0
        "day of year": (day - year).astype(np.int64) + 1.0,
        "elapsed days": elapsed,
        "hour": (dates - day) / np.timedelta64(1, "h"),
    }
    features = np.column_stack([parts[part] for part in column.values]).astype(np.float64)
    return np.where(np.isnat(dates)[:, None], np.nan, features)
