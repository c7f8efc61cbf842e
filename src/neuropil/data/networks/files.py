"""A spiking network from a TOML file, as plain data that is checked: what was given, and what was expected, by the name of its key.

[groups.excitatory]                  neurons; their names are yours
size = 400

[groups.input]                       a source: cells that fire at random
size = 100
rate = 15.0

[[connections]]
from = "excitatory"
to = "excitatory"
weight = 0.1
probability = 0.1

[[poisson]]                          random spikes from outside, for each neuron its own
to = "excitatory"
rate = 1000.0
weight = 0.1

[[currents]]                         an input that stays as it is
to = "excitatory"
amount = 1.2

[[probes]]                           neurons whose voltages are watched
group = "excitatory"
neurons = [0, 1, 2]
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from neuropil.errors import InputError, did_you_mean, listed

Kind = Literal[
    "number", "whole number", "name of a group", "list of whole numbers", "number or [lowest, highest]", "table"
]


@dataclass(frozen=True)
class Key:
    """What a key may hold: its kind, whether it must be there, and its bounds."""

    kind: Kind = "number"
    needed: bool = False
    above: float | None = None
    low: float | None = None
    high: float | None = None


NEURONS = {
    "tau_m": Key(above=0),
    "tau_ref": Key(low=0),
    "rest": Key(),
    "threshold": Key(),
    "reset": Key(),
    "start": Key("number or [lowest, highest]"),
}
SIZE = {"size": Key("whole number", needed=True, low=1)}
SOURCE = {"rate": Key(low=0)}
LEARNING = {
    "potentiation": Key(low=0),
    "depression": Key(low=0),
    "tau_plus": Key(above=0),
    "tau_minus": Key(above=0),
    "low": Key(),
    "high": Key(),
}
LISTS: Mapping[str, Mapping[str, Key]] = {
    "connections": {
        "from": Key("name of a group", needed=True),
        "to": Key("name of a group", needed=True),
        "weight": Key(needed=True),
        "probability": Key(low=0, high=1),
        "fan_in": Key("whole number", low=0),
        "delay": Key(low=0),
        "tau": Key(above=0),
        "stdp": Key("table"),
    },
    "poisson": {
        "to": Key("name of a group", needed=True),
        "rate": Key(needed=True, low=0),
        "weight": Key(needed=True),
        "tau": Key(above=0),
    },
    "currents": {"to": Key("name of a group", needed=True), "amount": Key(needed=True)},
    "probes": {"group": Key("name of a group", needed=True), "neurons": Key("list of whole numbers", low=0)},
}
SECTIONS = ("groups", *LISTS)


@dataclass(frozen=True)
class NetworkFile:
    """`groups` by their names, and lists of tables; every table holds what the file says, and nothing that it does not say."""

    groups: Mapping[str, Mapping[str, Any]]
    connections: Sequence[Mapping[str, Any]]
    poisson: Sequence[Mapping[str, Any]]
    currents: Sequence[Mapping[str, Any]]
    probes: Sequence[Mapping[str, Any]]


def read_network(path: Path) -> NetworkFile:
    return parse_network(_text(path), path.name)


def parse_network(text: str, name: str) -> NetworkFile:
    """`name` is what errors call the text."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        problem = str(cause)[0].lower() + str(cause)[1:]
        raise InputError(f"{name} must be a TOML file", got=f"a mistake in it ({problem})") from cause
    for section in content:
        if section not in SECTIONS:
            raise InputError(
                f"{name} has the sections {listed(SECTIONS)}", got=repr(section), fix=did_you_mean(section, SECTIONS)
            )
    groups = _groups(content.get("groups"), name)
    lists = {section: _tables(content.get(section, []), section, keys, groups, name) for section, keys in LISTS.items()}
    return NetworkFile(groups, **lists)


def _text(path: Path) -> str:
    if not path.is_file():
        raise InputError(
            "a network is described by a TOML file",
            got=f"{str(path)!r}, which is none",
            fix="`neuropil show spiking_network` has an example",
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as cause:
        raise InputError(f"{path.name} must be text in UTF-8", got="other bytes", fix="save it as UTF-8") from cause


def _groups(content: Any, name: str) -> dict[str, dict[str, Any]]:
    if not isinstance(content, dict) or not content or not all(isinstance(group, dict) for group in content.values()):
        raise InputError(
            f"{name} must have a group of neurons",
            got=_described(content),
            fix="for instance [groups.excitatory] with size = 100",
        )
    for group, table in content.items():
        where = f"groups.{group}"
        _require_table(table, where, SIZE | (SOURCE if "rate" in table else NEURONS), content, name)
    if all("rate" in table for table in content.values()):
        raise InputError(f"{name} must have a group of neurons", got="only sources, which have a rate")
    return content


def _tables(
    content: Any, section: str, keys: Mapping[str, Key], groups: Mapping[str, Any], name: str
) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(table, dict) for table in content):
        raise InputError(
            f"{section} in {name} must be a list of tables",
            got=_described(content),
            fix=f"begin each with [[{section}]]",
        )
    for number, table in enumerate(content, 1):
        where = f"{section}[{number}]"
        _require_table(table, where, keys, groups, name)
        if "probability" in table and "fan_in" in table:
            raise InputError(
                f"{where} in {name} must have a probability or a fan_in", got="both", fix="remove one of them"
            )
        if "stdp" in table:
            _require_table(table["stdp"], f"{where}.stdp", LEARNING, groups, name)
    return content


def _require_table(
    table: Mapping[str, Any], where: str, keys: Mapping[str, Key], groups: Mapping[str, Any], name: str
) -> None:
    for key, value in table.items():
        if key not in keys:
            raise InputError(
                f"{where} in {name} has the keys {listed(list(keys))}", got=repr(key), fix=did_you_mean(key, keys)
            )
        _require_value(value, f"{where}.{key} in {name}", keys[key], groups)
    for key, rule in keys.items():
        if rule.needed and key not in table:
            raise InputError(
                f"{where} in {name} must have the key {key}",
                got=f"only {listed(list(table))}" if table else "an empty table",
            )


def _require_value(value: Any, where: str, key: Key, groups: Mapping[str, Any]) -> None:
    if key.kind == "name of a group":
        if value not in groups:
            fix = did_you_mean(value, groups) if isinstance(value, str) else None
            raise InputError(f"{where} must be a group, {listed(list(groups))}", got=_described(value), fix=fix)
        return
    if not _fits(value, key.kind):
        raise InputError(f"{where} must be a {key.kind}", got=_described(value))
    for number in value if isinstance(value, list) else [] if isinstance(value, dict) else [value]:
        if key.above is not None and not number > key.above:
            raise InputError(f"{where} must be above {key.above:g}", got=f"{number}")
        if key.low is not None and not number >= key.low:
            raise InputError(f"{where} must be at least {key.low:g}", got=f"{number}")
        if key.high is not None and not number <= key.high:
            raise InputError(f"{where} must be at most {key.high:g}", got=f"{number}")


def _fits(value: Any, kind: Kind) -> bool:
    if kind == "table":
        return isinstance(value, dict)
    if kind == "whole number":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "list of whole numbers":
        return isinstance(value, list) and all(_fits(item, "whole number") for item in value)
    if kind == "number or [lowest, highest]":
        return _fits(value, "number") or (
            isinstance(value, list) and len(value) == 2 and all(_fits(item, "number") for item in value)
        )
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def _described(value: Any) -> str:
    if value is None:
        return "none"
    return "a table" if isinstance(value, dict) else repr(value)
