"""A form for a recipe's options, as plain data made from its Config; and back, from what a form was filled with to
options that the Config has checked."""

import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from neuropil import recipes
from neuropil.config import Config, Option, describe_type, flag_of, option, words_for
from neuropil.errors import InputError

KINDS = {int: "integer", float: "number", bool: "switch", str: "text", Path: "path"}
MOST_CHARACTERS, MOST_ITEMS = 4_000, 1_000
"""Of one value, and of one list."""


class StartOptions(Config):
    """What every run has beside the options of its system."""

    seed: int = option(0, "random seed: the same seed gives the same results", low=0)


@dataclass(frozen=True)
class FilledForm:
    """`options` are those that were given, checked; `command` are the words that start the run, without its folder."""

    system: str
    seed: int
    options: Mapping[str, Any]
    command: Sequence[str]


def form(name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every option of a system, in groups. The defaults are those for what is given already: data of one's own, a model
    to start from, a size."""
    system, recipe = recipes.find(name), recipes.recipe(name)
    defaults = recipe.defaults_for(_read(recipe.options, given or {}))
    fields = [_field(each) for each in [*defaults.options(), *StartOptions().options()]]
    return {
        "system": system.name,
        "verb": recipe.verb,
        "summary": system.summary,
        "groups": list(dict.fromkeys(each["group"] for each in fields)),
        "options": fields,
        "sizes": list(recipe.sizes),
        "own_data": any(each["name"] == "data" for each in fields),
        "tunable": recipe.tunable,
    }


def filled(name: str, values: Mapping[str, Any]) -> FilledForm:
    """What a form was filled with, of which only what was changed need be given: words as they were typed, or values of
    JSON. A wrong one is refused with the sentence that the command line would say."""
    system, recipe = recipes.find(name), recipes.recipe(name)
    seed = StartOptions().override(**_read(StartOptions(), _only(values, StartOptions()))).seed
    options = _read(recipe.options, {each: value for each, value in values.items() if each != "seed"})
    typed = {each.name: each.default for each in recipe.defaults_for(options).override(**options).options()}
    given = {each: _whole_path(typed[each]) for each in options}
    words = [word for each, value in given.items() for word in words_for(each, value)]
    words += words_for("seed", seed) if seed else []
    return FilledForm(system.name, seed, given, ["neuropil", recipe.verb, system.name, *words])


def given_by(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a form was filled with for a run, by its settings: the options in which it differs from the defaults."""
    recipe = recipes.recipe(settings["recipe"])
    chosen = type(recipe.options).from_dict(settings["options"])
    values = {each.name: each.default for each in chosen.options()}
    defaults = {each.name: each.default for each in recipe.defaults_for(values).options()}
    found = {name: _plain(value) for name, value in values.items() if value != defaults[name]}
    return found | ({"seed": settings["seed"]} if settings["seed"] else {})


def blamed(error: InputError, name: str) -> str | None:
    """The option that a sentence is about, so that a form can show it there."""
    first = error.rule.partition(" ")[0].removeprefix("--").replace("-", "_")
    known = {each["name"] for each in form(name)["options"]}
    return first if first in known else None


def _only(values: Mapping[str, Any], config: Config) -> dict[str, Any]:
    return {each.name: values[each.name] for each in config.options() if each.name in values}


def _whole_path(value: Any) -> Any:
    """A run may be started from another directory than the form was filled in."""
    if isinstance(value, tuple):
        return tuple(map(_whole_path, value))
    return value.expanduser().absolute() if isinstance(value, Path) else value


# --- one option -------------------------------------------------------------------------------------------------------


def _field(option: Option) -> dict[str, Any]:
    kind = _without_none(option.type)
    item = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    choices = typing.get_args(item) if typing.get_origin(item) is Literal else ()
    basic = "choice" if choices else KINDS[item]
    return {
        "name": option.name,
        "flag": flag_of(option.name),
        "label": option.name.rstrip("_").replace("_", " "),
        "kind": "list" if item is not kind else basic,
        "item": basic if item is not kind else None,
        "choices": list(choices),
        "optional": kind is not option.type,
        "default": _plain(option.default),
        "low": option.low,
        "high": option.high,
        "above": option.above,
        "help": option.help,
        "group": option.group or "general",
        "searched": option.tune is not None,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _without_none(kind: Any) -> Any:
    parts = typing.get_args(kind)
    return next(part for part in parts if part is not type(None)) if type(None) in parts else kind


def _read(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Words as values of the type that an option has; an unknown name is left for the Config to refuse."""
    known, read = {each.name: each for each in config.options()}, dict(values)
    for name, value in values.items():
        if name in known:
            read[name] = _value(known[name], value)
            known[name].require(read[name])
    return read


def _value(option: Option, given: Any) -> Any:
    kind = _without_none(option.type)
    if kind is not option.type and (given is None or given == ""):
        return None
    if typing.get_origin(kind) is not tuple:
        return _item(option, given, kind)
    item = typing.get_args(kind)[0]
    if isinstance(given, str) and item in (int, float):
        given = [word for word in re.split(r"[\s,]+", given) if word]
    several = given if isinstance(given, list | tuple) else [given]
    if len(several) > MOST_ITEMS:
        raise InputError(f"{option.name} must have at most {MOST_ITEMS:,} values", got=f"{len(several):,}")
    for each in several:
        if item is str and isinstance(each, str) and each.startswith("-"):
            raise InputError(f"{option.name} must not hold what begins with a hyphen, as a flag does", got=f"{each!r}")
    return tuple(_item(option, each, item) for each in several)


def _item(option: Option, given: Any, kind: Any) -> Any:
    if not isinstance(given, str):
        return given  # a value of JSON, which the option checks
    if len(given) > MOST_CHARACTERS or "\0" in given:
        raise InputError(f"{option.name} must be a text of at most {MOST_CHARACTERS:,} characters", got="another")
    if kind in (str, Path) and given.startswith("--"):
        raise InputError(f"{option.name} must not begin with two hyphens, as a flag does", got=f"{given!r}")
    if kind is Path:
        if not given:
            raise InputError(f"{option.name} must be a path", got="nothing")
        return Path(given)
    if kind not in (int, float):
        return next((each for each in typing.get_args(kind) if str(each) == given), given)
    try:
        return kind(given.strip())
    except ValueError:
        raise InputError(f"{option.name} must be {describe_type(option.type)}", got=f"{given!r}") from None
