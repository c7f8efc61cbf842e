"""What the data room hands out for classification and regression: examples in memory, and the schema that a model keeps
of them.

Readers of files hand out `LabelledParts`: which classes there are, and what is held out, is decided afterwards and for
all formats alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from torch import Tensor

from neuropil.config import Config
from neuropil.data.formats.columns import spelled
from neuropil.data.formats.picture_files import PictureFiles
from neuropil.data.splits import PartName, last_part
from neuropil.data.weights import require_weights, zero_weights_note
from neuropil.errors import InputError, RunError, counted, did_you_mean, listed
from neuropil.protocols import WEIGHT, Batch

Task = Literal["classification", "regression", "multi_label"]
FEW = 1_000
"""Pictures that are read at once when they are taken: reports show some, and parts to learn from have more."""
FAR = 1_000
"""Standard deviations from zero to the mean: beyond, float32 would lose more than the fourth digit of a feature."""
LOOKED_AT, ENOUGH = 10_000, 0.99
"""Examples in which values are counted, and the share of them that float32 should tell apart."""
MOST_NUMBER_CLASSES = 20
"""A column of a table with more different numbers than this is a quantity, not a class."""


class Column(Config):
    """One column of a table: a number is one feature, a category one for each of its values, a date one for each of its
    parts. Where cells of the training data were `missing`, one more feature says which."""

    name: str
    kind: Literal["number", "category", "date"]
    values: tuple[str, ...] = ()
    """The categories, or the parts of a date."""
    missing: bool = False
    date_format: str = ""

    @property
    def value_features(self) -> list[str]:
        """Names of those that hold what a cell says."""
        between = ": " if self.kind == "date" else " = "
        return [f"{self.name}{between}{value}" for value in self.values] or [self.name]

    @property
    def features(self) -> list[str]:
        """Names of all, in order."""
        return [*self.value_features, f"{self.name} is missing"] if self.missing else self.value_features


class Schema(Config):
    """All that a trained model must remember of its data, so that it can read more of the same kind."""

    kind: Literal["image", "table"]
    shape: tuple[int, ...]
    """Of one input: (channel, height, width) or (feature,)."""
    classes: tuple[str, ...]
    """Names in the order of the model's outputs; none for regression."""
    labels: tuple[str, ...] = ()
    """The same, where an example may have several of them, or none: multi-label classification."""
    columns: tuple[Column, ...] = ()
    target: str = ""
    encoding: str = ""
    """Of the file, if the user had to say it."""
    imputed: tuple[float, ...] = ()
    """What a missing value of each feature is replaced by: the mean of the training part."""
    offsets: tuple[float, ...] = ()
    """Subtracted from each feature before it becomes float32, which has too few digits for years in seconds."""
    target_offset: float = 0.0
    """The same for the numbers to predict."""

    @property
    def task(self) -> Task:
        return "classification" if self.classes else "multi_label" if self.labels else "regression"

    @property
    def num_outputs(self) -> int:
        return len(self.classes) or len(self.labels) or 1

    @property
    def contradiction(self) -> str | None:
        """Between the shape of an input and what is said of its features, if there is any."""
        features = sum(len(column.features) for column in self.columns)
        if len(self.shape) != (3 if self.kind == "image" else 1):
            return f"the shape {list(self.shape)} for {'an image' if self.kind == 'image' else 'a row of a table'}"
        if self.kind == "table" and features != self.shape[0]:
            return f"columns with {counted(features, 'feature')} for {self.shape[0]:,}"
        means = {"imputed": self.imputed, "offsets": self.offsets}
        odd = [name for name, values in means.items() if len(values) not in (0, self.shape[0])]
        return f"{odd[0]} of {counted(len(means[odd[0]]), 'feature')} for {self.shape[0]:,}" if odd else None


def recorded_schema(facts: Mapping[str, Any], folder: Path) -> Schema:
    """As a run kept it among the facts of its config.json, which may be damaged."""
    rule, fix = f"{folder / 'config.json'} must describe the inputs of its model", "train again or restore it"
    try:
        schema = Schema.from_dict(facts["schema"])
    except InputError as error:
        raise RunError(rule, got=f"something else ({str(error).rstrip('.')})", fix=fix) from error
    if schema.contradiction:
        raise RunError(rule, got=schema.contradiction, fix=fix)
    return schema


@dataclass(frozen=True)
class Examples:
    unit: ClassVar = "examples"
    inputs: Any
    """Pictures [example channel height width] of bytes or numbers [example feature], as a tensor; or `PictureFiles`,
    which are read when they are needed, and answer to the names that every system uses."""
    targets: Int64[Tensor, " example"] | Float[Tensor, "example output"]
    """Class numbers, values, or 1 for each label that an example has."""
    schema: Schema
    source: str
    """Where they come from, as a phrase for the report: "1,797 hand-written digits of 8×8 (scikit-learn)"."""
    weights: Float[Tensor, " example"] | None = None
    """In the loss; without them all examples count the same."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def keys(self) -> list[bytes]:
        if isinstance(self.inputs, PictureFiles):
            return self.inputs.keys
        return [row.tobytes() for row in self.inputs.numpy()]

    @property
    def sample(self) -> "Examples":
        """All of them; of pictures that are not in memory some, which stand for all."""
        return self if isinstance(self.inputs, Tensor) else self.take(self.inputs.spread).loaded

    @property
    def loaded(self) -> "Examples":
        """In memory."""
        return replace(self, inputs=self.inputs[:])

    @property
    def strata(self) -> Int64[Tensor, " example"]:
        """What parts must have in equal proportions: the classes, where there are any."""
        return self.targets if self.schema.classes else torch.zeros(len(self), dtype=torch.int64)

    def take(self, index: Int64[Tensor, " chosen"]) -> "Examples":
        weights = None if self.weights is None else self.weights[index]
        if isinstance(self.inputs, PictureFiles):
            chosen = replace(self, inputs=self.inputs.take(index), targets=self.targets[index], weights=weights)
            return chosen.loaded if len(chosen) <= FEW else chosen
        return replace(self, inputs=self.inputs[index], targets=self.targets[index], weights=weights)

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        return {name: values.index_select(0, index) for name, values in self.named.items()}

    @property
    def named(self) -> dict[str, Any]:
        """As a batch calls them."""
        weights = {} if self.weights is None else {WEIGHT: self.weights}
        return {"input": self.inputs, "target": self.targets, **weights}


@dataclass(frozen=True)
class Labels:
    """One label for each example: a number, or, where there are `names`, the position of its name."""

    values: Shaped[np.ndarray, " example"]
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def named(self) -> tuple[Int64[np.ndarray, " example"], tuple[str, ...]]:
        """For each example the position of its name, and the names; those of numbers in ascending order."""
        if self.names is not None:
            return self.values, self.names
        numbers, positions = np.unique(self.values, return_inverse=True)
        return positions, tuple(map(number_name, numbers.tolist()))

    def occurring(self) -> tuple[str, ...]:
        """The names that are in use: numbers in ascending order, texts in that of the alphabet, of which a boolean in
        any case is one."""
        positions, names = self.named()
        used = [names[position] for position in np.unique(positions)]
        found = dict[str, None]()
        for name in used if self.names is None else sorted(used):
            found[spelled(name, found)] = None
        return tuple(found)


@dataclass(frozen=True)
class LabelSets:
    """Any number of labels for each example: which of the `names` it has."""

    values: Bool[np.ndarray, "example label"]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Inputs:
    values: Any
    """A tensor of pictures [example channel height width] or of numbers [example feature], with NaN where one is
    missing; or `PictureFiles`."""
    name: Callable[[int], str]
    """Where the example with this number comes from: "cat.png", "rows.csv row 3"."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return tuple(self.values.shape[1:])


@dataclass(frozen=True)
class LabelledInputs:
    inputs: Inputs
    labels: Labels | LabelSets
    weights: Float64[np.ndarray, " example"] | None = None

    def take(self, kept: Int64[np.ndarray, " kept"]) -> "LabelledInputs":
        inputs, named = self.inputs, self.inputs.name
        some = Inputs(inputs.values[kept], lambda index: named(int(kept[index])))
        weights = None if self.weights is None else self.weights[kept]
        return LabelledInputs(some, replace(self.labels, values=self.labels.values[kept]), weights)


@dataclass(frozen=True)
class LabelledParts:
    """What a file or folder holds."""

    parts: Mapping[PartName, LabelledInputs]
    columns: tuple[Column, ...] = ()
    target: str = ""
    note: str = ""
    """What was done to the data on the way, as a phrase for its source."""
    notes: tuple[str, ...] = ()
    """Sentences on what was found and left out."""

    @property
    def held_out(self) -> LabelledInputs:
        """The part that a trained model has not seen, if the data says so; otherwise all there is."""
        return self.parts[last_part(self.parts)]


def without_zero_weights(reading: LabelledParts, name: str) -> LabelledParts:
    """An example that does not count is left out. The columns of a table keep what was read of it: a category that
    occurs nowhere else has an input of its own."""
    parts, notes = dict(reading.parts), list(reading.notes)
    for part, each in reading.parts.items():
        if each.weights is None:
            continue
        require_weights(each.weights, each.inputs.name, name)
        left_out = np.flatnonzero(each.weights == 0)
        if len(left_out):
            parts[part] = each.take(np.flatnonzero(each.weights))
            first = each.inputs.name(int(left_out[0]))
            notes.append(zero_weights_note(len(left_out), len(each.weights), "examples", first))
    return replace(reading, parts=parts, notes=tuple(notes))


def decide_task(labels: Labels | LabelSets, kind: Literal["image", "table"], wanted: Literal["auto"] | Task) -> Task:
    """Names are classes; so are whole numbers on images, or few different ones in a table. Others are quantities."""
    if isinstance(labels, LabelSets):
        return "multi_label"
    if labels.names is not None:
        if wanted == "regression":
            got = f"labels such as {labels.names[0]!r}"
            raise InputError("regression predicts numbers", got=got, fix="use --task classification")
        return "classification"
    if wanted != "auto":
        return wanted
    distinct = np.unique(labels.values)
    whole = bool((distinct == np.floor(distinct)).all())
    return "classification" if whole and (kind == "image" or len(distinct) <= MOST_NUMBER_CLASSES) else "regression"


def encode_classes(labels: Labels, classes: tuple[str, ...], name: Callable[[int], str]) -> Int64[Tensor, " example"]:
    """The position in `classes` of each example's label; `name` says where a label that is none of them stands."""
    positions, names = labels.named()
    known = {label: index for index, label in enumerate(classes)}
    spellings = [spelled(label, known) for label in names]
    lookup = np.array([known.get(label, known.get(_as_number(label), -1)) for label in spellings], dtype=np.int64)
    targets = lookup[positions]
    if (targets < 0).any():
        first = int(np.argmax(targets < 0))
        label = names[positions[first]]
        fix = did_you_mean(label, classes) or f"the classes are {listed(classes)}"
        raise InputError("each label must be a class of the training data", got=f"{label!r} ({name(first)})", fix=fix)
    return torch.from_numpy(targets)


def encode_label_sets(labels: LabelSets, known: tuple[str, ...]) -> Float64[Tensor, "example label"]:
    """A column for each label that is known, 1 where an example has it."""
    for name in labels.names:
        if name not in known:
            fix = did_you_mean(name, known) or f"the labels are {listed(known)}"
            raise InputError("each label must be one of the training data", got=f"{name!r}", fix=fix)
    targets = torch.zeros(len(labels), len(known), dtype=torch.double)
    for place, name in enumerate(labels.names):
        targets[:, known.index(name)] = torch.from_numpy(labels.values[:, place]).double()
    return targets


def encode_numbers(labels: Labels) -> Float64[Tensor, "example 1"]:
    return torch.from_numpy(labels.values.astype(np.float64)[:, None])


def fit_schema(schema: Schema, train: Examples) -> Schema:
    """The schema, with the means of features that may be missing, and of those features and targets of which float32
    would lose digits that matter."""
    target = _offsets(train.targets)[0] if schema.task == "regression" else 0.0
    if schema.kind == "image":
        return replace(schema, target_offset=target)
    schema = replace(schema, imputed=tuple(train.inputs.nanmean(0).nan_to_num().tolist()), target_offset=target)
    offsets = _offsets(imputed(train.inputs, schema))
    return replace(schema, offsets=offsets if any(offsets) else ())


def _offsets(values: Float64[Tensor, "example feature"]) -> tuple[float, ...]:
    mean, spread = values.mean(0), values.std(0, correction=0)
    return tuple(torch.where((spread > 0) & (mean.abs() > FAR * spread), mean.round(), 0.0).tolist())


def centred(inputs: Any, schema: Schema) -> Any:
    """Inputs as the model gets them: bytes of pictures, or float32 without the offsets."""
    if schema.kind == "image":
        return inputs
    offsets = torch.tensor(schema.offsets or [0.0], dtype=torch.double)
    return (imputed(inputs.double(), schema) - offsets).float()


def restored(inputs: Tensor, schema: Schema) -> Tensor:
    """The way back from `centred`: columns as the data has them, in double precision where float32 has too few digits,
    without the features that say what is missing."""
    if schema.kind == "image":
        return inputs
    if schema.offsets:
        inputs = inputs.double() + torch.tensor(schema.offsets, dtype=torch.double)
    held = [index < len(column.value_features) for column in schema.columns for index in range(len(column.features))]
    return inputs[:, held] if inputs.shape[1] == len(held) else inputs


def imputed(inputs: Float64[Tensor, "example feature"], schema: Schema) -> Float64[Tensor, "example feature"]:
    """Inputs with no value missing; models from before there were means have none."""
    if not schema.imputed:
        return inputs
    return torch.where(inputs.isnan(), torch.tensor(schema.imputed, dtype=torch.double), inputs)


def with_indicators(
    values: Float64[Tensor, "example column"], columns: Sequence[Column]
) -> Float64[Tensor, "example feature"]:
    """Columns of numbers as features: each that may be missing is followed by one that says where. Other values are
    features already."""
    if values.shape[1] != len(columns) or any(column.kind != "number" for column in columns):
        return values
    features = [
        feature
        for column, each in zip(columns, values.T, strict=True)
        for feature in ([each, each.isnan().double()] if column.missing else [each])
    ]
    return torch.stack(features, 1)


def missing_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Of the columns in which values are missing."""
    some = [f"{count:,} in {name!r}" for name, count in counts.items() if count]
    if not some:
        return ()
    done = "numbers and dates are imputed by the mean of the training part, and one more feature per column says where"
    return (f"Missing values: {listed(some)}; {done}.",)


def precision_notes(train: Examples, schema: Schema) -> list[str]:
    """Of columns, and of a target, whose values float32 cannot tell apart when a model subtracts their mean."""
    pairs: list[tuple[str, Tensor, Tensor]] = []
    if schema.kind == "table":
        exact, single = train.inputs[:LOOKED_AT], centred(train.inputs[:LOOKED_AT], schema)
        names = [f"Column {name!r}" for column in schema.columns for name in column.features]
        pairs += zip(names, imputed(exact, schema).T, single.T, strict=True)
    if schema.task == "regression":
        targets = train.targets[:LOOKED_AT, 0]
        pairs.append((f"The target {schema.target!r}", targets, (targets - schema.target_offset).float()))
    notes = []
    for name, before, after in pairs:
        many, few = (len(values.unique()) for values in (before, after - after.mean()))
        if few < ENOUGH * many:
            notes.append(f"{name} has {many:,} different values, of which float32 tells only {few:,} apart.")
    return notes


def centred_examples(examples: Examples, schema: Schema) -> Examples:
    targets = (examples.targets - schema.target_offset).float() if not schema.classes else examples.targets
    return replace(examples, inputs=centred(examples.inputs, schema), targets=targets, schema=schema)


def number_name(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _as_number(label: str) -> str:
    """So that "3.0" in one file is the class "3" of another."""
    try:
        return number_name(float(label))
    except (ValueError, OverflowError):
        return label


def describe_inputs(shape: tuple[int, ...]) -> str:
    """(13,) is "rows of 13 features", (1, 8, 8) is "grey images of 8×8"."""
    if len(shape) == 1:
        return f"rows of {counted(shape[0], 'feature')}"
    channels, height, width = shape
    colour = {1: "grey", 3: "colour"}.get(channels, f"{channels}-channel")
    return f"{colour} images of {height}×{width}"
