"""Options as frozen, checked data: one line holds an option's type, default, bounds and help.

    class CNNConfig(Config):
        width: int = option(32, "channels of the first stage", low=1, tune=times(1 / 2, 1, 2))
        classes: int = from_data(10, "how many classes to tell apart")

Every subclass is a frozen, keyword-only dataclass. The command line, `neuropil show`, the docs and `config.json` are
all made from the same fields. A field of type `Config` nests; `options` and `override` see through the nesting, so that
names are flat for the user: bare, or with the field's name before them where it is `nested`.
"""

import dataclasses
import functools
import operator
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, dataclass_transform

from neuropil.errors import InputError, nearest
from neuropil.ranges import Declared, Searched, searched


def option(
    default: Any,
    help: str,
    *,
    above: float | None = None,
    low: float | None = None,
    high: float | None = None,
    tune: Declared | None = None,
) -> Any:
    """A field that the user may set; `low` and `high` are the smallest and largest values allowed, `above` itself is
    not. `tune` is what `neuropil tune` searches by itself."""
    metadata = {"help": help, "above": above, "low": low, "high": high}
    return dataclasses.field(default=default, metadata=metadata if tune is None else metadata | {"tune": tune})


def from_data(default: Any, help: str) -> Any:
    """A field that follows from the data, such as the number of classes; it is saved, but is no command-line option."""
    return dataclasses.field(default=default, metadata={"help": help, "from_data": True})


def nested(default: "Config", help: str) -> Any:
    """A configuration whose options carry the field's name, as `--text-width` does: for one of several like it, which
    `help` names."""
    return dataclasses.field(default=default, metadata={"prefixed": True, "help": help})


class PythonValue(ABC):
    """What only Python can give an option, such as an array: the command line does not know of it, and `config.json`
    holds what it says of itself."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self: ...


@dataclass(frozen=True)
class Option:
    """One line of `--help`: what a user may set, wherever in the nesting it lives. Its type is that of a word on the
    command line; `in_python` says whether it may be a `PythonValue` too."""

    name: str
    type: Any
    default: Any
    help: str
    in_python: bool = False
    above: float | None = None
    low: float | None = None
    high: float | None = None
    tune: Searched | None = None
    """What `neuropil tune` searches, given the default."""
    group: str = ""
    """The outermost field that it lives in, where that is a configuration of its own, such as `model`."""

    def fits(self, value: Any) -> bool:
        """Whether it is of this option's type."""
        return _fits(value, self.type)

    def require(self, value: Any) -> None:
        """Whether this option may have this value, whatever the others are."""
        _require_type(self.name, value, self.type)
        _require_bounds(self.name, value, self.above, self.low, self.high)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Config:
    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for field, kind in self._typed_fields():
            value = getattr(self, field.name)
            _require_type(field.name, value, kind)
            _require_bounds(field.name, value, *(field.metadata.get(bound) for bound in ("above", "low", "high")))
        self.validate()

    def validate(self) -> None:
        """Subclasses check here what involves several fields."""

    def without_effect(self) -> dict[str, str]:
        """Subclasses say here which of their own options have no effect beside the others' values, and on what."""
        return {}

    def idle_options(self) -> dict[str, str]:
        """What has no effect, by its flat name, wherever in the nesting it lives, and on what."""
        found = self.without_effect()
        for field, _ in self._typed_fields():
            if isinstance(value := getattr(self, field.name), Config):
                found |= {_prefix(field) + name: what for name, what in value.idle_options().items()}
        return found

    def options(self) -> list[Option]:
        """Everything that a user may set, with this configuration's values as defaults."""
        found: list[Option] = []
        for field, kind in self._typed_fields():
            value = getattr(self, field.name)
            if isinstance(value, Config):
                owner = f"{field.metadata['help']}: " if _prefix(field) else ""
                found += [
                    dataclasses.replace(each, name=_prefix(field) + each.name, help=owner + each.help, group=field.name)
                    for each in value.options()
                ]
            elif not field.metadata.get("from_data"):
                help, spoken = field.metadata.get("help", ""), _spoken(kind)
                above, low, high = (field.metadata.get(bound) for bound in ("above", "low", "high"))
                tune = searched(field.metadata.get("tune"), value, low, high)
                found.append(Option(field.name, spoken, value, help, spoken != kind, above, low, high, tune))
        return found

    def override(self, /, **values: Any) -> Self:
        """A copy with other values, given by their flat names; a name that no nested configuration knows is refused.

        Lists may stand for tuples, text for paths, and one path or text for a tuple of them.
        """
        known = {option.name: option.type for option in self.options()}
        for name in values:
            if name not in known:
                rule = "an option must be one that `neuropil show` lists"
                raise InputError(rule, got=f"{name!r}", fix=nearest(name, known))
        return self._override({name: _from_json(value, known[name]) for name, value in values.items()})

    def _override(self, values: Mapping[str, Any]) -> Self:
        changes: dict[str, Any] = {}
        for field, _ in self._typed_fields():
            value = getattr(self, field.name)
            if isinstance(value, Config):
                prefix = _prefix(field)
                own = {name[len(prefix) :]: each for name, each in values.items() if name.startswith(prefix)}
                try:
                    changes[field.name] = value._override(own)
                except InputError as error:
                    raise InputError(prefix + error.rule, got=error.got, fix=error.fix) if prefix else error from None
            elif field.name in values and not field.metadata.get("from_data"):
                changes[field.name] = values[field.name]
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # every subclass is a dataclass

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, nested as the fields are."""
        return {field.name: _to_json(getattr(self, field.name)) for field, _ in self._typed_fields()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        fields = {field.name: kind for field, kind in cls._typed_fields()}
        for name in values:
            if name not in fields:
                rule = f"{cls.__name__} must hold only its own fields"
                raise InputError(rule, got=f"{name!r}", fix=nearest(name, fields))
        return cls(**{name: _from_json(value, fields[name]) for name, value in values.items()})

    @classmethod
    def _typed_fields(cls) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
        kinds = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
            yield field, kinds[field.name]


def _prefix(field: dataclasses.Field[Any]) -> str:
    return f"{field.name}_" if field.metadata.get("prefixed") else ""


def _spoken(kind: Any) -> Any:
    """The type without what only Python can give."""
    parts = typing.get_args(kind)
    left = [part for part in parts if not _is_python_value(part)]
    return kind if len(left) == len(parts) else functools.reduce(operator.or_, left)


def _is_python_value(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PythonValue)


def flag_of(name: str) -> str:
    """An option as the command line writes it: `--label-smoothing`, and `--class` of the name `class_`."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def words_for(name: str, value: Any) -> list[str]:
    """What sets an option on the command line."""
    if isinstance(value, bool):
        return [flag_of(name if value else f"no_{name}")]
    if isinstance(value, str) and value.startswith("-"):  # which would be read as a flag of its own
        return [f"{flag_of(name)}={value}"]
    return [flag_of(name), *map(str, value if isinstance(value, tuple) else [value])]


def describe_type(kind: Any) -> str:
    """A type as a user would say it: `int`, `sgd | adam`, `int ...`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join("none" if part is type(None) else describe_type(part) for part in arguments)
    if origin is tuple:
        return f"{describe_type(arguments[0])} ..."
    return "text" if kind is str else kind.__name__.lower()


def describe_value(value: Any) -> str:
    """A value as a user would say it: `none`, `yes`, `256 256`."""
    if isinstance(value, tuple):
        return " ".join(map(describe_value, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _to_json(value: Any) -> Any:
    if isinstance(value, Config | PythonValue):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _from_json(value: Any, kind: Any) -> Any:
    arguments = typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Config):
        return kind.from_dict(value)
    if isinstance(value, dict) and any(map(_is_python_value, arguments)):
        return next(filter(_is_python_value, arguments)).from_dict(value)
    if isinstance(value, PythonValue):
        return value
    if _spoken(kind) != kind:
        return _from_json(value, _spoken(kind))
    if len(arguments) == 2 and type(None) in arguments:
        return value if value is None else _from_json(value, next(part for part in arguments if part is not type(None)))
    if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_from_json(item, arguments[0]) for item in value)
    if typing.get_origin(kind) is tuple and arguments[0] is Path and isinstance(value, str | Path):
        return (Path(value),)
    if typing.get_origin(kind) is tuple and arguments[0] is str and isinstance(value, str):
        return (value,)
    if isinstance(value, str) and (kind is Path or Path in arguments):
        return Path(value)
    return value


def _require_type(name: str, value: Any, kind: Any) -> None:
    if not _fits(value, kind):
        raise InputError(f"{name} must be {describe_type(_spoken(kind))}", got=f"{value!r}")


def _fits(value: Any, kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return value in arguments
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, arguments[0]) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:  # in a file it may have any number of digits
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**200
    return isinstance(value, kind)


def _require_bounds(name: str, value: Any, above: float | None, low: float | None, high: float | None) -> None:
    for item in value if isinstance(value, tuple) else (value,):
        if above is not None and item is not None and not item > above:
            raise InputError(f"{name} must be above {above:g}", got=f"{item!r}")
        if low is not None and item is not None and not item >= low:
            raise InputError(f"{name} must be at least {low:g}", got=f"{item!r}")
        if high is not None and item is not None and not item <= high:
            raise InputError(f"{name} must be at most {high:g}", got=f"{item!r}")
