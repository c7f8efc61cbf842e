"""The type checker that tests switch on for the whole package: jaxtyping's shapes and every other annotation, executed
by beartype."""

from collections.abc import Callable
from typing import Any, Self

import jaxtyping
from beartype import BeartypeConf, beartype

# A whole number is a number: `float` accepts `int`, as every type checker reads it.
CONFIGURATION = BeartypeConf(is_pep484_tower=True)


def checked(target: Callable[..., Any]) -> Callable[..., Any]:
    """beartype understands `Self` only when it sees the class, and jaxtyping shows it one method at a time: that one
    hint is left out."""
    hints = getattr(target, "__annotations__", {})
    if Self in hints.values():
        target.__annotations__ = {name: hint for name, hint in hints.items() if hint is not Self}
    return beartype(conf=CONFIGURATION)(target)


def leave_unannotated_functions_alone() -> None:
    """jaxtyping's import hook would wrap every function. One without annotations has nothing to check, and Numba
    compiles functions, not wrappers: compiled functions have none."""
    wrap: Any = jaxtyping.jaxtyped

    def wrap_annotated(**options: Any) -> Callable[..., Any]:
        return lambda target: target if getattr(target, "__annotations__", None) == {} else wrap(target, **options)

    jaxtyping.jaxtyped = wrap_annotated
