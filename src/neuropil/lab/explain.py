"""What stands beside a view: the equations of its system, and the source lines that compute what is shown."""

import inspect
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from types import ModuleType
from typing import Any

import neuropil
from neuropil import recipes
from neuropil.errors import InputError
from neuropil.lab.equations import paragraphs
from neuropil.lab.view import LabView

PACKAGE = Path(neuropil.__file__).parent


def equations_of(system: str) -> list[Any]:
    """The docstring of the system's model: texts, and blocks of lines of MathML and text."""
    return [
        block if isinstance(block, str) else [list(map(list, line.parts)) for line in block]
        for block in paragraphs(recipes.recipe(system).equations)
    ]


def code_of(view: LabView) -> list[dict[str, Any]]:
    return [source_of(name) for name in view.code]


@cache
def source_of(name: str) -> dict[str, Any]:
    """Of a function or class by its dotted name: its lines, and where they stand."""
    found = _found(name)
    target = inspect.unwrap(getattr(found, "py_func", found))  # Numba's functions keep Python's
    lines, first = inspect.getsourcelines(target)
    file = Path(inspect.getsourcefile(target) or "").relative_to(PACKAGE)
    return {"name": name, "file": file.as_posix(), "first": first, "lines": "".join(lines).rstrip("\n")}


def _found(name: str) -> Any:
    """The module is the longest part of the name that is one."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: ModuleType | Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise InputError("code is shown of what neuropil has", got=f"{name!r}")


def source_file(file: str) -> str:
    """A source file of the package, and of nothing else."""
    path = PACKAGE / file
    if path not in PACKAGE.rglob("*.py"):
        raise InputError("a source file must be one of neuropil's", got=f"{file[:100]!r}")
    return path.read_text(encoding="utf-8")


def page_folder() -> Path:
    return Path(str(resources.files("neuropil.lab") / "page"))
