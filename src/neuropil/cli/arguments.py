"""From words to values: tyro reads them into a Config, and a word that does not fit gets one sentence."""

import contextlib
import dataclasses
import io
import shlex
import types
import typing
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from neuropil.config import Config, Option, describe_type, describe_value, flag_of, option
from neuropil.errors import InputError, did_you_mean, nearest

C = TypeVar("C", bound=Config)


class Arguments(Config):
    """What a command is given."""

    json: bool = option(False, "print JSON for other programs: an object on each line")


def parse(
    defaults: C,
    words: Sequence[str],
    *,
    command: str,
    about: str,
    positional: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> C:
    """`defaults` with what the words say; the fields named in `positional` are given without a flag, and must be,
    unless they are `optional` too. `--help` prints and exits."""
    import tyro

    options = sorted(defaults.options(), key=lambda each: (each.name not in positional, each.name == "json"))
    fields = [_field(option, option.name in positional, option.name in optional) for option in options]
    form = dataclasses.make_dataclass("Form", fields)
    form.__doc__ = about
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            args = _gathered(words, options)
            values = tyro.cli(form, prog=f"neuropil {command}", args=args, compact_help=False)
    except SystemExit as exit:
        if exit.code:
            raise _explain(options, positional, words, command) from None
        raise
    try:
        return defaults.override(**{option.name: getattr(values, option.name) for option in options})
    except InputError as error:  # whose rule begins with the name of an option as Python writes it
        name, _, rest = error.rule.partition(" ")
        if not rest.startswith("must ") or name not in {option.name for option in options} - set(positional):
            raise
        raise InputError(f"{flag_of(name)} {rest}", got=error.got, fix=error.fix) from None


def _field(option: Option, positional: bool, optional: bool) -> tuple[str, Any, Any]:
    import tyro

    default = "" if option.default in (None, (), "") else f"(default: {describe_value(option.default)})"
    shown = "(required)" if positional and not optional else default
    name = None if positional else flag_of(option.name).removeprefix("--")
    form = tyro.conf.arg(name=name, help=option.help, metavar=_metavar(option, positional), help_behavior_hint=shown)
    kind = Annotated[option.type, form]
    if positional:  # where it is required, the placeholder in the Config is no default
        place = dataclasses.field(default=option.default) if optional else dataclasses.field()
        return option.name, Annotated[kind, tyro.conf.Positional], place
    return option.name, kind, dataclasses.field(default=option.default)


def _gathered(words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """A list that is given in pieces, as in `--ignore a --ignore b`, in one; tyro would keep the last piece alone."""
    lists = {flag_of(option.name) for option in options if _is_list(option)}
    others, pieces, flag = list[str](), dict[str, list[list[str]]](), ""
    for word in words:
        name, equals, value = word.partition("=")
        if name in lists:
            flag = name
            pieces.setdefault(flag, []).append([value] if equals else [])
        elif word.startswith("--") or not flag:
            flag = ""
            others.append(word)
        else:
            pieces[flag][-1].append(word)
    if all(len(several) == 1 for several in pieces.values()):
        return list(words)
    return [*others, *(word for flag, several in pieces.items() for word in (flag, *chain(*several)))]


def _metavar(option: Option, positional: bool) -> str | None:
    """A positional argument by its name, others by their type; choices and switches show themselves."""
    kind = _without_none(option.type)
    several = _is_list(option)
    if positional:
        return f"{option.name.removesuffix('s').upper()} ..." if several else option.name.upper()
    if several:
        return describe_type(kind).upper()
    return None if typing.get_origin(kind) or kind is bool else describe_type(kind).upper()


def _is_text(option: Option) -> bool:
    return _without_none(option.type) in (str, Path)


def _is_list(option: Option) -> bool:
    return typing.get_origin(_without_none(option.type)) is tuple


def _without_none(kind: Any) -> Any:
    """Leaving out an option that may be none is how one says none, so a user is told of the rest only."""
    parts = typing.get_args(kind)
    return parts[0] if type(None) in parts else kind


def _explain(options: Sequence[Option], positional: Sequence[str], words: Sequence[str], command: str) -> InputError:
    """Find the first word that cannot be right."""
    help_line = f"see neuropil {command} --help"
    flags: dict[str, Option] = {}
    for each in options:
        if each.name not in positional:
            flags[flag_of(each.name)] = each
            if each.type is bool:
                flags[flag_of(f"no_{each.name}")] = each
    current: Option | None = None
    free = [each for each in options if each.name in positional]
    given = ""
    for word in words:
        name, _, attached = word.partition("=")
        if word.startswith("--") or (word.startswith("-") and word[1:2].isalpha()):
            name = name.replace("_", "-")
            if name not in flags:
                fix = did_you_mean(name, flags) or help_line
                return InputError(f"neuropil {command} must be given its own options", got=f"{name!r}", fix=fix)
            current, given, word = flags[name], name, attached
            if current.type is bool and not attached:
                current = None
        elif current is None and not free:
            return _left_over(command, word, given, help_line)
        if not word or current is None:
            continue
        if not _readable(word, current.type):
            return _bad_value(flag_of(current.name), current, word)
        if not _is_list(current):
            given = f"{given} {word}" if _is_text(current) else ""
            current = None
    if current is not None:
        return InputError(
            f"{flag_of(current.name)} must be followed by {describe_type(_without_none(current.type))}",
            got="nothing",
            fix=help_line,
        )
    got = " ".join(words) or "nothing"
    if free:
        return InputError(
            f"neuropil {command} needs {' and '.join(o.name.upper() for o in free)}", got=repr(got), fix=help_line
        )
    return InputError(f"neuropil {command} takes only options after its name", got=repr(got), fix=help_line)


def _left_over(command: str, word: str, given: str, help_line: str) -> InputError:
    """A word that belongs to no option: perhaps the rest of a text that was `given` to the option before it."""
    rule, got = f"neuropil {command} takes only options after its name", repr(word)
    flag, _, begun = given.partition(" ")
    if not begun:
        return InputError(rule, got=got, fix=help_line)
    fix = f"quote a value of several words, as in {flag} {shlex.quote(f'{begun} {word}')}"
    return InputError(rule, got=f"{got} after {given}", fix=fix)


def _bad_value(flag: str, option: Option, word: str) -> InputError:
    choices = (
        [str(choice) for choice in typing.get_args(option.type)] if typing.get_origin(option.type) is Literal else []
    )
    fix = nearest(word, choices) if choices else None
    return InputError(f"{flag} must be {describe_type(_without_none(option.type))}", got=repr(word), fix=fix)


def _readable(word: str, kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return word in map(str, arguments)
    if origin in (typing.Union, types.UnionType):
        return any(_readable(word, part) for part in arguments)
    if origin is tuple:
        return _readable(word, arguments[0])
    if kind is type(None):
        return word == "None"
    if kind in (int, float):
        try:
            kind(word)
        except ValueError:
            return False
    return True
