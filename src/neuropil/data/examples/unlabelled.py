"""Pictures or rows to imitate or to remember: labels are kept where the data has them, and not asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from neuropil.data.examples import files
from neuropil.data.examples.arrays import array_column, array_inputs, feature_columns
from neuropil.data.examples.dataset import Column, Examples, Inputs, Schema, describe_inputs
from neuropil.data.examples.files import (
    DataConfig,
    ImageDataConfig,
    divide,
    format_of,
    inputs_of,
    require_no_folder_options,
)
from neuropil.data.formats.idx import files_by_part, has_labels, read_images
from neuropil.data.formats.images import loose_images, read_loose_images, visible_folders
from neuropil.data.formats.memory import InMemory
from neuropil.data.formats.npz import has_label_arrays, read_input_arrays
from neuropil.data.formats.paths import require_path
from neuropil.data.splits import PartName, Splits
from neuropil.errors import InputError


def prepare_unlabelled(config: ImageDataConfig, seed: int) -> Splits[Examples]:
    """Three disjoint parts, the same for the same seed, as `prepare` makes them of labelled data. Where there are no
    labels, the schema has no classes and the targets mean nothing."""
    labelled = DataConfig(**{each.name: each.default for each in config.options()})
    if config.data is None or _is_labelled(config.data):
        return files.prepare(labelled, seed)
    read, notes = _read(config.data, config)
    parts = _as_examples(read, config.data.name)
    if len(parts["train"]) < 2:
        rule = f"{config.data.name} must hold at least 2 examples, one to learn from and one to score"
        raise InputError(rule, got=f"{len(parts['train'])}")
    return divide(parts, config, seed, notes)


def _is_labelled(data: Path | InMemory) -> bool:
    """By what stands beside the inputs; one folder of images alone is no class."""
    if isinstance(data, InMemory):
        return array_column(data.training) is None or len(data.training.columns) > 1
    require_path(data, "the data must be a file or folder that exists")
    match format_of(data):
        case "image folder":
            return not loose_images(data) and len(visible_folders(data)) > 1
        case "NPZ":
            return has_label_arrays(data)
        case "IDX":
            return all(map(has_labels, files_by_part(data).values()))
        case kind:
            got = f"the {kind} {data.name}"
            fix = "write columns of numbers by numpy.savez('rows.npz', x=rows)"
            raise InputError("the data must be a folder of images, IDX or NPZ", got=got, fix=fix)


def _read(data: Path | InMemory, config: ImageDataConfig) -> tuple[Mapping[PartName, Inputs], Sequence[str]]:
    """The inputs of each part, and what there is to say of them."""
    if not isinstance(data, InMemory) and format_of(data) == "image folder":
        return read_loose_images(data, config.image_size, skip_unreadable=config.skip_unreadable)
    require_no_folder_options(config, data.name)
    if isinstance(data, InMemory):
        parts = {"train": data.training, **data.others}
        found = {name: array_inputs(part, array_column(part) or "") for name, part in parts.items()}
        return {name: inputs for name, (inputs, _) in found.items()}, [note for _, note in found.values() if note]
    if format_of(data) == "NPZ":
        return read_input_arrays(data), ()
    name = data.name
    return {
        part: Inputs(read_images(file), lambda index: f"{name}[{index}]") for part, file in files_by_part(data).items()
    }, ()


def _as_examples(read: Mapping[PartName, Inputs], name: str) -> dict[PartName, Examples]:
    if "train" not in read:
        raise InputError(f"{name} must have a part to train on", got=f"only {' and '.join(read)}")
    shape, columns = read["train"].shape, tuple[Column, ...]()
    if len(shape) == 1:
        found, missing = feature_columns(list(read.values()))
        if missing:
            raise InputError(f"{name} must hold numbers only", got=missing[0].partition(";")[0], fix="fill them in")
        columns = tuple(found)
    schema = Schema(kind="table" if columns else "image", shape=shape, classes=(), columns=columns)
    source = f"{sum(map(len, read.values())):,} {describe_inputs(shape)} without labels ({name})"
    examples = {}
    for part, inputs in read.items():
        if inputs.shape != shape:
            rule = f"the {part} part of {name} must hold {describe_inputs(shape)}, as the training part does"
            raise InputError(rule, got=describe_inputs(inputs.shape))
        nothing = torch.zeros(len(inputs), 1, dtype=torch.double)
        examples[part] = Examples(inputs.values, nothing, schema, source)
    return examples


def read_unlabelled(source: Path | InMemory, schema: Schema) -> Examples:
    """Examples to score a trained model on: the test part if there is one, otherwise all. Labels are passed over."""
    if isinstance(source, InMemory):
        values = inputs_of(source.held_out.columns[array_column(source.held_out) or ""], schema)
    else:
        values = inputs_of(files.read_inputs([source], schema)[0], schema)
    nothing = torch.zeros(len(values), 1)
    return Examples(values, nothing, schema, f"{len(values):,} {describe_inputs(schema.shape)} ({source.name})")
