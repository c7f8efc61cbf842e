"""What a simulation leaves in its folder beside the report: `spikes.npz` and `traces.npz`, for `numpy.load`."""

from pathlib import Path

import numpy as np
from torch import Tensor

from neuropil.files import replacing

SPIKES, TRACES = "spikes.npz", "traces.npz"


def write_arrays(path: Path, **arrays: Tensor | np.ndarray) -> None:
    plain = {name: array.numpy(force=True) if isinstance(array, Tensor) else array for name, array in arrays.items()}
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **plain)
