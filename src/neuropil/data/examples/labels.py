"""From labels as a file gives them, text or numbers, to targets that a model can learn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from neuropil.data.examples.dataset import Task
from neuropil.data.messages import did_you_mean, listed
from neuropil.errors import InputError

MOST_NUMBER_CLASSES = 20
"""A column of a table with more different numbers than this is a quantity, not a class."""


@dataclass(frozen=True)
class Labels:
    """One label for each example: a number, or, where there are `names`, the position of its name."""

    values: Shaped[np.ndarray, " example"]
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def named(self) -> tuple[Int64[np.ndarray, " example"], tuple[str, ...]]:
        """For each example the position of its name, and the names; those of numbers in ascending order."""
        if self.names is not None:
            return self.values, self.names
        numbers, positions = np.unique(self.values, return_inverse=True)
        return positions, tuple(map(number_name, numbers.tolist()))

    def occurring(self) -> tuple[str, ...]:
        """The names that are in use: numbers in ascending order, texts in that of the alphabet."""
        positions, names = self.named()
        used = [names[position] for position in np.unique(positions)]
        return tuple(used if self.names is None else sorted(used))


def number_name(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def decide_task(labels: Labels, kind: Literal["image", "table"], wanted: Literal["auto"] | Task) -> Task:
    """Names are classes. So are whole numbers on images, and a few different whole numbers in a table; other numbers are quantities."""
    if labels.names is not None:
        if wanted == "regression":
            raise InputError(
                "regression predicts numbers",
                got=f"labels such as {labels.names[0]!r}",
                fix="use --task classification",
            )
        return "classification"
    if wanted != "auto":
        return wanted
    distinct = np.unique(labels.values)
    whole = bool((distinct == np.floor(distinct)).all())
    return "classification" if whole and (kind == "image" or len(distinct) <= MOST_NUMBER_CLASSES) else "regression"


def encode_classes(labels: Labels, classes: tuple[str, ...], name: Callable[[int], str]) -> Int64[Tensor, " example"]:
    """The position in `classes` of each example's label; `name` says where a label that is none of them stands."""
    positions, names = labels.named()
    known = {label: index for index, label in enumerate(classes)}
    lookup = np.array([known.get(label, known.get(_as_number(label), -1)) for label in names], dtype=np.int64)
    targets = lookup[positions]
    if (targets < 0).any():
        first = int(np.argmax(targets < 0))
        label = names[positions[first]]
        fix = did_you_mean(label, classes) or f"the classes are {listed(classes)}"
        raise InputError("each label must be a class of the training data", got=f"{label!r} ({name(first)})", fix=fix)
    return torch.from_numpy(targets)


def encode_numbers(labels: Labels) -> Float32[Tensor, "example 1"]:
    return torch.from_numpy(labels.values.astype(np.float32)[:, None])


def _as_number(label: str) -> str:
    """So that "3.0" in one file is the class "3" of another."""
    try:
        return number_name(float(label))
    except (ValueError, OverflowError):
        return label
