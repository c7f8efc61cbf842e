"""The line of source that computes something, found by what it says and not by its number."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

PACKAGE = Path(__file__).parents[2]


Owner: TypeAlias = Callable[..., Any] | ModuleType


class SourceLine(NamedTuple):
    name: str
    """Of the function, with its module: neuropil.models.lstm.LSTM.update; or of a module."""
    file: str
    """Within the package: models/lstm.py."""
    line: int
    text: str


class Computed(NamedTuple):
    """By the one line of a function or module that holds `text`."""

    owner: Owner
    text: str

    @property
    def line(self) -> SourceLine:
        return source_line(self.owner, self.text)


@functools.cache
def source_line(owner: Owner, text: str) -> SourceLine:
    if isinstance(owner, ModuleType):
        name, (lines, start) = owner.__name__, (inspect.getsource(owner).splitlines(), 1)
    else:
        owner = inspect.unwrap(owner)
        name, (lines, start) = f"{owner.__module__}.{owner.__qualname__}", inspect.getsourcelines(owner)
    found = [number for number, line in enumerate(lines) if text in line]
    if len(found) != 1:
        raise LookupError(f"{name} must have one line with {text!r}, but has {len(found)}")
    file = Path(inspect.getfile(owner)).relative_to(PACKAGE).as_posix()
    return SourceLine(name, file, start + found[0], lines[found[0]].strip())
