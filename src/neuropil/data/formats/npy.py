"""NPY, NumPy's file of one array: a header that says the type and the shape, then the values.

The header may say anything. No memory is asked for before the bytes behind it are as many as it says, and before they
are known to fit; Python objects, which NumPy keeps as pickles, are never read.
"""

import io
import math

import numpy as np
from jaxtyping import Shaped

from neuropil.errors import InputError
from neuropil.memory import require_room

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""By the version of the file. The third is for names of fields in Unicode, and these arrays have no fields."""
MOST_AXES, LONGEST_AXIS = 32, 1 << 40
AT_ONCE = 1 << 20
"""Bytes."""
LAST_CHARACTER, SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)


class DamagedArrayError(Exception):
    """The bytes are no whole array of numbers or text."""


class ObjectArrayError(Exception):
    """The array holds Python objects."""


def read_npy(file: io.BufferedIOBase, size: int, what: str) -> Shaped[np.ndarray, "..."]:
    """An array from a file of `size` bytes, of which nothing has been read yet; `what` is what errors call it."""
    shape, columns_first, dtype = _header(file)
    if dtype.hasobject:
        raise ObjectArrayError
    count = math.prod(shape)
    if dtype.kind not in "biufcSU" or dtype.itemsize == 0 or len(shape) > MOST_AXES:
        raise DamagedArrayError
    if not all(0 <= length <= LONGEST_AXIS for length in shape):  # also of an array of no values, which has no bytes
        raise DamagedArrayError
    if file.tell() + count * dtype.itemsize != size:
        raise DamagedArrayError
    require_room(what, count * dtype.itemsize)
    content = _content(file, count * dtype.itemsize)
    array = np.frombuffer(content, dtype)
    if dtype.kind == "U":
        _require_characters(array, what)
    return array.reshape(shape[::-1]).T if columns_first else array.reshape(shape)


def _header(file: io.BufferedIOBase) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        return HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as cause:  # NumPy has Python's own parser read it, which raises whatever it does
        raise DamagedArrayError from cause


def _content(file: io.BufferedIOBase, size: int) -> bytearray:
    """All of it, and nothing behind it; an archive checks its sum at the end."""
    content, place = bytearray(size), 0
    view = memoryview(content)
    while block := file.read(AT_ONCE):
        view[place : place + len(block)] = block  # a wrong length is refused
        place += len(block)
    if place != size:
        raise DamagedArrayError
    return content


def _require_characters(array: Shaped[np.ndarray, "..."], what: str) -> None:
    codes = array.astype(array.dtype.newbyteorder("=")).view(np.uint32)
    if ((codes > LAST_CHARACTER) | ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1]))).any():
        raise InputError(f"{what} must hold text", got="numbers that are no characters")
