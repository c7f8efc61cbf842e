"""Keys of the tables that describe a network, from annotated dataclasses: one line holds a key's type, bounds and help.

    @dataclass(frozen=True)
    class Projection:
        source: Annotated[str, Key("group that sends", name="from")]
        delay: Annotated[float, Key("synaptic delay (ms)", low=0)] = 0.0

Files are read and checked, and the keys are listed for people, from the same fields. A field of type `Config` is a
table within the table if it is a key; otherwise its options are keys of the table itself."""

import dataclasses
import operator
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from neuropil.config import Config
from neuropil.errors import InputError, did_you_mean, listed

Kind = Literal[
    "number", "whole number", "name of a group", "list of whole numbers", "number or [lowest, highest]", "table"
]


@dataclass(frozen=True)
class Key:
    """`name` in a file, if not that of the field; `kind`, `needed` and the `keys` of a table follow from the field."""

    help: str
    name: str = ""
    above: float | None = None
    low: float | None = None
    high: float | None = None
    fix: str | None = None
    kind: Kind = "number"
    needed: bool = False
    keys: Mapping[str, "Key"] = field(default_factory=dict)

    @property
    def bounds(self) -> list[tuple[str, float, Callable[[float, float], bool]]]:
        """In words, as numbers, and how each is kept."""
        words, bounds = ("above", "at least", "at most"), (self.above, self.low, self.high)
        every = zip(words, bounds, (operator.gt, operator.ge, operator.le), strict=True)
        return [(word, bound, is_kept) for word, bound, is_kept in every if bound is not None]

    @property
    def rule(self) -> str:
        """For instance "number, at least 0"."""
        return ", ".join([self.kind, *(f"{words} {bound:g}" for words, bound, _ in self.bounds)])


Keys: TypeAlias = Mapping[str, Key]


@dataclass(frozen=True)
class NetworkKeys:
    """Of groups of neurons, of sources, and of the tables of each list."""

    neurons: Keys
    sources: Keys
    lists: Mapping[str, Keys]

    @property
    def sections(self) -> dict[str, Keys]:
        """By their headings in a file."""
        groups = {"[groups.NAME], neurons": self.neurons, "[groups.NAME], a source": self.sources}
        return groups | {f"[[{section}]]": keys for section, keys in self.lists.items()}


@cache
def keys_of(owner: Any) -> Keys:
    found: dict[str, Key] = {}
    for each, key, kinds in _fields(owner):
        config = _config_in(kinds)
        keys = {} if config is None else keys_of(config)
        if key is None:
            found |= keys
        else:
            needed = each.default is MISSING
            found[key.name or each.name] = dataclasses.replace(key, kind=_kind(kinds), needed=needed, keys=keys)
    return found


def made(owner: Any, table: Mapping[str, Any], **known: Any) -> Any:
    """An instance of the class, as a checked table describes it."""
    for each, key, kinds in _fields(owner):
        config, value = _config_in(kinds), table.get(each.name if key is None else key.name or each.name)
        if key is None and config is not None:
            known[each.name] = config(**{name: table[name] for name in keys_of(config) if name in table})
        elif key is not None and value is not None:
            known[each.name] = config(**value) if config else tuple(value) if isinstance(value, list) else value
    return owner(**known)


def _fields(owner: Any) -> Iterator[tuple[dataclasses.Field[Any], Key | None, tuple[Any, ...]]]:
    """Every field with its key, if it is one, and the types that it may have."""
    hints = typing.get_type_hints(owner, include_extras=True)
    for each in dataclasses.fields(owner):
        hint, key = hints[each.name], Key(**each.metadata) if each.metadata else None
        if typing.get_origin(hint) is typing.Annotated:
            hint, key = typing.get_args(hint)
        yield each, key, typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _config_in(kinds: tuple[Any, ...]) -> Any:
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)), None)


def _kind(kinds: tuple[Any, ...]) -> Any:
    if _config_in(kinds) is not None:
        return "table"
    if tuple[float, float] in kinds:
        return "number or [lowest, highest]"
    names = {float: "number", int: "whole number", str: "name of a group", Sequence[int]: "list of whole numbers"}
    return names[kinds[0]]


def list_keys(sections: Mapping[str, Keys]) -> str:
    """The keys of each section, for people."""
    lines: list[str] = []
    for section, keys in sections.items():
        nested = {f"{name}.{inner}": own for name, each in keys.items() for inner, own in each.keys.items()}
        rows = [(name, each.rule + ", needed" * each.needed, each.help) for name, each in {**keys, **nested}.items()]
        lines += [f"    {section}", *(f"        {name:<18} {rule:<36} {help}" for name, rule, help in rows)]
    return "\n".join(lines)


def require_bounds(owner: str, instance: Any) -> None:
    """Of the keys that hold one number; `owner` is what errors call the instance."""
    for name, rule in keys_of(type(instance)).items():
        value = getattr(instance, name, None)
        if isinstance(value, int | float):
            require_value(value, f"the {name} of {owner}", rule)


def require_value(value: Any, where: str, key: Key, groups: Mapping[str, Any] | None = None) -> None:
    """`where` is what errors call the value; `groups` are those that there are."""
    if key.kind == "name of a group" and groups is not None:
        if value not in groups:
            fix = did_you_mean(value, groups) if isinstance(value, str) else None
            raise InputError(f"{where} must be a group, {listed(list(groups))}", got=described(value), fix=fix)
        return
    if not _fits(value, key.kind):
        raise InputError(f"{where} must be a {key.kind}", got=described(value))
    for number in value if isinstance(value, list) else [] if isinstance(value, dict) else [value]:
        for words, bound, is_kept in key.bounds:
            if not is_kept(number, bound):
                raise InputError(f"{where} must be {words} {bound:g}", got=f"{number}", fix=key.fix)


def _fits(value: Any, kind: Kind) -> bool:
    if kind == "table":
        return isinstance(value, dict)
    if kind == "whole number":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "list of whole numbers":
        return isinstance(value, list) and all(_fits(item, "whole number") for item in value)
    if kind == "number or [lowest, highest]" and isinstance(value, list):
        return len(value) == 2 and all(_fits(item, "number") for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def described(value: Any) -> str:
    if value is None:
        return "none"
    return "a table" if isinstance(value, dict) else repr(value)
