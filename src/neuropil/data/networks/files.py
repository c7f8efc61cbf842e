"""A spiking network from a TOML file, as tables that are checked against its keys: a mistake is named with the key,
what was given and what was expected. `neuropil show spiking_network` has an example and all keys."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuropil.data.networks.keys import Keys, NetworkKeys, described, require_value
from neuropil.errors import InputError, did_you_mean, listed

EMBEDDED = Path(__file__).with_name("embedded.toml")
"""Four of five neurons excite, one inhibits."""


@dataclass(frozen=True)
class NetworkTables:
    """`groups` by their names, and lists of tables; every table holds what the file says, and nothing else."""

    groups: Mapping[str, Mapping[str, Any]]
    lists: Mapping[str, Sequence[Mapping[str, Any]]]


def read_network(path: Path, keys: NetworkKeys) -> NetworkTables:
    if not path.is_file():
        fix = "`neuropil show spiking_network` has an example"
        raise InputError("a network is described by a TOML file", got=f"{str(path)!r}, which is none", fix=fix)
    try:
        return parse_network(path.read_text(encoding="utf-8"), path.name, keys)
    except UnicodeDecodeError as cause:
        raise InputError(f"{path.name} must be text in UTF-8", got="other bytes", fix="save it as UTF-8") from cause


def parse_network(text: str, name: str, keys: NetworkKeys) -> NetworkTables:
    """`name` is what errors call the text."""
    try:
        content = tomllib.loads(text)
    except RecursionError as cause:
        raise InputError(f"{name} must be a TOML file", got="brackets in brackets without end") from cause
    except ValueError as cause:  # of TOML, or of Python about a number of thousands of digits
        problem = str(cause)[0].lower() + str(cause)[1:]
        raise InputError(f"{name} must be a TOML file", got=f"a mistake in it ({problem})") from cause
    sections = ("groups", *keys.lists)
    for section in content:
        if section not in sections:
            fix = did_you_mean(section, sections)
            raise InputError(f"{name} has the sections {listed(sections)}", got=repr(section), fix=fix)
    groups = _groups(content.get("groups"), name, keys)
    lists = {section: content.get(section, []) for section in keys.lists}
    return NetworkTables(groups, {section: _tables(lists[section], section, keys, groups, name) for section in lists})


def is_source(group: Mapping[str, Any]) -> bool:
    return "rate" in group


def _groups(content: Any, name: str, keys: NetworkKeys) -> dict[str, dict[str, Any]]:
    if not isinstance(content, dict) or not content or not all(isinstance(group, dict) for group in content.values()):
        fix = "for instance [groups.excitatory] with size = 100"
        raise InputError(f"{name} must have a group of neurons", got=described(content), fix=fix)
    for group, table in content.items():
        _require_table(table, f"groups.{group}", keys.sources if is_source(table) else keys.neurons, content, name)
    if all(map(is_source, content.values())):
        raise InputError(f"{name} must have a group of neurons", got="only sources, which have a rate")
    return content


def _tables(
    content: Any, section: str, keys: NetworkKeys, groups: Mapping[str, Any], name: str
) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(table, dict) for table in content):
        fix = f"begin each with [[{section}]]"
        raise InputError(f"{section} in {name} must be a list of tables", got=described(content), fix=fix)
    for number, table in enumerate(content, 1):
        where = f"{section}[{number}]"
        _require_table(table, where, keys.lists[section], groups, name)
        if "probability" in table and "fan_in" in table:
            rule = f"{where} in {name} must have a probability or a fan_in"
            raise InputError(rule, got="both", fix="remove one of them")
    return content


def _require_table(table: Mapping[str, Any], where: str, keys: Keys, groups: Mapping[str, Any], name: str) -> None:
    for key, value in table.items():
        if key not in keys:
            rule = f"{where} in {name} has the keys {listed(list(keys))}"
            raise InputError(rule, got=repr(key), fix=did_you_mean(key, keys))
        require_value(value, f"{where}.{key} in {name}", keys[key], groups)
        if keys[key].kind == "table":
            _require_table(value, f"{where}.{key}", keys[key].keys, groups, name)
    for key, rule in keys.items():
        if rule.needed and key not in table:
            got = f"only {listed(list(table))}" if table else "an empty table"
            raise InputError(f"{where} in {name} must have the key {key}", got=got)
