"""The embedded data set: 1,797 digits of 8×8, written by 43 people, that scikit-learn carries."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import torch
from einops import rearrange

from neuropil.data.examples.dataset import Examples, Schema


def load_digits() -> Examples:
    """Read from scikit-learn's file directly: importing its `datasets` takes a hundred times as long."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("neuropil needs scikit-learn, which carries the digits")
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    pixels, targets = torch.from_numpy(table[:, :64]), torch.from_numpy(table[:, 64])
    images = (pixels * 255 / 16).round().to(torch.uint8)
    return Examples(
        inputs=rearrange(images, "example (height width) -> example 1 height width", height=8),
        targets=targets.contiguous(),
        schema=Schema(kind="image", shape=(1, 8, 8), classes=tuple("0123456789")),
        source="1,797 hand-written digits of 8×8 (scikit-learn)",
    )
