"""Data that Python holds, in a file for another process: the arrays as they are, all else as JSON beside them. Nothing
in it is pickled. Columns that could not be read are left out."""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuropil.data.formats.images import is_picture
from neuropil.data.formats.memory import InMemory
from neuropil.data.formats.npz import Bundle, open_npz
from neuropil.data.formats.values import Values
from neuropil.files import replacing

ABOUT = "about"


def write_memory(path: Path, data: InMemory) -> None:
    arrays: dict[str, Any] = {}
    about = json.dumps(_about(data, "", arrays)).encode()
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **{ABOUT: np.frombuffer(about, np.uint8)}, **arrays)


def read_memory(path: Path) -> InMemory:
    with open_npz(path) as arrays:
        return _memory(json.loads(arrays[ABOUT].tobytes()), arrays)


def _about(data: InMemory, place: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What is not an array; `arrays` gets the others, by names that begin with `place`."""
    columns = {}
    for number, (name, values) in enumerate(data.columns.items()):
        columns[name] = _column(values, f"{place}{number}", arrays)
    parts = {name: _about(part, f"{place}{name} ", arrays) for name, part in data.parts.items()}
    own = {"kind": data.kind, "name": data.name, "answer": data.answer, "answers": data.answers}
    own |= {"unnamed": data.unnamed}
    return own | {"dates": data.dates, "weight": data.weight, "columns": columns, "parts": parts}


def _column(values: Values, place: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if isinstance(values, np.ndarray):
        arrays[place] = values
        return {"array": place}
    if not isinstance(values[0], np.ndarray) and not is_picture(values[0]):
        return {"items": values}
    kind = "arrays" if isinstance(values[0], np.ndarray) else "pictures"
    for row, value in enumerate(values):
        arrays[f"{place} {row}"] = value if kind == "arrays" else _encoded(value)
    return {kind: place, "rows": len(values)}


def _encoded(picture: Any) -> np.ndarray:
    file = io.BytesIO()
    picture.save(file, "TIFF")  # which has the modes of a picture, and loses nothing
    return np.frombuffer(file.getvalue(), np.uint8)


def _memory(about: Mapping[str, Any], arrays: Bundle) -> InMemory:
    parts: Any = {name: _memory(part, arrays) for name, part in about["parts"].items()}
    columns = {name: _values(each, arrays) for name, each in about["columns"].items()}
    own = {"weight": about["weight"], "answers": about["answers"], "unnamed": about.get("unnamed", False)}
    data = InMemory(about["kind"], columns, about["answer"], about["dates"], parts=parts, **own)
    data.name = about["name"]
    return data


def _values(column: Mapping[str, Any], arrays: Bundle) -> Values:
    if "array" in column:
        return arrays[column["array"]]
    if "items" in column:
        return column["items"]
    kind = "arrays" if "arrays" in column else "pictures"
    rows = (arrays[f"{column[kind]} {row}"] for row in range(column["rows"]))
    return [*rows] if kind == "arrays" else [*_pictures(rows)]


def _pictures(rows: Iterator[np.ndarray]) -> Iterator[Any]:
    from PIL import Image

    for row in rows:
        picture = Image.open(io.BytesIO(row.tobytes()))
        picture.load()
        yield picture
