"""Loops over time that Python would be too slow for, compiled by Numba.

    @compiled
    def leak(v, target, decay):
        return target + (v - target) * decay

Arithmetic keeps its order, so that a result does not depend on the machine, unless `compiled_in_any_order` lets it go.
The code is kept in `__pycache__` beside the file or, where that cannot be written, in Numba's directory of the user
(NUMBA_CACHE_DIR); where neither can be, every process compiles anew. What is kept is thrown away when its own file
changes, or any file of its package that it imports."""

import hashlib
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

FREE_ORDER = {"reassoc", "contract", "nsz"}
"""What is no number stays what it is."""
IMPORT = re.compile(r"^(?:from|import) +([\w.]+)(?: +import +(\([^)]*\)|.*))?", re.MULTILINE)


def compiled(function: Callable[..., Any]) -> Any:
    """Said outright: a function that says nothing of it is compiled with the freedom of whoever calls it first."""
    return _cached(function, fastmath=False)


def compiled_inside(function: Callable[..., Any]) -> Any:
    """For what a compiled function calls in every step: it counts no references to arrays, and can make none."""
    return _cached(function, _nrt=False)


def compiled_in_place(function: Callable[..., Any]) -> Any:
    """The same, and its code stands where it is called: for what takes tuples of many arrays, which a call would copy,
    number by number, to the stack."""
    return _cached(function, _nrt=False, forceinline=True)


def compiled_in_any_order(function: Callable[..., Any]) -> Any:
    """Sums may be made in any order, so that eight numbers are added at once."""
    return _cached(function, fastmath=FREE_ORDER)


def _cached(function: Callable[..., Any], **how: Any) -> Any:
    dispatcher: Any = njit(function, error_model="numpy", nogil=True, **how)
    with suppress(RuntimeError, OSError):  # there is no directory to keep it in
        dispatcher._cache = SourcesCache(function)
    return dispatcher


class SourcesCache(FunctionCache):
    """Numba's cache on disk knows a function by its own file. This one knows it by all files that it comes from,
    because a compiled function holds the code and the constants of other files as they were."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        packages = frozenset(name.partition(".")[0] for name in (function.__module__, __name__))
        stamp = hashlib.sha256(self._impl.locator.get_source_stamp())
        for _, digest in sorted(imported_sources(function.__module__, packages).items()):
            stamp.update(digest)
        # A name of its own: what other sources left may hold classes that are no more, and is not even opened.
        name = f"{self._impl.filename_base}-{stamp.hexdigest()[:16]}"
        self._cache_file = IndexDataCacheFile(self._cache_path, name, stamp.digest())


def imported_sources(module: str, packages: frozenset[str]) -> dict[str, bytes]:
    """The files, with their digests, that a loaded module imports from these packages at its top, and those in turn."""
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        file = getattr(sys.modules.get(waiting.pop()), "__file__", None)
        if file is not None and file not in found:
            found[file], imported = read_source(file, packages, os.stat(file).st_mtime_ns)
            waiting += imported
    return found


@cache
def read_source(file: str, packages: frozenset[str], changed: int) -> tuple[bytes, list[str]]:
    """The digest of a file as it was `changed` last, and all that may be modules among what it imports."""
    content = Path(file).read_bytes()
    imported: list[str] = []
    for module, names in IMPORT.findall(content.decode()):
        if module.partition(".")[0] in packages:
            imported += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]
    return hashlib.sha256(content).digest(), imported
