"""Arrays as people hold them: pictures of any usual layout and range become bytes, everything else rows of numbers.

Pictures have the axes (image, row, column), with channels last or second, or are a single one; their values are 0 to
255, or fractions of that from 0 to 1. Rows stay in double precision: what is subtracted from them comes before float32.
"""

from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped, UInt8
from torch import Tensor

from neuropil.data.formats.columns import SINGLE_PRECISION
from neuropil.errors import InputError

Array = Shaped[np.ndarray, "..."]
CHANNELS = (1, 3, 4)
INPUTS = "inputs must be an array, a tensor, pictures or paths of files"


def as_array(values: Any) -> Array:
    """A tensor of any device, a list of numbers, or what else NumPy takes for an array."""
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(unmasked(values))
    except (TypeError, ValueError) as cause:  # a list of lists of different lengths
        raise InputError(INPUTS, got=f"a {type(values).__name__} that is no array ({cause})") from cause
    if array.dtype.kind == "O":
        raise InputError(INPUTS, got=f"a {type(values).__name__} without numbers" if values is not None else "None")
    return array


def as_writable(array: Array) -> Array:
    """Contiguous; a copy only where it must be: PyTorch warns of memory that it must not write to."""
    return np.require(array, requirements=["C", "W"])


def unmasked(values: Any) -> Any:
    """A masked array of NumPy with NaN for what is masked."""
    if not isinstance(values, np.ma.MaskedArray) or values.dtype.kind not in "biuf":
        return values
    return np.ma.filled(values.astype(np.float64), np.nan) if np.ma.is_masked(values) else values.data


def describe_array(array: Array) -> str:
    size = f"{'×'.join(map(str, array.shape))} values" if array.ndim else "a single value"
    return f"{size} of type {array.dtype.name}"


def feature_rows(array: Array, what: str) -> Float64[np.ndarray, "example feature"]:
    """NaN stands for a missing value."""
    require_numbers(array, what, gaps=True)
    return array.reshape(len(array), -1).astype(np.float64)


def picture_bytes(array: Array, what: str) -> UInt8[np.ndarray, "image channel height width"]:
    """Of an array with an axis for the images."""
    require_numbers(array, what)
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[-1] in CHANNELS:
        array = np.moveaxis(array, -1, 1)
    elif array.shape[1] not in CHANNELS:
        rule = f"{what} must be images of 1, 3 or 4 channels, last or second of its axes"
        raise InputError(rule, got=describe_array(array))
    return as_writable(as_bytes(array, what))


def pictures_of_shape(
    array: Array, shape: tuple[int, ...], what: str
) -> UInt8[np.ndarray, "image channel height width"]:
    """For a model that knows the shape of one picture; a single one, and grey ones without channels, will do."""
    require_numbers(array, what)
    channels, height, width = shape

    def holds(sizes: tuple[int, ...]) -> bool:
        return array.shape in (sizes, (*array.shape[:1], *sizes))

    if holds(shape) or (channels == 1 and holds((height, width))):
        pictures = array.reshape(-1, *shape)
    elif holds((height, width, channels)):
        pictures = np.moveaxis(array.reshape(-1, height, width, channels), -1, 1)
    else:
        rule = f"{what} must have the shape (example, {', '.join(map(str, shape))})"
        raise InputError(rule, got=describe_array(array))
    return as_writable(as_bytes(pictures, what))


def require_numbers(array: Array, what: str, *, gaps: bool = False) -> None:
    """Finite, also as float32; with `gaps`, NaN will do."""
    if array.dtype.kind not in "biuf" or not 1 <= array.ndim <= 4 or array.size == 0:
        raise InputError(f"{what} must be images or rows of features", got=describe_array(array))
    require_finite(array, what, gaps=gaps)


def require_finite(array: Array, what: str, *, gaps: bool = False) -> None:
    if array.dtype.kind == "f":
        good = (np.abs(array) <= np.finfo(np.float32).max) | (gaps & np.isnan(array))
        if not good.all():
            index = tuple(map(int, np.unravel_index(np.argmin(good), array.shape)))
            numbers = f"numbers {SINGLE_PRECISION}" if np.isfinite(array[index]) else "finite numbers"
            raise InputError(
                f"{what} must be {numbers}", got=f"{array[index]} at {list(index)}", fix="fill it in or remove its row"
            )


def as_bytes(array: Array, what: str) -> UInt8[np.ndarray, "..."]:
    if array.dtype == np.uint8:
        return array
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 255:
        rule = f"{what} must be images with values 0 to 255, or 0 to 1"
        fix = "undo their standardisation, which is part of the model" if low < 0 else "scale them"
        raise InputError(rule, got=f"{low:g} to {high:g}", fix=fix)
    fractions = array.dtype.kind in "bf" and high <= 1
    return np.round(array * 255.0 if fractions else array).astype(np.uint8)
