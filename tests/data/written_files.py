"""Files as users have them, written by other means than ours."""

import gzip
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from neuropil.errors import InputError

IDX_CODES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


def idx_bytes(array: np.ndarray) -> bytes:
    """As http://yann.lecun.com/exdb/mnist describes it."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, IDX_CODES[array.dtype.name], array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx(path: Path, array: np.ndarray, *, packed: bool = False) -> Path:
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return path


def write_mnist(folder: Path, part: str, images: np.ndarray, labels: Sequence[int], *, packed: bool = False) -> Path:
    end = "ubyte.gz" if packed else "ubyte"
    write_idx(folder / f"{part}-labels-idx1-{end}", np.array(labels, dtype=np.uint8), packed=packed)
    return write_idx(folder / f"{part}-images-idx3-{end}", images, packed=packed)


def write_images(root: Path, classes: Mapping[str, Sequence[np.ndarray]], suffix: str = ".png") -> Path:
    for name, images in classes.items():
        (root / name).mkdir(parents=True)
        for index, pixels in enumerate(images):
            Image.fromarray(pixels).save(root / name / f"{index}{suffix}")
    return root


def write_text(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def refusal(function: Callable[..., object], *arguments: object) -> str:
    """The sentence with which a call is refused."""
    with pytest.raises(InputError) as caught:
        function(*arguments)
    return str(caught.value)
