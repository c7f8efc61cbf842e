"""Pictures that a user gives to a trained model: as bytes in a tensor or an array, one or several, or as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import read_inputs
from neuropil.errors import InputError


def pictures_of(inputs: Any, shape: tuple[int, ...]) -> UInt8[Tensor, "picture channel height width"]:
    """Of the shape that the model was made for; one without a channel axis, or alone, gets what it lacks."""
    if isinstance(inputs, str | Path) or (
        isinstance(inputs, list | tuple) and all(isinstance(item, str | Path) for item in inputs)
    ):
        inputs, _ = read_pictures(
            [Path(path) for path in ([inputs] if isinstance(inputs, str | Path) else inputs)], shape
        )
    tensor = inputs if isinstance(inputs, Tensor) else torch.from_numpy(np.ascontiguousarray(inputs))
    for whole in (tuple(tensor.shape), (1, *tensor.shape), (1, 1, *tensor.shape), (len(tensor), 1, *tensor.shape[1:])):
        if whole[1:] == shape and tensor.dtype == torch.uint8:
            return tensor.reshape(whole)
    expected = ", ".join(["picture", *map(str, shape)])
    raise InputError(
        f"pictures must be bytes of the shape ({expected})", got=f"{tuple(tensor.shape)} of {tensor.dtype}"
    )


def read_pictures(paths: Sequence[Path], shape: tuple[int, ...]) -> tuple[Tensor, list[str]]:
    """Files brought to the shape, and a name for each picture."""
    return read_inputs(paths, Schema(kind="image", shape=shape, classes=()))
