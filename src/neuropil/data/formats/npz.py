"""NPZ, NumPy's bundle of named arrays: x and y, images and labels, or x_train … y_test as Keras writes them."""

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
from jaxtyping import Shaped

from neuropil.data.examples.arrays import as_features, as_inputs, labelled_inputs, labelled_parts
from neuropil.data.examples.dataset import Column, Inputs, LabelledInputs, LabelledParts
from neuropil.data.formats.arrays import describe_array
from neuropil.data.formats.npy import DamagedArrayError, ObjectArrayError, read_npy
from neuropil.data.splits import PART_OF_WORD, PartName, last_part, part_of
from neuropil.errors import InputError, listed

Role: TypeAlias = str
"""input or label."""
ROLE_OF_WORD: Mapping[str, Role] = {
    **dict.fromkeys(("x", "image", "images", "input", "inputs", "data", "features"), "input"),
    **dict.fromkeys(("y", "label", "labels", "target", "targets"), "label"),
}
CLASS_NAMES = ("classes", "class_names", "target_names", "label_names")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, TypeError, RuntimeError, DamagedArrayError)
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""As np.savez and np.savez_compressed write them."""
MOST_UNPACKED = 1_100
"""Bytes of a byte that was packed: DEFLATE makes no more than 1,032 of one, and a little for short ones."""


class Bundle:
    """An opened file, whose arrays are read when they are asked for."""

    def __init__(self, archive: zipfile.ZipFile, name: str):
        self.archive, self.name = archive, name
        self.members = {_key(info): info for info in archive.infolist()}
        if several := [key for key, count in Counter(map(_key, archive.infolist())).items() if count > 1]:
            raise InputError(
                f"{name} must hold each array once", got=f"{several[0]!r} twice", fix="remove one of the two"
            )

    @property
    def files(self) -> list[str]:
        return list(self.members)

    def __getitem__(self, key: str) -> Shaped[np.ndarray, "..."]:
        info = self.members[key]
        most = MOST_UNPACKED * info.compress_size if info.compress_type == zipfile.ZIP_DEFLATED else info.compress_size
        if info.compress_type not in PACKINGS or info.file_size > most:
            raise DamagedArrayError
        with self.archive.open(info) as file:
            return read_npy(cast(io.BufferedIOBase, file), info.file_size, f"{key} of {self.name}")


def _key(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz"


def read_arrays(path: Path, columns: Sequence[Column] | None = None) -> LabelledParts:
    """The labelled parts that the bundle holds; `columns` are those of a trained model."""
    with open_npz(path) as bundle:
        keys = keys_by_role(path, bundle.files)
        names = class_names(path, bundle)
        parts = {part: read_part(path, bundle, keys, part, names) for part, role in keys if role == "input"}
    if not parts:
        names = "x and y, images and labels, inputs and targets, or x_train, y_train, x_test and y_test"
        got = listed(bundle.files) or "no arrays"
        raise InputError(f"{path.name} must hold {names}", got=got, fix="rename the arrays")
    return labelled_parts(parts, keys[next(iter(parts)), "label"], columns=columns)


def has_label_arrays(path: Path) -> bool:
    with open_npz(path) as bundle:
        return any(role == "label" for _, role in keys_by_role(path, bundle.files))


def read_input_arrays(path: Path) -> dict[PartName, Inputs]:
    """The inputs of each part, or the only array, whatever its name."""
    with open_npz(path) as bundle:
        return {part: as_inputs(bundle[key], key, path.name) for part, key in input_keys(path, bundle).items()}


def read_array_inputs(path: Path, columns: Sequence[Column] = ()) -> Inputs:
    """Inputs alone, for a model of these columns: those of the test part if there are several, or the only array,
    whatever its name."""
    with open_npz(path) as bundle:
        keys = input_keys(path, bundle)
        key = keys[last_part(keys)]
        return as_features(as_inputs(bundle[key], key, path.name), columns)


def input_keys(path: Path, bundle: Bundle) -> dict[PartName, str]:
    keys = {part: key for (part, role), key in keys_by_role(path, bundle.files).items() if role == "input"}
    if not keys and len(bundle.files) != 1:
        rule = f"{path.name} must hold x, images or inputs"
        raise InputError(rule, got=listed(bundle.files) or "no arrays", fix="rename the array of inputs")
    return keys or {"train": bundle.files[0]}


@contextmanager
def open_npz(path: Path) -> Iterator[Bundle]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield Bundle(archive, path.name)
    except InputError:
        raise
    except ObjectArrayError as cause:
        rule = f"the arrays of {path.name} must hold numbers or text"
        got = "Python objects, which could run code when they are read"
        raise InputError(rule, got=got, fix="give the array a dtype before np.savez") from cause
    except DAMAGE as cause:
        rule = f"{path.name} must be a whole NPZ file"
        raise InputError(rule, got="a damaged or different one", fix="write it with np.savez") from cause


def keys_by_role(path: Path, keys: Sequence[str]) -> dict[tuple[PartName, Role], str]:
    """x → (train, input), y_test → (test, label), val_images → (validation, input); other names are passed over."""
    found: dict[tuple[PartName, Role], str] = {}
    for key in keys:
        words = re.split(r"[_\W]+", key.lower())
        roles = [ROLE_OF_WORD[word] for word in words if word in ROLE_OF_WORD]
        if len(roles) == 1 and all(word in ROLE_OF_WORD or word in PART_OF_WORD for word in words):
            place = (part_of(words), roles[0])
            if place in found:
                rule = f"{path.name} must hold each thing once"
                raise InputError(rule, got=f"{found[place]} and {key}", fix="remove one of the two")
            found[place] = key
    return found


def class_names(path: Path, bundle: Bundle) -> tuple[str, ...] | None:
    """In the order of the numbers that stand for them, if the bundle holds them."""
    key = next((key for key in bundle.files if key.lower() in CLASS_NAMES), None)
    if key is None:
        return None
    names = bundle[key]
    if names.ndim != 1 or names.dtype.kind not in "US" or len(set(names.tolist())) < len(names):
        raise InputError(f"{key} of {path.name} must hold a different name for each class", got=describe_array(names))
    return tuple(names.astype(str).tolist())


def read_part(
    path: Path,
    bundle: Bundle,
    keys: Mapping[tuple[PartName, Role], str],
    part: PartName,
    names: tuple[str, ...] | None = None,
) -> LabelledInputs:
    key, label_key = keys[part, "input"], keys.get((part, "label"))
    if label_key is None:
        raise InputError(f"{path.name} must hold the labels of {key}", got=listed(bundle.files))
    inputs = as_inputs(bundle[key], key, path.name)
    return labelled_inputs(inputs, bundle[label_key], (key, label_key), path.name, names)
