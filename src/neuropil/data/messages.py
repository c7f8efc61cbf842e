"""Phrases from which the sentences of errors are made."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Shaped

from neuropil.errors import closest


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    name = closest(word, known)
    return f"did you mean {name!r}?" if name else None


def listed(names: Sequence[str], most: int = 12) -> str:
    """A list for a sentence, cut off where it would fill the screen."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def describe_array(array: Shaped[np.ndarray, "..."]) -> str:
    size = f"{'×'.join(map(str, array.shape))} values" if array.ndim else "a single value"
    return f"{size} of type {array.dtype.name}"


def describe_inputs(shape: tuple[int, ...]) -> str:
    """(13,) is "rows of 13 features", (1, 8, 8) is "grey images of 8×8"."""
    if len(shape) == 1:
        return f"rows of {shape[0]} features"
    channels, height, width = shape
    colour = {1: "grey", 3: "colour"}.get(channels, f"{channels}-channel")
    return f"{colour} images of {height}×{width}"
