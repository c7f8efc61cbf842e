"""Pairs of texts in JSON Lines: each line an object that holds two texts, or that holds such an object under "translation"."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from neuropil.data.formats.lines import read_lines
from neuropil.data.pairs.columns import FoundPairs, Names, Row, choose_columns
from neuropil.errors import InputError

NESTED = "translation"
JSON_TYPES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a truth value",
}


def find_objects(path: Path, wanted: Names) -> FoundPairs:
    """The first line tells the names: it must have no more than two texts, unless the user says which are meant."""
    objects = _objects(path)
    first = next(objects, None)
    if first is None or not first[1]:
        raise InputError(
            f"{path.name} must hold pairs of texts", got="an empty file" if first is None else "an empty first line"
        )
    names = [name for name, value in first[1].items() if isinstance(value, str)]
    if len(names) < 2:
        raise InputError(f"each line of {path.name} must hold two texts", got=f"{len(names) or 'none'} in the first")
    source, target = choose_columns(names, wanted, path.name) or (0, 1)
    named = "" if all(wanted) else f"The texts of {path.name} have names"
    return FoundPairs(
        _texts(chain([first], objects), names[source], names[target], path.name), named, (names[source], names[target])
    )


def _texts(objects: Iterable[tuple[int, Mapping[str, Any]]], source: str, target: str, file: str) -> Iterator[Row]:
    for number, found in objects:
        yield number, _text(found, source, number, file), _text(found, target, number, file)


def _text(found: Mapping[str, Any], name: str, number: int, file: str) -> str:
    """Of an empty line or a null, the empty text."""
    value = found.get(name, "" if not found else Ellipsis)
    if value is None or isinstance(value, str):
        return value or ""
    got = "nothing" if value is Ellipsis else JSON_TYPES[type(value)]
    raise InputError(f"each line of {file} must have a text under {name!r}", got=f"{got} in line {number:,}")


def _objects(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """An empty line is an empty object."""
    for number, line in enumerate(read_lines(path, progress=True), 1):
        if line.strip():
            found = _parsed(line, number, path.name)
            nested = found.get(NESTED)
            yield number, nested if isinstance(nested, dict) else found
        else:
            yield number, {}


def _parsed(line: str, number: int, file: str) -> Mapping[str, Any]:
    rule = f"each line of {file} must be a JSON object"
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as cause:
        raise InputError(rule, got=f"something else in line {number:,}") from cause
    if not isinstance(found, dict):
        raise InputError(rule, got=f"{JSON_TYPES.get(type(found), 'null')} in line {number:,}")
    if "\\u" in line:
        _require_characters(found, number, file)
    return found


def _require_characters(found: Mapping[str, Any], number: int, file: str) -> None:
    """JSON can spell half of a surrogate pair, which is no character and cannot be written as UTF-8."""
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as cause:
        raise InputError(
            f"{file} must hold whole characters", got=f"half a surrogate pair in line {number:,}"
        ) from cause
