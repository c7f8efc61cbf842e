"""Which options a search goes over: those that declare a range, except what the user gave, as the user changes it.

--over learning-rate=1e-4..1e-2 dropout=0,0.1,0.2       over={"learning_rate": (1e-4, 1e-2), "dropout": [0, 0.1, 0.2]}
"""

import math
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from neuropil.config import Config, Option, describe_value, flag_of
from neuropil.data.splits import SplitConfig
from neuropil.errors import InputError, nearest
from neuropil.ranges import Choices, Range, Searched

LOG_FROM = 10
"""A range whose end is so many times its beginning is searched by logarithms."""
INCOMPARABLE = {
    **dict.fromkeys(("epochs", "updates", "minutes"), "in length"),
    **dict.fromkeys(("monitor", "keep", "patience"), "in what they are compared by"),
    **dict.fromkeys(("loss", "likelihood", "prediction", "mask_probability", "defence", "eps"), "in what they measure"),
    **dict.fromkeys(("class_weights", "horizon_weights", "beta", "free_bits"), "in what they measure"),
    **dict.fromkeys(("nu_up", "nu_down", "nu_target"), "in what they measure"),
    **dict.fromkeys(("window", "negatives", "noise_exponent", "subsample"), "in what they measure"),
    **dict.fromkeys(("vocabulary_size", "shared_vocabulary", "tokens", "max_tokens", "lowercase"), "in their tokens"),
    **dict.fromkeys(("checkpoint_seconds", "device", "tensorboard", "threads"), "in nothing that is measured"),
}
"""Options that are not searched, and in what trials would differ if they were."""


def search_space(
    typed: Config, given: Mapping[str, Any], over: Mapping[str, Any], *, idle: Collection[str] = ()
) -> dict[str, Searched]:
    """By the names of options. `typed` options are the defaults with what was `given`, which stays as it is, as do
    those that have no effect beside it, and `idle` ones, which have none on the data."""
    known = {each.name: each for each in typed.options()}
    for name in over:
        if name not in known:
            rule = "what is searched must be an option that `neuropil show` lists"
            raise InputError(rule, got=f"{name!r}", fix=nearest(name, known))
        if name in given:
            raise InputError(f"{flag_of(name)} is given or searched", got="both", fix="leave one out")
    data = getattr(typed, "data", None)
    parts = {each.name for each in data.options()} if isinstance(data, SplitConfig) else set[str]()
    fixed = {*given, *idle, *typed.idle_options()}
    declared = {name: each.tune for name, each in known.items() if each.tune is not None and name not in fixed}
    if given.get("start"):  # a model to start from has sizes of its own
        sizes = {each.name for each in getattr(typed, "model", typed).options()}
        declared = {name: each for name, each in declared.items() if name not in sizes or isinstance(each, Range)}
    space = declared | {name: searched_by(known[name], value, parts) for name, value in over.items()}
    if not space:
        fix = "leave one of them out, or name what to search with --over"
        raise InputError("there must be an option to search", got="a value for each", fix=fix)
    return space


def searched_by(option: Option, value: Any, parts: Collection[str] = ()) -> Searched:
    """What a user wants searched of an option: a pair of numbers is a range, a list is of values. `parts` are options
    of the data."""
    flag = flag_of(option.name)
    if option.name in parts or option.name in INCOMPARABLE:
        reason = INCOMPARABLE.get(option.name, "in their data")
        raise InputError(f"{flag} cannot be searched, since trials would differ {reason}", fix="leave it out")
    if isinstance(value, tuple) and len(value) == 2:
        return _range(option, *value)
    if isinstance(value, Range | Choices):
        ends = (value.low, value.high) if isinstance(value, Range) else value.values
        for end in ends:
            option.require(end)
        return value
    if not isinstance(value, list):
        rule = f"what is searched of {flag} must be a pair (low, high) or a list of values"
        raise InputError(rule, got=f"{value!r}")
    values = tuple(dict.fromkeys(tuple(each) if isinstance(each, list) else each for each in value))
    for each in values:
        option.require(each)
    if len(values) < 2:
        got = f"{describe_value(values[0])} alone" if values else "none"
        raise InputError(f"a search over {flag} needs two values at least", got=got, fix=f"or fix it with {flag}")
    return Choices(values)


def _range(option: Option, low: Any, high: Any) -> Range:
    flag = flag_of(option.name)
    if not is_number(option):
        raise InputError(f"a range is for numbers, and {flag} is not one", got=f"{low}..{high}", fix="list its values")
    option.require(low)
    option.require(high)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"a range of {flag} must go from a number to a larger one", got=f"{low:g}..{high:g}")
    return Range(low, high, log=low > 0 and LOG_FROM * low <= high)


def parse_over(words: Sequence[str], options: Mapping[str, Option]) -> dict[str, Any]:
    """From the command line: `learning-rate=1e-4..1e-2` and `dropout=0,0.1,0.2`."""
    over: dict[str, Any] = {}
    for word in words:
        written, equals, value = word.partition("=")
        name = written.removeprefix("--").replace("-", "_")
        if not equals:
            fix = "write for instance learning-rate=1e-4..1e-2 or dropout=0,0.1,0.2"
            raise InputError("--over is followed by an option, = and what to search", got=f"{word!r}", fix=fix)
        if name not in options:
            rule = "what is searched must be an option that `neuropil show` lists"
            fix = nearest(written, [flag_of(each).removeprefix("--") for each in options])
            raise InputError(rule, got=f"{written!r}", fix=fix)
        option = options[name]
        low, dots, high = value.partition("..")
        if dots:
            over[name] = (_value(option, low), _value(option, high))
        else:
            over[name] = [_value(option, each.strip()) for each in value.split(",") if each.strip()]
    return over


def words_of(over: Mapping[str, Any]) -> tuple[str, ...]:
    """As the command line has it."""
    return tuple(f"{flag_of(name).removeprefix('--')}={describe_searched(value)}" for name, value in over.items())


def describe_searched(value: Any) -> str:
    if isinstance(value, Range):
        value = (value.low, value.high)
    if isinstance(value, tuple):
        return "..".join(f"{end:.4g}" if isinstance(end, float) else str(end) for end in value)
    values = value.values if isinstance(value, Choices) else value
    return ",".join(describe_value(each) for each in values)


def whole_numbers(typed: Config, space: Mapping[str, Searched]) -> list[str]:
    """The names of options that are."""
    return [
        each.name
        for each in typed.options()
        if each.name in space and int in _kinds(each) and float not in _kinds(each)
    ]


def is_number(option: Option) -> bool:
    return bool({int, float} & set(_kinds(option)))


def _kinds(option: Option) -> tuple[Any, ...]:
    """The types that a value may have."""
    origin = typing.get_origin(option.type)
    return (option.type,) if origin is None or origin in (tuple, typing.Literal) else typing.get_args(option.type)


def _value(option: Option, word: str) -> Any:
    """A word as a value of the option: a number, a name, several numbers (`64 64`), yes or no, or none."""
    for kind in _kinds(option):
        with_type = typing.get_origin(kind) or kind
        try:
            if kind is type(None) and word == "none":
                return None
            if kind in (int, float):
                return kind(word)
            if with_type is tuple:
                return tuple(typing.get_args(kind)[0](each) for each in word.split())
            if kind is bool and word in ("yes", "no"):
                return word == "yes"
        except ValueError:
            continue
    return word  # a name, or what `require` will refuse
