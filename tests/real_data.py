"""Real data for tests, as scikit-learn carries it."""

from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int, UInt8
from sklearn.datasets import load_diabetes, load_digits


def digits() -> tuple[UInt8[np.ndarray, "example 8 8"], Int[np.ndarray, " example"]]:
    """Pixels as bytes, and the digit that each picture shows."""
    bunch = cast(Any, load_digits())
    return (bunch.images * 255 / 16).round().astype(np.uint8), bunch.target


def diabetes() -> tuple[list[str], Float[np.ndarray, "example 10"], Float[np.ndarray, " example"]]:
    """Names of ten measurements, the measurements in their own units, and how far the disease went in a year."""
    bunch = cast(Any, load_diabetes(scaled=False))
    return bunch.feature_names, bunch.data, bunch.target
