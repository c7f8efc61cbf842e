"""The values of one column that Python holds: of a list, an array, a tensor or a Series, as numbers in an array or as a
list of texts, arrays, pictures or lists of texts."""

import hashlib
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from neuropil.data.formats.arrays import describe_array, unmasked
from neuropil.data.formats.columns import NumberTexts
from neuropil.data.formats.images import is_picture
from neuropil.errors import InputError

Values: TypeAlias = np.ndarray | list[Any]
"""Numbers, of which the first axis is that of the rows; or a list of texts, arrays, pictures or lists of texts."""


def values_of(column: Any, name: str) -> Values:
    if isinstance(column, Tensor):
        column = column.detach().cpu()
        column = (column.float() if column.is_floating_point() and column.element_size() < 4 else column).numpy()
    column = unmasked(column)
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if isinstance(column, np.ndarray) and kind in "biuf":
        return column
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise InputError(f"column {name!r} must hold numbers, or a text in each row", got=describe_array(column))
    if type(column).__module__.startswith("pandas"):  # which has many ways to say that there is no value
        series: Any = column
        none = series.isna()
        if kind and kind in "biuf" and not none.any():
            return series.to_numpy(dtype=series.dtype.name.replace("boolean", "bool").lower())
        column = [None if gone else value for gone, value in zip(none, series.tolist(), strict=True)]
    items = [_plain(value, name) for value in column]
    if any(isinstance(item, np.ndarray) for item in items):
        items = [np.zeros(0) if isinstance(item, list) and not item else item for item in items]
    return _values_of_items(items, name)


def _plain(value: Any, name: str) -> Any:
    """A scalar of NumPy or torch as Python's own, a tensor or a list of numbers as an array, also one of polars, no
    value as None."""
    value = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    value = value.to_list() if type(value).__module__.startswith("polars") else value
    if isinstance(value, list | tuple) and value and are_numbers(value):
        return _numbers(value, name)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if isinstance(value, float) and np.isnan(value) else value


def are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float | np.number) for value in values)


def _numbers(values: Sequence[Any], name: str) -> np.ndarray:
    """Whole numbers of more than 64 bits, which Python and JSON know, are rounded to floats, as in a file."""
    try:
        array = np.array(values)
        return array.astype(np.float64) if array.dtype == object else array
    except OverflowError as cause:
        largest = f"{np.finfo(np.float64).max:.2g}"
        raise InputError(f"column {name!r} must hold numbers of at most {largest}", got="a larger one") from cause


def _values_of_items(values: list[Any], name: str) -> Values:
    there = [value for value in values if value is not None]
    types, whole = {*map(type, there)}, len(there) == len(values)
    if whole and (types == {bool} or (bool not in types and types <= {int, float})):
        return _numbers(values, name)
    if types and types <= {int, float}:
        return _numbers([np.nan if value is None else value for value in values], name)
    if all(isinstance(value, str | int | float | date) for value in there):
        return ["" if value is None else str(value) for value in values]
    alike = all(isinstance(value, np.ndarray) for value in there) or all(map(is_picture, there))
    if whole and alike:
        return values
    lists = all(isinstance(value, list | tuple) and all(isinstance(each, str) for each in value) for value in there)
    if whole and lists:
        return [[*value] for value in values]
    rule = f"column {name!r} must hold numbers, texts, pictures, arrays or lists of texts alone"
    if alike or lists:
        gap = next(row for row, value in enumerate(values) if value is None)
        raise InputError(rule, got=f"nothing in row {gap:,}")
    odd = next(value for value in there if not isinstance(value, str | int | float | date))
    raise InputError(rule, got=f"a {type(odd).__name__}")


def holds_cells(values: Values) -> bool:
    """A number or a text in each row."""
    return values.ndim == 1 if isinstance(values, np.ndarray) else isinstance(values[0], str)


def holds_lists_of_numbers(values: Values) -> bool:
    """In each row, of whatever length."""
    if isinstance(values, np.ndarray):
        return values.ndim == 2
    return all(isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "biuf" for row in values)


def rows_of_one_length(values: Values, column: str) -> Shaped[np.ndarray, "row number"]:
    """Lists of numbers, side by side."""
    odd = next((row for row, value in enumerate(values) if len(value) != len(values[0])), None)
    if odd is not None:
        got = f"{len(values[0]):,} in row 0 and {len(values[odd]):,} in row {odd:,}"
        raise InputError(f"{column} must hold as many numbers in each row", got=got)
    return values if isinstance(values, np.ndarray) else np.stack(values)


def cell_texts(values: Values, name: str, where: str) -> Sequence[str]:
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return [*map(str, values.tolist())] if values.dtype == bool else NumberTexts(values)
    if isinstance(values, list) and holds_cells(values):
        return values
    got = describe_array(values) if isinstance(values, np.ndarray) else _type_of(values)
    raise InputError(f"column {name!r} of {where} must hold a number or a text in each row", got=got)


def record(values: Values) -> dict[str, Any]:
    """The shape, the type and a fingerprint, which changes with any value."""
    digest = hashlib.sha256()
    for item in [values] if isinstance(values, np.ndarray) else values:
        array = np.ascontiguousarray(item) if isinstance(item, np.ndarray) or is_picture(item) else None
        content = repr(item).encode("utf-8", "backslashreplace") if array is None else array.view(np.uint8).data
        digest.update(f"{'' if array is None else array.shape} {len(content)} ".encode())
        digest.update(content)
    shape = values.shape if isinstance(values, np.ndarray) else (len(values),)
    return {"shape": [*shape], "type": _type_of(values), "fingerprint": digest.hexdigest()[:16]}


def _type_of(values: Values) -> str:
    if isinstance(values, np.ndarray):
        return values.dtype.name
    first = values[0]
    if isinstance(first, str):
        return "text"
    return (
        f"{first.dtype.name} arrays" if isinstance(first, np.ndarray) else "pictures" if is_picture(first) else "lists"
    )
