"""Data in memory, for another process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from neuropil.data.formats.memory import in_memory
from neuropil.data.formats.memory_file import read_memory, write_memory

PICTURE = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))


@pytest.mark.parametrize(
    "data",
    [
        (np.arange(6.0).reshape(3, 2), ["a", "b", "a"]),
        (np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 0]), np.array([0.5, 1.0, 2.0])),
        np.arange(6.0),
        (np.eye(3), np.eye(3, dtype=int)[:, :2]),
        {"text": ["ü\ud800", ""], "size": [1.5, float("nan")], "tags": [["x"], []]},
        [np.zeros((2, 2)), np.ones((1, 3))],
        [(PICTURE, "a"), (PICTURE.convert("L"), "b"), (PICTURE.convert("CMYK"), "b"), (PICTURE.convert("1"), "b")],
        {"train": (np.eye(2), [0, 1]), "test": (np.eye(2), [1, 0])},
    ],
)
def test_data_is_read_as_it_was_written(data: Any, tmp_path: Path):
    written = in_memory(data, parts=True)
    write_memory(tmp_path / "data.npz", written)
    read = read_memory(tmp_path / "data.npz")
    assert read == written  # by the fingerprints of their columns
    own = ("kind", "name", "answer", "answers", "weight", "dates", "unnamed")
    for one, other in [(read, written), *((read.parts[name], part) for name, part in written.parts.items())]:
        assert [getattr(one, name) for name in own] == [getattr(other, name) for name in own]
        assert one.names == other.names
