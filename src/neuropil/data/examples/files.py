"""From a path to examples: the embedded digits, or the user's own files, told apart by what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from neuropil.config import option
from neuropil.data.examples import dataset
from neuropil.data.examples.arrays import array_inputs, as_features, read_array_column, read_memory, scored_column
from neuropil.data.examples.dataset import (
    Column,
    Examples,
    Inputs,
    LabelledInputs,
    LabelledParts,
    LabelSets,
    Schema,
    describe_inputs,
)
from neuropil.data.examples.embedded import load_digits
from neuropil.data.examples.labels import SEPARATOR, answers_of, require_same_kind
from neuropil.data.examples.tables import read_labelled_rows, read_rows, read_table
from neuropil.data.formats.arrays import as_array, describe_array, feature_rows, pictures_of_shape
from neuropil.data.formats.columns import spelling_notes
from neuropil.data.formats.delimited import DelimitedFile, is_delimited
from neuropil.data.formats.idx import is_idx, is_idx_name, read_idx, read_idx_inputs
from neuropil.data.formats.images import (
    fit_picture,
    images_below,
    is_image,
    is_picture,
    read_image_folder,
    read_images,
)
from neuropil.data.formats.memory import InMemory, MemoryTable, in_memory, require_unweighted
from neuropil.data.formats.npz import is_npz, read_array_inputs, read_arrays
from neuropil.data.formats.paths import require_path
from neuropil.data.formats.shards import holds_shards, read_shards
from neuropil.data.splits import (
    PARTS,
    PartName,
    SplitConfig,
    Splits,
    assign_parts,
    scoring_share,
    shared_notes,
    validation_share,
)
from neuropil.errors import InputError, counted, listed

Format = Literal["IDX", "NPZ", "table", "image", "image folder"]
Values: TypeAlias = UInt8[Tensor, "example channel height width"] | Float64[Tensor, "example feature"]

UNLESS = "unless the data has its own"
EMBEDDED = "the embedded digits"


class ImageDataConfig(SplitConfig):
    data: Path | InMemory | None = option(None, "IDX, a folder of images, NPZ; without it, embedded digits")
    image_size: int | None = option(
        None, "side in pixels to which images of a folder are resized; without it, one that suits them", low=1, high=512
    )
    skip_unreadable: bool = option(False, "leave out images that cannot be read, and list them")
    validation: float = validation_share(0.1, f"share of the training part held out for early stopping, {UNLESS}")
    test: float = scoring_share(0.2, f"share held out for the final score, {UNLESS}")


class DataConfig(ImageDataConfig):
    data: Path | InMemory | None = option(
        None, "IDX, a folder of images per class, NPZ, CSV, TSV, JSONL or Parquet; without it, embedded digits"
    )
    target: str | None = option(
        None, "the column of a CSV or TSV to predict; several, with commas between, are labels of 0 and 1"
    )
    ignore: tuple[str, ...] = option((), "columns of a CSV or TSV to leave out")
    encoding: str | None = option(None, "text encoding of a CSV or TSV, where it is not recognised")
    task: Literal["auto", "classification", "regression"] = option(
        "auto", "predict classes or numbers; auto decides by the labels"
    )


class ClassificationDataConfig(DataConfig):
    """What a system that learns from examples takes beside: in a study all examples count the same."""

    weighted = True
    weight_column: str | None = option(
        None, "the column of a CSV or TSV with the weight of each example in the loss; it is no input"
    )
    multi_label: bool = option(
        False, "an example may have several labels, or none: the target is 0 and 1, or labels such as red|round"
    )


def prepare(config: DataConfig, seed: int, *, lazily: bool = False) -> Splits[Examples]:
    """Three disjoint parts, the same for the same seed. Parts that the data brings along are kept as they are; where
    there are none, copies of an example are in one part. Where it is allowed to read them `lazily`, pictures that would
    fill much memory stay in their files."""
    parts, notes = _embedded(config) if config.data is None else _own(config.data, config, lazily)
    return divide(parts, config, seed, notes)


def divide(
    parts: Mapping[PartName, Examples], config: SplitConfig, seed: int, notes: Sequence[str] = ()
) -> Splits[Examples]:
    """What the parts lack is taken from the training part, from which alone means are learned."""
    learned = parts["train"]
    validation, test = (0.0 if name in parts else getattr(config, name) for name in ("validation", "test"))
    part_of = assign_parts(learned.keys, validation, test, seed, strata=learned.strata)
    train, *held = (learned.take((part_of == number).nonzero().flatten()) for number in range(len(PARTS)))
    splits = Splits(train, parts.get("validation", held[0]), parts.get("test", held[1]))
    schema = dataset.fit_schema(splits.train.schema, splits.train)
    own = {name: part for name, part in parts.items() if name != "train"}
    notes = [*notes, *shared_notes(splits.train, own), *dataset.precision_notes(splits.train, schema)]
    return replace(splits, notes=notes).map(lambda part: dataset.centred_examples(part, schema))


def read_labelled(source: Path | InMemory, schema: Schema) -> Examples:
    """Examples to score a trained model on: the test part if there is one, otherwise all. Image files are resized."""
    require_unweighted(source)
    source = source if isinstance(source, InMemory) else _in_memory(_existing(source))
    if isinstance(source, InMemory):
        part, name = _labelled_memory(source, schema), source.name
        examples = _as_examples(part, schema, name, _source(schema, len(part.inputs), name))
        return dataset.centred_examples(examples, schema)
    path, kind = source, format_of(source)
    _require_kind(path, kind, schema)
    if kind == "table":
        part = read_labelled_rows(_delimited(path, schema), schema.columns, answers_of(schema))
    else:
        part = _read_parts(path, kind, schema.shape, schema.columns).held_out
    examples = _as_examples(part, schema, path.name, _source(schema, len(part.inputs), path.name))
    return dataset.centred_examples(examples, schema)


def _labelled_memory(memory: InMemory, schema: Schema, weight: str | None = None) -> LabelledInputs:
    """A part may have no weights: its examples count the same."""
    weight = memory.weight_column(weight if weight in memory.names else None)
    table = MemoryTable.with_lists(memory)
    key = scored_column(table, schema, weight)
    if key is None:
        return read_labelled_rows(table, schema.columns, answers_of(schema, memory.answer, weight))
    wanted = schema.target or ",".join(schema.labels)
    target = wanted if not memory.answers and {*wanted.split(",")} <= {*memory.names} else None
    own = {"weight": weight, "multi_label": bool(schema.labels)}
    return read_array_column(memory, key, target, schema.shape, schema.columns or None, **own).held_out


def read_inputs(paths: Sequence[Path], schema: Schema) -> tuple[Values, list[str]]:
    """Inputs for a trained model and a name for each, from images or folders of them (resized), IDX, NPZ, or tables.

    Names tell where an input stands: "cat.png", "digits.npz[0]" as in Python, "rows.csv row 2" as in a spreadsheet.
    """
    if not paths:
        raise InputError("a prediction needs at least one file", got="none")
    found: list[Inputs] = []
    for kind, group in groupby(map(_existing, paths), format_of):
        files = list(group)
        for path in files:
            _require_kind(path, kind, schema)
        if kind == "image":
            found.append(read_images(files, schema.shape))
        else:
            found += [_read_unlabelled(path, kind, schema) for path in files]
    names = [inputs.name(index) for inputs in found for index in range(len(inputs))]
    return torch.cat([inputs.values for inputs in found]), names


def pictures_of(inputs: Any, shape: tuple[int, ...]) -> UInt8[Tensor, "picture channel height width"]:
    """Pictures for a trained model: files, images of PIL, or numbers in a tensor or array, one or several."""
    several = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if several and all(isinstance(item, str | Path) for item in several):
        return read_pictures([Path(path) for path in several], shape)[0]
    if several and all(map(is_picture, several)):
        return torch.stack([fit_picture(image, shape, "inputs") for image in several])
    return torch.from_numpy(pictures_of_shape(as_array(inputs), shape, "inputs"))


def inputs_of(inputs: Any, schema: Schema) -> Tensor:
    """What a trained model gets, from numbers in a tensor or array, or from pictures; one example or several."""
    if not isinstance(inputs, np.ndarray | Tensor | list | tuple | str | Path) and not is_picture(inputs):
        return dataset.centred(_inputs_of_memory(in_memory(inputs), schema).values, schema)
    if schema.kind == "image":
        return pictures_of(inputs, schema.shape)
    array = as_array(inputs)
    if array.ndim == 1 and len(array) in (len(schema.columns), schema.shape[0]):
        array = array[None]
    if array.ndim == 2:
        values = dataset.with_indicators(torch.from_numpy(feature_rows(array, "inputs")), schema.columns)
        if values.shape[1:] == schema.shape:
            return dataset.centred(values, schema)
    raise InputError(f"inputs must have the shape (example, {schema.shape[0]})", got=describe_array(array))


def _inputs_of_memory(memory: InMemory, schema: Schema) -> Inputs:
    table = MemoryTable.with_lists(memory)
    key = scored_column(table, schema)
    if key is None:
        return read_rows(table, schema.columns)
    inputs = as_features(array_inputs(memory, key, schema.shape)[0], schema.columns)
    _require_shape(inputs, schema, memory.name)
    return inputs


def read_pictures(paths: Sequence[Path], shape: tuple[int, ...]) -> tuple[Tensor, list[str]]:
    """Files brought to the shape, and a name for each picture."""
    return read_inputs(paths, Schema(kind="image", shape=shape, classes=()))


def format_of(path: Path) -> Format:
    if holds_shards(path):
        return "table"
    if path.is_dir():
        return "IDX" if any(is_idx_name(file) and file.is_file() for file in path.iterdir()) else "image folder"
    if is_npz(path):
        return "NPZ"
    if is_delimited(path):
        return "table"
    if is_image(path):
        return "image"
    if is_idx(path):
        return "IDX"
    rule = "the data must be IDX, NPZ, CSV, TSV, JSONL, Parquet or images"
    raise InputError(rule, got=path.name, fix="rename it if it is one of these")


def _embedded(config: DataConfig) -> tuple[Mapping[PartName, Examples], Sequence[str]]:
    _require_no_columns(config, EMBEDDED)
    require_no_folder_options(config, EMBEDDED)
    if config.task == "regression":
        raise InputError("the embedded digits are classes", got="task 'regression'", fix="give data of your own")
    return {"train": load_digits()}, ()


def require_no_folder_options(config: ImageDataConfig, data: str) -> None:
    """Options that are for folders of images only."""
    if config.image_size is not None:
        got = f"{config.image_size} for {data}"
        raise InputError("--image-size is for a folder of images", got=got, fix="leave it out")
    if config.skip_unreadable:
        raise InputError("--skip-unreadable leaves out pictures of a folder", got=data, fix="leave it out")


def _require_no_columns(config: DataConfig, data: str) -> None:
    """Options that are for tables only."""
    fix = "leave it out"
    if config.target is not None:
        raise InputError("a target is a column of a CSV or TSV", got=f"{config.target!r} for {data}", fix=fix)
    if config.ignore:
        raise InputError("--ignore names columns of a table", got=f"{listed(config.ignore)} for {data}", fix=fix)
    if _weight_column(config) is not None:
        got = f"{_weight_column(config)!r} for {data}"
        raise InputError("--weight-column names a column of a table", got=got, fix=fix)
    _require_no_encoding(config, data)


def _is_multi_label(config: DataConfig) -> bool:
    return isinstance(config, ClassificationDataConfig) and config.multi_label


def _weight_column(config: DataConfig) -> str | None:
    return config.weight_column if isinstance(config, ClassificationDataConfig) else None


def _require_no_encoding(config: DataConfig, data: str) -> None:
    if config.encoding is not None:
        got = f"{config.encoding!r} for {data}"
        raise InputError("--encoding is that of a CSV or TSV", got=got, fix="leave it out")


def _own(data: Path | InMemory, config: DataConfig, lazily: bool) -> tuple[Mapping[PartName, Examples], Sequence[str]]:
    data = data if isinstance(data, InMemory) else _in_memory(_existing(data))
    if isinstance(data, InMemory):
        _require_no_encoding(config, data.name)
        require_no_folder_options(config, data.name)
        own = {"weight": _weight_column(config), "multi_label": _is_multi_label(config)}
        reading = read_memory(data.training, config.target, config.ignore, **own)
    else:
        reading = _read_file(data, config, lazily)
    reading = dataset.without_zero_weights(reading, data.name)
    _require_label_sets(reading, config, data.name)
    schema = replace(_learn_schema(reading, config.task, data.name), encoding=config.encoding or "")
    if isinstance(data, InMemory):
        wanted = _weight_column(config)
        others = {name: _labelled_memory(part, schema, wanted) for name, part in data.others.items()}
        reading = dataset.without_zero_weights(replace(reading, parts={**reading.parts, **others}), data.name)
    source = _source(schema, sum(len(part.inputs) for part in reading.parts.values()), data.name, reading.note)
    where = f"the {{}} part of {data.name}".format
    parts = {name: _as_examples(part, schema, where(name), source) for name, part in reading.parts.items()}
    _require_enough(parts["train"], data.name)
    names = reading.parts["train"].labels.names or ()
    notes = () if schema.labels else (*spelling_notes("The target", names), *_joined_notes(names, config))
    return parts, (*reading.notes, *notes)


def _joined_notes(names: Sequence[str], config: DataConfig) -> list[str]:
    """On classes that look like several labels."""
    joined = [name for name in names if SEPARATOR in name]
    if not joined or not isinstance(config, ClassificationDataConfig):
        return []
    return [f"{joined[0]!r} is one class of the target; --multi-label predicts each of its labels."]


def _require_label_sets(reading: LabelledParts, config: DataConfig, name: str) -> None:
    """Several labels, where they are asked for or cannot be anything else."""
    labels = next(iter(reading.parts.values())).labels
    if not isinstance(labels, LabelSets):
        if _is_multi_label(config):
            fix = "leave --multi-label out"
            raise InputError(f"{name} must hold several labels for each example", got="one", fix=fix)
        return
    if not isinstance(config, ClassificationDataConfig):
        raise InputError(f"{name} must have one target here", got=listed(labels.names))
    if config.task != "auto":
        got = f"--task {config.task} for {listed(labels.names)}"
        raise InputError("several labels are predicted as such", got=got, fix="leave --task out")
    if not len(labels.names):
        raise InputError(f"{name} must hold some label", got="none")
    asked = config.multi_label or config.target is not None
    if not asked and len(labels.names) > 1 and (labels.values.sum(1) == 1).all():
        fix = "for one-hot labels give y.argmax(axis=1), or say --multi-label"
        raise InputError(f"labels of {name} must be classes, or several to an example", got="one to each", fix=fix)


def _read_file(path: Path, config: DataConfig, lazily: bool) -> LabelledParts:
    kind = format_of(path)
    if kind == "image folder":
        _require_no_columns(config, path.name)
        how = {"size": config.image_size, "skip_unreadable": config.skip_unreadable}
        return read_image_folder(path, **how, lazily=lazily)
    require_no_folder_options(config, path.name)
    if kind == "table":
        own = {"weight": _weight_column(config), "multi_label": _is_multi_label(config)}
        return read_table(path, config.target, config.ignore, config.encoding, **own)
    _require_no_columns(config, path.name)
    return _read_parts(path, kind)


def _read_parts(
    path: Path, kind: Format, shape: tuple[int, ...] | None = None, columns: Sequence[Column] | None = None
) -> LabelledParts:
    if kind == "image":
        raise InputError("labelled images must come in one folder for each class", got=f"the single image {path.name}")
    if kind == "image folder":
        return read_image_folder(path, shape)
    return read_arrays(path, columns) if kind == "NPZ" else read_idx(path)


def _delimited(path: Path, schema: Schema) -> DelimitedFile:
    return DelimitedFile(path, encoding=schema.encoding or None)


def _in_memory(path: Path) -> Path | InMemory:
    """The rows of JSONL and Parquet, which say themselves what their columns are."""
    return read_shards(path) if holds_shards(path) else path


def _read_unlabelled(path: Path, kind: Format, schema: Schema) -> Inputs:
    if holds_shards(path):
        return _inputs_of_memory(read_shards(path), schema)
    if kind == "table":
        return read_rows(_delimited(path, schema), schema.columns)
    if kind == "image folder":
        files = images_below(path)
        if not files:
            raise InputError(f"the folder {path.name} must hold images", got="none")
        return read_images(files, schema.shape, path.parent)
    inputs = read_array_inputs(path, schema.columns) if kind == "NPZ" else read_idx_inputs(path)
    _require_shape(inputs, schema, path.name)
    return inputs


def _learn_schema(reading: LabelledParts, wanted: Literal["auto"] | dataset.Task, name: str) -> Schema:
    if "train" not in reading.parts:
        raise InputError(f"{name} must have a part to train on", got=f"only {' and '.join(reading.parts)}")
    inputs, labels = reading.parts["train"].inputs, reading.parts["train"].labels
    kind = "table" if len(inputs.shape) == 1 else "image"
    about = {"columns": reading.columns, "target": reading.target}
    if isinstance(labels, LabelSets):
        return Schema(kind=kind, shape=inputs.shape, classes=(), labels=labels.names, **about)
    classes = labels.occurring() if dataset.decide_task(labels, kind, wanted) == "classification" else ()
    if len(classes) == 1:
        raise InputError(f"{name} must have at least 2 classes", got=f"only {classes[0]!r}")
    return Schema(kind=kind, shape=inputs.shape, classes=classes, **about)


def _as_examples(part: LabelledInputs, schema: Schema, where: str, source: str) -> Examples:
    _require_shape(part.inputs, schema, where)
    if isinstance(part.labels, LabelSets) or schema.labels:
        require_same_kind(part.labels, schema, where)
        targets = dataset.encode_label_sets(cast(LabelSets, part.labels), schema.labels)
    elif dataset.decide_task(part.labels, schema.kind, schema.task) == "regression":
        targets = dataset.encode_numbers(part.labels)
    else:
        targets = dataset.encode_classes(part.labels, schema.classes, part.inputs.name)
    weights = None if part.weights is None else torch.from_numpy(part.weights).float()
    return Examples(part.inputs.values, targets, schema, source, weights)


def _source(schema: Schema, num_examples: int, name: str, note: str = "") -> str:
    classes = f" in {counted(len(schema.classes), 'class')}" if schema.classes else ""
    classes = f" with {counted(len(schema.labels), 'label')}" if schema.labels else classes
    return f"{num_examples:,} {describe_inputs(schema.shape)}{classes} ({name}{', ' if note else ''}{note})"


def _existing(path: Path) -> Path:
    """The path, with a name to speak of even if it is given as a dot."""
    require_path(path, "the data must be a file or folder that exists")
    return path if path.name else path.resolve()


def _require_kind(path: Path, kind: Format, schema: Schema) -> None:
    """NPZ may hold either kind, and is judged by its shape."""
    if kind != "NPZ" and (kind == "table") != (schema.kind == "table"):
        fix = "give a CSV, TSV or NPZ" if schema.kind == "table" else "give images, IDX or NPZ"
        rule = f"this model was trained on {describe_inputs(schema.shape)}"
        raise InputError(rule, got=f"the {kind} {path.name}", fix=fix)


def _require_shape(inputs: Inputs, schema: Schema, where: str) -> None:
    if inputs.shape != schema.shape:
        rule = f"{where} must hold {describe_inputs(schema.shape)}, as the training data did"
        raise InputError(rule, got=describe_inputs(inputs.shape))


def _require_enough(train: Examples, name: str) -> None:
    rule = f"{name} must hold at least 2 examples{{}}, one to learn from and one to score"
    if len(train) < 2:
        raise InputError(rule.format(""), got=f"{len(train)}")
    counts = train.strata.bincount(minlength=len(train.schema.classes))
    rarest = int(counts.argmin())
    if train.schema.classes and counts[rarest] < 2:
        name = train.schema.classes[rarest]
        fix = "say --multi-label, if it is several labels" if SEPARATOR in name else "add more, or remove the class"
        raise InputError(rule.format(" of each class"), got=f"{int(counts[rarest])} of class {name!r}", fix=fix)
