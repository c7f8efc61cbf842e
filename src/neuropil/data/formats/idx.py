"""IDX, the format of MNIST: two zero bytes, a type, the number of axes, their lengths as 32-bit integers, then the
values.

All integers are big-endian. Images have the axes (image, row, column) or (image, row, column, channel), labels have one
axis.
"""

import math
import re
import struct
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Shaped, UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Inputs, LabelledInputs, LabelledParts, Labels
from neuropil.data.formats.arrays import describe_array
from neuropil.data.formats.paths import opened
from neuropil.data.splits import PartName, last_part, part_of
from neuropil.errors import InputError, counted

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
AT_ONCE = 1 << 20
"""Bytes."""
NAME = re.compile(r"(idx\d|ubyte)(\.gz)?$", re.IGNORECASE)


def is_idx_name(path: Path) -> bool:
    return NAME.search(path.name) is not None


def is_idx(path: Path) -> bool:
    """By its name or by how it begins."""
    if is_idx_name(path):
        return True
    with opened(path) as file:
        return is_header(file.read(4))


def is_header(head: bytes) -> bool:
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in TYPES and 1 <= head[3] <= 4


def read_idx(path: Path) -> LabelledParts:
    """A file of images with its labels beside it, or a folder of such pairs, with t10k-… or test-… as the test part."""
    return LabelledParts({part: read_pair(file) for part, file in files_by_part(path).items()})


def read_idx_inputs(path: Path) -> Inputs:
    """Images alone; of a folder, those of its test part."""
    files = files_by_part(path)
    file = files[last_part(files)]
    return Inputs(read_images(file), lambda index: f"{file.name}[{index}]")


def files_by_part(path: Path) -> dict[PartName, Path]:
    if path.is_file():
        return {"train": path}
    found: dict[PartName, Path] = {}
    for file in images_in(path):
        part = part_of(re.split(r"[-_.]", file.name.lower()))
        if part in found:
            rule = f"the folder {path.name} must hold one IDX file of images for each part"
            raise InputError(rule, got=f"{found[part].name} and {file.name}", fix="give the file that you want")
        found[part] = file
    if not found:
        rule = f"the folder {path.name} must hold IDX images"
        raise InputError(rule, got="labels only", fix="add train-images-idx3-ubyte")
    return found


def images_in(folder: Path) -> list[Path]:
    """The IDX files that are not labels; of a file that is there both packed and unpacked, the unpacked one."""
    named = (file for file in sorted(folder.iterdir()) if is_idx_name(file) and "label" not in file.name.lower())
    files = [file for file in named if file.is_file()]
    return [file for file in files if file.suffix != ".gz" or file.with_suffix("") not in files]


def read_pair(path: Path) -> LabelledInputs:
    inputs, labels_path = read_idx_inputs(path), labels_beside(path)
    labels = read_array(labels_path)
    if labels.ndim != 1 or labels.dtype.kind == "f":
        raise InputError(f"{labels_path.name} must hold labels: one axis of whole numbers", got=describe_array(labels))
    if len(labels) != len(inputs):
        rule = f"{path.name} and {labels_path.name} must belong together"
        raise InputError(rule, got=f"{counted(len(inputs), 'image')} and {counted(len(labels), 'label')}")
    return LabelledInputs(inputs, Labels(labels.astype(np.int64)))


def has_labels(images: Path) -> bool:
    return any(path.is_file() for path in label_paths(images))


def label_paths(images: Path) -> list[Path]:
    """train-images-idx3-ubyte.gz → train-labels-idx1-ubyte.gz, in any of the spellings in use."""
    plain = images.name.removesuffix(".gz").replace("images", "labels").replace("image", "label")
    plain = re.sub(r"idx[34]", "idx1", plain)
    names = (plain + ".gz", plain) if images.suffix == ".gz" else (plain, plain + ".gz")
    return [images.parent / name for name in names if name != images.name]


def labels_beside(images: Path) -> Path:
    paths = label_paths(images)
    for path in paths:
        if path.is_file():
            return path
    rule = f"the labels of {images.name} must stand beside it"
    got = f"no file {min(path.name for path in paths)}" if len(paths) > 1 else "no such file"
    fix = "name the two files as MNIST does, train-images-idx3-ubyte and train-labels-idx1-ubyte"
    raise InputError(rule, got=got, fix=fix)


def read_images(path: Path) -> UInt8[Tensor, "image channel height width"]:
    array = read_array(path)
    if array.ndim not in (3, 4) or array.dtype != np.uint8:
        fix = "give the file of images; its labels are found beside it" if array.ndim == 1 else None
        raise InputError(f"{path.name} must hold images: bytes on 3 or 4 axes", got=describe_array(array), fix=fix)
    if array.size == 0:
        raise InputError(f"{path.name} must hold at least one image", got=describe_array(array))
    if array.ndim == 3:
        array = array[..., None]
    return torch.from_numpy(rearrange(array, "image height width channel -> image channel height width").copy())


def read_array(path: Path) -> Shaped[np.ndarray, "..."]:
    """No more is unpacked than the header says, and a little at a time: it may say anything."""
    with opened(path) as file:
        head = file.read(4)
        if not is_header(head):
            rule = f"{path.name} must begin as an IDX file does, with two zero bytes, a type and the number of axes"
            raise InputError(rule, got=f"the bytes {head.hex(' ')}" if head else "an empty file")
        num_axes = head[3]
        start, lengths = 4 + 4 * num_axes, file.read(4 * num_axes)
        if len(lengths) < 4 * num_axes:
            rule = f"{path.name} must hold a whole IDX header of {start} bytes"
            raise InputError(rule, got=f"{4 + len(lengths)}", fix="copy or download it again")
        shape, dtype = struct.unpack(f">{num_axes}I", lengths), np.dtype(TYPES[head[2]])
        expected, content = math.prod(shape) * dtype.itemsize, bytearray()
        while block := file.read(min(AT_ONCE, expected + 1 - len(content))):
            content += block
    values = "×".join(map(str, shape))
    if len(content) != expected:
        rule = f"{path.name} must be {start + expected:,} bytes long for {values} values, as its header says"
        got = "more" if len(content) > expected else f"{start + len(content):,}"
        raise InputError(rule, got=got, fix="copy or download it again")
    if (
        math.prod(length for length in shape if length) * dtype.itemsize >= 1 << 63
    ):  # which an axis of none makes nothing
        raise InputError(f"{path.name} must have axes of ordinary lengths", got=values)
    return np.frombuffer(content, dtype).reshape(shape)
