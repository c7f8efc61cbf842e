"""JSON Lines: an object on each line; an empty line is an empty object."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from neuropil.data.formats.lines import read_lines
from neuropil.errors import InputError

NUMBER = "a number"
JSON_TYPES = {dict: "an object", list: "a list", str: "a text", int: NUMBER, float: NUMBER, bool: "a truth value"}


def read_objects(path: Path, *, progress: bool = True) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The number of each line and its object, lazily."""
    for number, line in enumerate(read_lines(path, progress=progress), 1):
        yield number, _parsed(line, number, path.name) if line.strip() else {}


def text_in(found: Mapping[str, Any], name: str, number: int, file: str) -> str:
    """Of an empty line or a null, the empty text."""
    value = found.get(name, "" if not found else Ellipsis)
    if value is None or isinstance(value, str):
        return value or ""
    got = "nothing" if value is Ellipsis else JSON_TYPES[type(value)]
    raise InputError(f"each line of {file} must have a text under {name!r}", got=f"{got} in line {number:,}")


def _parsed(line: str, number: int, file: str) -> Mapping[str, Any]:
    rule = f"each line of {file} must be a JSON object"
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as cause:
        raise InputError(rule, got=f"something else in line {number:,}") from cause
    if not isinstance(found, dict):
        raise InputError(rule, got=f"{JSON_TYPES.get(type(found), 'null')} in line {number:,}")
    if "\\u" in line:
        # JSON can spell half of a surrogate pair, which is no character and cannot be written as UTF-8.
        try:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as cause:
            got = f"half a surrogate pair in line {number:,}"
            raise InputError(f"{file} must hold whole characters", got=got) from cause
    return found
