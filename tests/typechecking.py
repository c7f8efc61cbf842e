"""The type checker that tests switch on for the whole package: jaxtyping's shapes and every annotation, by beartype.

jaxtyping's own decorator binds each call's arguments by name and checks them twice, to word an error well; that took
half of the time of all tests. Here one call of beartype checks arguments and result, with axes that mean the same
within the call: the first calls of a function in each test, and then one in ten, since loops repeat themselves. For
the same reason a function inside another, which is made anew at each call, is watched the first times it is made.
"""

import dataclasses
import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from types import CodeType
from typing import Any, Self, get_args

import jaxtyping
import torch
from beartype import BeartypeConf, beartype
from jaxtyping._storage import pop_shape_memo, push_shape_memo

# A whole number is a number: `float` accepts `int`, as every type checker reads it.
CONFIGURATION = BeartypeConf(is_pep484_tower=True)
ALWAYS, THEN_EVERY, MADE = 50, 10, 5
thorough = jaxtyping.jaxtyped
MODULES = {
    "neuropil.inspection.recording": "Attentive",
    "neuropil.tasks.classification.experiment": "Standardized",
    "neuropil.tasks.generation.predictor": "LatentModel",
    "neuropil.tasks.reconstruction.predictor": "Coder",
}
"""Protocols that ask for a module inside a module."""
calls = Counter[Callable[..., Any] | CodeType]()
"""Of the functions with axes, in the test that is running; and how often functions inside others were made."""


def checked(target: Callable[..., Any]) -> Callable[..., Any]:
    """beartype understands `Self` only when it sees the class, and sees one method at a time: that hint is left out."""
    hints = getattr(target, "__annotations__", {})
    if Self in hints.values():
        target.__annotations__ = {name: hint for name, hint in hints.items() if hint is not Self}
    return beartype(conf=CONFIGURATION)(target)


def jaxtyped(target: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """In place of jaxtyping's, for a function, a method of any kind or a dataclass."""
    decorate = functools.partial(jaxtyped, typechecker=typechecker)
    if target is None:
        return decorate
    if isinstance(target, classmethod | staticmethod):
        return type(target)(decorate(target.__func__))
    if inspect.isclass(target):
        if dataclasses.is_dataclass(target) and "__init__" in vars(target):
            target.__init__ = decorate(target.__init__)
        return target
    if inspect.isfunction(target) and not target.__annotations__:
        return target  # there is nothing to check, and Numba compiles functions, not wrappers
    if inspect.isfunction(target) and "<locals>" in target.__qualname__:
        calls[target.__code__] += 1
        if calls[target.__code__] > MADE:
            return target
    if not inspect.isfunction(target) or _needs_care(target):
        return thorough(target, typechecker=typechecker)
    function = typechecker(target)
    if not any(_has_axes(hint) for hint in target.__annotations__.values()):
        return function

    @functools.wraps(target)
    def within_own_axes(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        if torch.compiler.is_compiling():
            return target(*arguments, **options)  # a traced program has symbols for sizes
        calls[target] += 1
        if calls[target] > ALWAYS and calls[target] % THEN_EVERY:
            return target(*arguments, **options)
        push_shape_memo({})
        try:
            return function(*arguments, **options)
        finally:
            pop_shape_memo()

    return within_own_axes


def tell_of_modules() -> None:
    """From Python 3.12 on, `isinstance`, by which beartype knows a protocol, overlooks modules inside modules."""
    if sys.version_info >= (3, 12):
        for file, name in MODULES.items():
            getattr(import_module(file), name).register(torch.nn.Module)


def _needs_care(function: Callable[..., Any]) -> bool:
    """What yields is not to be watched, `Self` would be taken from the real function, and names may be known later."""
    hints = function.__annotations__.values()
    return inspect.isgeneratorfunction(function) or any(hint is Self or isinstance(hint, str) for hint in hints)


def _has_axes(hint: Any) -> bool:
    named = inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray)
    return named or any(_has_axes(part) for part in get_args(hint))


jaxtyping.__dict__["jaxtyped"] = jaxtyped  # the import hook looks it up there for each function
