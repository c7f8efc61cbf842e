"""From words to values: tyro reads them into a Config, and a word that does not fit gets one sentence."""

import contextlib
import dataclasses
import io
import types
import typing
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from neuropil.config import Config, Option, describe_type
from neuropil.errors import InputError, nearest

C = TypeVar("C", bound=Config)


class Arguments(Config):
    """What a command is given."""

    named: ClassVar[bool] = False


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

    options = defaults.options()
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
    return defaults.override(**{option.name: getattr(values, option.name) for option in options})


def _field(option: Option, positional: bool, optional: bool) -> tuple[str, Any, Any]:
    import tyro

    kind = Annotated[option.type, tyro.conf.arg(help=option.help, metavar=_metavar(option))]
    if positional:  # where it is required, the placeholder in the Config is no default
        place = dataclasses.field(default=option.default) if optional else dataclasses.field()
        return option.name, Annotated[kind, tyro.conf.Positional], place
    return option.name, kind, dataclasses.field(default=option.default)


def _gathered(words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """A list that is given in pieces, as in `--ignore a --ignore b`, in one; tyro would keep the last piece alone."""
    lists = {f"--{option.name.replace('_', '-')}" for option in options if _is_list(option)}
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


def _metavar(option: Option) -> str | None:
    """Choices and switches show themselves."""
    kind = _without_none(option.type)
    if _is_list(option) and kind != option.type:
        return describe_type(kind).upper()
    return None if typing.get_origin(kind) or kind is bool else describe_type(kind).upper()


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
    for option in options:
        if option.name not in positional:
            flags[f"--{option.name.replace('_', '-')}"] = option
            if option.type is bool:
                flags[f"--no-{option.name.replace('_', '-')}"] = option
    current: Option | None = None
    free = [option for option in options if option.name in positional]
    for word in words:
        name, _, attached = word.partition("=")
        if word.startswith("--"):
            name = name.replace("_", "-")
            if not flags:
                return InputError(f"neuropil {command} takes no options", got=f"{name!r}", fix="leave it out")
            if name not in flags:
                return InputError(
                    f"neuropil {command} must be given its own options", got=f"{name!r}", fix=nearest(name, flags)
                )
            current = flags[name]
            word = attached
        if not word or current is None:
            continue
        if not _readable(word, current.type):
            return _bad_value(f"--{current.name.replace('_', '-')}", current, word)
        if not _is_list(current):
            current = None
    if current is not None:
        return InputError(
            f"--{current.name.replace('_', '-')} must be followed by {describe_type(_without_none(current.type))}",
            got="nothing",
            fix=help_line,
        )
    got = " ".join(words) or "nothing"
    if free:
        return InputError(
            f"neuropil {command} needs {' and '.join(o.name.upper() for o in free)}", got=repr(got), fix=help_line
        )
    return InputError(f"neuropil {command} takes only options after its name", got=repr(got), fix=help_line)


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
