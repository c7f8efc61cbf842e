"""Loops over time that Python would be too slow for, compiled by Numba.

    @compiled
    def leak(v, target, decay):
        return target + (v - target) * decay

Arithmetic keeps its order, so that a result does not depend on the machine, unless `compiled_in_any_order` lets it go. The code is kept
in `__pycache__` beside the file or, where that cannot be written, in Numba's directory of the user (NUMBA_CACHE_DIR); where neither can
be, every process compiles anew. What is kept is thrown away when its own file changes, but not when a function changes that it calls from
another file: after such an edit, touch the files that call it.
"""

import inspect
from collections.abc import Callable
from typing import Any

from numba import njit

FREE_ORDER = {"reassoc", "contract", "nsz"}
"""What is no number stays what it is."""


def compiled(function: Callable[..., Any]) -> Any:
    return _kept(function)


def compiled_inside(function: Callable[..., Any]) -> Any:
    """For what a compiled function calls in every step: it holds on to no array, so that their references are not counted. It cannot make
    any either."""
    return _kept(function, _nrt=False)


def compiled_in_any_order(function: Callable[..., Any]) -> Any:
    """Sums may be made in any order, so that eight numbers are added at once."""
    return _kept(function, fastmath=FREE_ORDER)


def _kept(function: Callable[..., Any], **how: Any) -> Any:
    plain = inspect.unwrap(function)  # tests wrap every function of the package with a check of its types
    try:
        return njit(plain, error_model="numpy", nogil=True, cache=True, **how)
    except RuntimeError:  # there is no directory to keep it in
        return njit(plain, error_model="numpy", nogil=True, **how)
